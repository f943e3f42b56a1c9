// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/kind_discovery.hpp"

#include <array>
#include <string_view>
#include <utility>

#include "registry/base/hash.hpp"
#include "registry/source/kubernetes/followed_collection.hpp"

namespace meshdns::registry::kubernetes {
namespace {

constexpr Milliseconds kFirstRetry{100};
constexpr Milliseconds kRetryLimit{4'000};
constexpr Milliseconds kRefusedRetryLimit{120'000};
// A CRD is served some time after it is there.
constexpr std::array<Milliseconds, 4> kLooksAfterCrd{Milliseconds(100), Milliseconds(400),
                                                     Milliseconds(1'500), Milliseconds(5'000)};

// The kinds that are assumed for a server that refuses discovery.
ServedKinds assumed_kinds() { return {{"endpointslices.discovery.k8s.io", "v1"}}; }

std::uint64_t hash_of_name(const ObjectRef& object) { return hash_bytes(object.name); }

}  // namespace

KindDiscovery::KindDiscovery(Discovery::Groups groups, Milliseconds poll,
                             const ReflectorOptions& options,
                             const Reflector::Environment& environment, ServerReach& reach,
                             Hooks hooks)
    : groups_(groups),
      poll_(poll),
      reflector_(options),
      environment_(environment),
      reach_(reach),
      hooks_(std::move(hooks)),
      backoff_(kFirstRetry, environment.random) {}

KindDiscovery::~KindDiscovery() = default;

void KindDiscovery::discover() {
  timer_.reset();
  discovery_ = std::make_unique<Discovery>(
      environment_.transport, environment_.scheduler, environment_.parser, groups_,
      Discovery::Outcome{[this](ServedKinds served) { on_discovered(std::move(served)); },
                         [this](const Discovery::Failure& f) { on_discovery_failed(f); }});
}

void KindDiscovery::discover_in(Milliseconds delay) {
  timer_ = environment_.scheduler.after(delay, [this] {
    if (!reach_.may_ask(&discovery_)) return discover_in(Milliseconds(1'000));
    discover();
  });
}

void KindDiscovery::on_discovered(ServedKinds served) {
  environment_.server.multiplexes = discovery_->is_multiplexed();
  discovery_.reset();
  backoff_.reset();
  refused_since_.reset();
  error_.clear();
  served_ = std::move(served);
  hooks_.on_answer(&discovery_, Trouble::None, {});
  follow_crds();
  if (!looks_to_come_.empty()) {
    const Milliseconds next = looks_to_come_.front();
    looks_to_come_.erase(looks_to_come_.begin());
    discover_in(next);
  } else if (!crds_ || !crds_->status().watching) {
    discover_in(poll_ + Milliseconds(static_cast<Milliseconds::rep>(
                            environment_.random() * static_cast<double>(poll_.count()))));
  }
  hooks_.on_served();
}

void KindDiscovery::on_discovery_failed(const Discovery::Failure& failure) {
  discovery_.reset();
  error_ = "discovery: " + failure.message;
  hooks_.on_answer(&discovery_, failure.trouble, failure.message);
  const bool is_refused = failure.trouble == Trouble::Forbidden;
  if (!is_refused) refused_since_.reset();
  if (is_refused && !refused_since_) refused_since_ = environment_.scheduler.now();
  if (is_refused && !served_ && environment_.scheduler.now() - *refused_since_ >= kRefusalGrace) {
    served_ = assumed_kinds();
    hooks_.on_served();
  }
  discover_in(backoff_.next(is_refused ? kRefusedRetryLimit : kRetryLimit));
}

void KindDiscovery::follow_crds() {
  if (crds_ || !served_->contains("customresourcedefinitions.apiextensions.k8s.io")) return;
  crds_ = std::make_unique<Reflector>(crd_collection(), reflector_, environment_,
                                      static_cast<ReflectorListener&>(*this));
  crds_->start();
}

void KindDiscovery::note_crd(const ObjectRef& crd) {
  if (!is_crd_of_interest(crd.name)) return;
  looks_to_come_.assign(kLooksAfterCrd.begin() + 1, kLooksAfterCrd.end());
  discover_in(kLooksAfterCrd.front());
}

void KindDiscovery::doubt() {
  if (!discovery_ && looks_to_come_.empty()) discover_in(kLooksAfterCrd.front());
}

void KindDiscovery::retry_now(const void* who) {
  if (crds_ && who != &crds_) crds_->retry_now();
}

void KindDiscovery::leave_path_silent_since(Milliseconds when) {
  if (crds_) crds_->leave_path_silent_since(when);
}

// --- the CRDs' news ------------------------------------------------------------------------------

std::optional<std::uint64_t> KindDiscovery::on_object(const Node& object,
                                                      std::span<const DocumentProblem>,
                                                      bool is_initial) {
  // The first list tells what discovery has told already.
  if (!is_initial || crds_->status().synced) note_crd(ref_of(object));
  return hash_of_name(ref_of(object));
}

// Its name is all that is of interest.
std::optional<std::uint64_t> KindDiscovery::on_unreadable(const ObjectRef& object,
                                                          std::string_view) {
  note_crd(object);
  return hash_of_name(object);
}

std::optional<std::uint64_t> KindDiscovery::on_deleted(const ObjectRef& object) {
  note_crd(object);
  return hash_of_name(object);
}

void KindDiscovery::on_listed(std::vector<std::uint64_t>) {
  if (crds_->status().relists > 0) discover_in(kLooksAfterCrd.front());
}

void KindDiscovery::on_state() {
  const ReflectorStatus& crds = crds_->status();
  hooks_.on_answer(&crds_, crds.trouble, crds.error);
  if (crds.trouble != Trouble::Forbidden || std::exchange(crds_refused_, true)) return;
  hooks_.on_warning(
      "customresourcedefinitions.apiextensions.k8s.io may not be watched: new kinds are found "
      "within two minutes");
}

}  // namespace meshdns::registry::kubernetes
