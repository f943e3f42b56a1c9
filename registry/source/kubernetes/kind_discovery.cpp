// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/kind_discovery.hpp"

#include <algorithm>
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

// A server that is new or has come back is asked again, where CRDs are not watched yet.
constexpr std::array<Milliseconds, 3> kLooksAfterReturn{Milliseconds(1'500), Milliseconds(5'000),
                                                        Milliseconds(15'000)};
// The list of CRDs shows kinds that are about to be served.
constexpr Milliseconds kDefinitionsGrace{1'500};

// The kinds that are assumed for a server that refuses discovery.
ServedKinds assumed_kinds() { return {{"endpointslices.discovery.k8s.io", "v1"}}; }

std::uint64_t hash_of_name(const ObjectRef& object) { return hash_bytes(object.name); }

}  // namespace

KindDiscovery::KindDiscovery(Options options, const Reflector::Environment& environment,
                             ServerReach& reach, Hooks hooks)
    : options_(std::move(options)),
      environment_(environment),
      reach_(reach),
      hooks_(std::move(hooks)),
      backoff_(kFirstRetry, environment.random),
      looks_to_come_(kLooksAfterReturn.begin(), kLooksAfterReturn.end()) {
  for (const auto& kind : options_.known)
    if (Discovery::usual_version(kind, options_.groups)) unconfirmed_[kind].was_never_seen = true;
}

KindDiscovery::~KindDiscovery() = default;

void KindDiscovery::discover() {
  timer_.reset();
  discovery_ = std::make_unique<Discovery>(
      environment_.transport, environment_.scheduler, environment_.parser, options_.groups,
      expected(),
      Discovery::Outcome{[this](Discovery::Found found) { on_discovered(std::move(found)); },
                         [this](const Discovery::Failure& f) { on_discovery_failed(f); }});
}

void KindDiscovery::discover_in(Milliseconds delay) {
  timer_ = environment_.scheduler.after(delay, [this] {
    if (!reach_.may_ask(&discovery_)) return discover_in(Milliseconds(1'000));
    discover();
  });
}

// A kind whose CRD is gone goes without a question.
std::set<std::string> KindDiscovery::expected() const {
  std::set<std::string> kinds;
  const auto add = [&](const std::string& kind) {
    if (is_plan_dependent_on(kind) && !has_lost_definition(kind)) kinds.insert(kind);
  };
  if (served_)
    for (const auto& [kind, version] : *served_) add(kind);
  for (const auto& [kind, absence] : unconfirmed_) add(kind);
  return kinds;
}

// A list of CRDs is never short, because the server has it from etcd.  If it lacks a kind that only
// an earlier run has seen, the definition was deleted.
bool KindDiscovery::has_lost_definition(const std::string& kind) const {
  if (undefined_.contains(kind)) return true;
  const auto absence = unconfirmed_.find(kind);
  return absence != unconfirmed_.end() && absence->second.was_never_seen && crds_ &&
         crds_->status().synced && is_crd_of_interest(kind) &&
         std::ranges::none_of(defined_, [&](const auto& crd) { return crd.second == kind; });
}

bool KindDiscovery::serves_all_defined() const {
  return std::ranges::all_of(defined_, [this](const auto& crd) {
    return served_ && served_->contains(crd.second) && !unconfirmed_.contains(crd.second);
  });
}

void KindDiscovery::on_discovered(Discovery::Found found) {
  environment_.server.multiplexes = discovery_->is_multiplexed();
  discovery_.reset();
  refused_since_.reset();
  error_.clear();
  hooks_.on_answer(&discovery_, Trouble::None, {});
  if (found.unknown_groups.empty())
    unknown_since_.reset();
  else if (!unknown_since_)
    unknown_since_ = environment_.scheduler.now();
  is_unknown_for_good_ = found.failure && found.failure->trouble == Trouble::Forbidden;
  keep_missing(found);
  served_ = found.kinds;
  follow_crds();
  look_again(found);
  hooks_.on_served();
}

// Adds the kinds that are not known to be gone.
void KindDiscovery::keep_missing(Discovery::Found& found) {
  ServedKinds before = served_.value_or(ServedKinds());
  for (const auto& [kind, absence] : unconfirmed_)
    if (!before.contains(kind))
      before[kind] = Discovery::usual_version(kind, options_.groups).value_or("v1");
  std::string again;
  for (const auto& [kind, version] : found.kinds)
    if (unconfirmed_.erase(kind) > 0) again.append(again.empty() ? "" : ", ").append(kind);
  if (!again.empty() && served_)
    hooks_.on_notice({false, "the API server lists these kinds again: " + again});
  for (const auto& [kind, version] : before) {
    if (found.kinds.contains(kind) || !is_plan_dependent_on(kind)) continue;
    const std::string why = reason_to_go(kind, found);
    if (why.empty()) {
      found.kinds.emplace(kind, version);
      continue;
    }
    unconfirmed_.erase(kind);
    undefined_.erase(kind);
    hooks_.on_notice({false, std::string(kind).append(" is gone: ").append(why)});
  }
}

// Empty: it stays.
std::string KindDiscovery::reason_to_go(const std::string& kind, const Discovery::Found& found) {
  if (has_lost_definition(kind)) return "its CustomResourceDefinition is gone";
  Absence& absence = unconfirmed_[kind];
  const Milliseconds now = environment_.scheduler.now();
  const std::string group = kind.substr(kind.find('.') + 1);
  if (!found.is_ready || found.unknown_groups.contains(group)) {
    absence.ready_since.reset();
    return {};
  }
  if (!absence.ready_since) absence.ready_since = now;
  if (now - *absence.ready_since < kAbsenceLimit) return {};
  return "the API server has been ready without it for " +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(kAbsenceLimit).count()) +
         " s";
}

void KindDiscovery::look_again(const Discovery::Found& found) {
  if (!looks_to_come_.empty()) {
    const Milliseconds next = looks_to_come_.front();
    looks_to_come_.erase(looks_to_come_.begin());
    return discover_in(next);
  }
  const bool is_refused = found.failure && found.failure->trouble == Trouble::Forbidden;
  if (!unconfirmed_.empty() || found.failure)
    return discover_in(
        backoff_.next(unconfirmed_.empty() && is_refused ? kRefusedRetryLimit : kRetryLimit));
  backoff_.reset();
  if (!is_watching() || !serves_all_defined()) poll();
}

void KindDiscovery::poll() {
  const auto interval = options_.poll;
  discover_in(interval + Milliseconds(static_cast<Milliseconds::rep>(
                             environment_.random() * static_cast<double>(interval.count()))));
}

void KindDiscovery::on_discovery_failed(const Discovery::Failure& failure) {
  discovery_.reset();
  error_ = "discovery: " + failure.message;
  for (auto& [kind, absence] : unconfirmed_) absence.ready_since.reset();
  hooks_.on_answer(&discovery_, failure.trouble, failure.message);
  const bool is_refused = failure.trouble == Trouble::Forbidden;
  if (!is_refused) refused_since_.reset();
  if (is_refused && !refused_since_) refused_since_ = environment_.scheduler.now();
  if (is_refused && !served_ && environment_.scheduler.now() - *refused_since_ >= kRefusalGrace) {
    Discovery::Found assumed;
    assumed.kinds = assumed_kinds();
    keep_missing(assumed);
    served_ = std::move(assumed.kinds);
    hooks_.on_served();
  }
  discover_in(backoff_.next(is_refused ? kRefusedRetryLimit : kRetryLimit));
}

bool KindDiscovery::is_settled() const {
  const Milliseconds now = environment_.scheduler.now();
  if (refused_since_) return true;
  if (!unconfirmed_.empty()) return false;
  const Milliseconds unknown_limit = is_unknown_for_good_ ? kRefusalGrace : kAbsenceLimit;
  if (unknown_since_ && now - *unknown_since_ < unknown_limit) return false;
  if (!crds_) return true;
  const ReflectorStatus& crds = crds_->status();
  if (!crds.synced) return crds.trouble != Trouble::None || now - crds_since_ >= kDefinitionsGrace;
  return looks_to_come_.empty() || serves_all_defined();
}

void KindDiscovery::follow_crds() {
  if (crds_ || !served_->contains("customresourcedefinitions.apiextensions.k8s.io")) return;
  crds_ = std::make_unique<Reflector>(crd_collection(), options_.reflector, environment_,
                                      static_cast<ReflectorListener&>(*this));
  crds_since_ = environment_.scheduler.now();
  crds_->start();
}

void KindDiscovery::look_after_crds() {
  looks_to_come_.assign(kLooksAfterCrd.begin() + 1, kLooksAfterCrd.end());
  discover_in(kLooksAfterCrd.front());
}

void KindDiscovery::doubt() {
  if (!discovery_ && looks_to_come_.empty()) discover_in(kLooksAfterCrd.front());
}

void KindDiscovery::retry_now(const void* who) {
  if (crds_ && who != &crds_) crds_->retry_now();
  if (crds_ && crds_->status().synced) return;  // its next list or events tell
  looks_to_come_.assign(kLooksAfterReturn.begin(), kLooksAfterReturn.end());
  if (!discovery_) discover_in(kLooksAfterCrd.front());
}

void KindDiscovery::leave_path_silent_since(Milliseconds when,
                                            std::optional<std::uint64_t> working) {
  if (crds_) crds_->leave_path_silent_since(when, working);
}

// --- the CRDs' news ------------------------------------------------------------------------------

// Its name is all that is of interest.
std::uint64_t KindDiscovery::note_definition(const ObjectRef& crd) {
  const std::uint64_t hash = hash_of_name(crd);
  if (!is_crd_of_interest(crd.name)) return hash;
  defined_[hash] = crd.name;
  undefined_.erase(std::string(crd.name));
  return hash;
}

void KindDiscovery::forget_definition(std::map<std::uint64_t, std::string>::iterator crd) {
  undefined_.insert(crd->second);
  defined_.erase(crd);
}

std::optional<std::uint64_t> KindDiscovery::on_object(const Node& object,
                                                      std::span<const DocumentProblem>,
                                                      bool is_initial) {
  const ObjectRef crd = ref_of(object);
  if (!is_initial && is_crd_of_interest(crd.name)) look_after_crds();
  return note_definition(crd);
}

std::optional<std::uint64_t> KindDiscovery::on_unreadable(const ObjectRef& object,
                                                          std::string_view) {
  if (is_crd_of_interest(object.name)) look_after_crds();
  return note_definition(object);
}

std::optional<std::uint64_t> KindDiscovery::on_deleted(const ObjectRef& object) {
  const std::uint64_t hash = hash_of_name(object);
  if (const auto known = defined_.find(hash); known != defined_.end()) forget_definition(known);
  if (is_crd_of_interest(object.name)) look_after_crds();
  return hash;
}

// The first list most often tells what discovery has told already.
void KindDiscovery::on_listed(std::vector<std::uint64_t> seen) {
  for (auto it = defined_.begin(); it != defined_.end();) {
    const auto crd = it++;
    if (!std::ranges::binary_search(seen, crd->first)) forget_definition(crd);
  }
  if (!serves_all_defined() || !unconfirmed_.empty()) return look_after_crds();
  if (crds_->status().relists > 0) return discover_in(kLooksAfterCrd.front());
  looks_to_come_.clear();
  timer_.reset();
}

void KindDiscovery::on_state() {
  const ReflectorStatus& crds = crds_->status();
  hooks_.on_answer(&crds_, crds.trouble, crds.error);
  if (!discovery_ && !timer_ && !is_watching()) poll();
  if (crds.trouble != Trouble::Forbidden || std::exchange(crds_refused_, true)) return;
  hooks_.on_notice(
      {true,
       "customresourcedefinitions.apiextensions.k8s.io may not be watched: new kinds are found "
       "within two minutes"});
}

}  // namespace meshdns::registry::kubernetes
