// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/discovery.hpp"

#include <algorithm>
#include <array>
#include <ranges>
#include <utility>

#include "registry/source/kubernetes/json_cutter.hpp"

namespace meshdns::registry::kubernetes {
namespace {

constexpr std::size_t kMaxBody = std::size_t{8} << 20;
// Until an answer begins, and between its parts.
constexpr std::chrono::seconds kSilenceLimit{20};

struct Group {
  std::string_view name;
  std::array<std::string_view, 4> versions;  // the one that we like best first
  bool is_of_gateways = false;
};
constexpr std::array kGroups = {
    Group{"discovery.k8s.io", {"v1", "v1beta1", ""}},
    Group{"networking.istio.io", {"v1", "v1beta1", "v1alpha3"}},
    Group{"multicluster.x-k8s.io", {"v1", "v1beta1", "v1alpha1"}},
    Group{"net.gke.io", {"v1", "", ""}},
    Group{"apiextensions.k8s.io", {"v1", "", ""}},
    Group{"gateway.networking.k8s.io", {"v1", "v1beta1", "v1alpha3", "v1alpha2"}, true},
    Group{"networking.k8s.io", {"v1", "v1beta1", ""}, true},
};

// 403 and 404 come from servers that have no such page, or do not show it to everybody.
bool is_of_ready_server(unsigned status) { return status == 200 || status == 403 || status == 404; }

bool has_version(const Node& group, std::string_view version) {
  const Node* const versions = group.find("versions");
  return versions != nullptr && versions->is_sequence() &&
         std::ranges::any_of(*versions,
                             [&](const Node& v) { return text_of(&v, "version") == version; });
}

}  // namespace

Discovery::Discovery(Transport& transport, Scheduler& scheduler, JsonParser& parser, Groups groups,
                     std::set<std::string> expected, Outcome outcome)
    : transport_(transport),
      scheduler_(scheduler),
      parser_(parser),
      expected_(std::move(expected)),
      outcome_(std::move(outcome)) {
  for (const Group& group : kGroups)
    if (groups == Groups::WithGateways || !group.is_of_gateways)
      questions_.emplace_back(group.name, "");
  ask_next();
}

Discovery::~Discovery() = default;

std::optional<std::string> Discovery::usual_version(std::string_view kind, Groups groups) {
  const std::string_view group = kind.substr(std::min(kind.find('.'), kind.size() - 1) + 1);
  const auto known = std::ranges::find(kGroups, group, &Group::name);
  if (known == kGroups.end() || (known->is_of_gateways && groups == Groups::Usual)) return {};
  return std::string(known->versions.front());
}

void Discovery::ask_next() {
  const auto& [group, version] = questions_.front();
  ask("/apis/" + group + (version.empty() ? "" : "/" + version));
}

void Discovery::ask(std::string path) {
  head_ = {};
  body_.clear();
  exchange_ = transport_.get(std::move(path), Content::Objects, *this);
  guard();
}

void Discovery::guard() {
  watchdog_ = scheduler_.after(kSilenceLimit, [this] {
    transport_.distrust_connections();
    fail(ReflectorStatus::Trouble::Unreachable,
         "silence for " + std::to_string(kSilenceLimit.count()) + " s");
  });
}

void Discovery::on_head(const ResponseHead& head) {
  head_ = head;
  guard();
}

void Discovery::on_body(std::string_view part) {
  if (body_.size() + part.size() > kMaxBody)
    return fail(ReflectorStatus::Trouble::Failing,
                "an answer is longer than " + std::to_string(kMaxBody) + " bytes");
  body_ += part;
  guard();
}

void Discovery::on_end(const Result<void>& end) {
  using Trouble = ReflectorStatus::Trouble;
  exchange_.reset();
  watchdog_.reset();
  if (asks_readiness_) {
    found_.is_ready = end && is_of_ready_server(head_.status);
    return go_on();
  }
  if (!end) return fail(Trouble::Unreachable, end.error().message);
  if (head_.status == 401) {
    transport_.renew_credentials();
    return fail(Trouble::Unauthorized, "401, the API server does not accept the credentials");
  }
  take_answer();
  go_on();
}

// A group that does not exist has no kinds.
void Discovery::take_answer() {
  using Trouble = ReflectorStatus::Trouble;
  const auto [group, version] = questions_.front();
  questions_.pop_front();
  if (head_.status == 403) return note_unknown({Trouble::Forbidden, "403 at discovery"}, group);
  if (head_.status != 200 && head_.status != 404)
    return note_unknown({Trouble::Failing, std::to_string(head_.status) + " at discovery"}, group);
  if (head_.status == 200 && !(version.empty() ? read_group(group) : read_kinds(group, version)))
    return note_unknown({Trouble::Failing, "discovery did not return a list of kinds"}, group);
  if (questions_.empty() || questions_.front().first != group) ++known_groups_;
}

void Discovery::note_unknown(Failure failure, const std::string& group) {
  found_.unknown_groups.insert(group);
  if (!found_.failure) found_.failure = std::move(failure);
  std::erase_if(questions_, [&](const auto& question) { return question.first == group; });
}

void Discovery::go_on() {
  if (!questions_.empty()) return ask_next();
  // Moved out: what is called may destroy us.
  if (known_groups_ == 0) return fail(found_.failure->trouble, found_.failure->message);
  const auto is_missing = [this](const std::string& kind) { return !found_.kinds.contains(kind); };
  if (!std::exchange(asks_readiness_, true) && std::ranges::any_of(expected_, is_missing))
    return ask("/readyz");
  const auto found = std::move(outcome_.found);
  found(std::move(found_));
}

bool Discovery::read_group(const std::string& group) {
  const auto read = parser_.parse(body_);
  if (!read || text_of(*read, "kind") != "APIGroup") return false;
  const auto ours = std::ranges::find(kGroups, group, &Group::name);
  for (const std::string_view version : std::views::reverse(ours->versions))
    if (!version.empty() && has_version(**read, version)) questions_.emplace_front(group, version);
  return true;
}

bool Discovery::read_kinds(const std::string& group, const std::string& version) {
  const auto list = parser_.parse(body_);
  const Node* const resources = list ? (*list)->find("resources") : nullptr;
  if (resources == nullptr || !resources->is_sequence()) return false;
  for (const Node& resource : *resources)
    if (const std::string_view name = text_of(&resource, "name"); !name.contains('/'))
      found_.kinds.try_emplace(std::string(name) + "." + group, version);
  return true;
}

// It may destroy us.
void Discovery::fail(ReflectorStatus::Trouble trouble, std::string message) {
  exchange_.reset();
  watchdog_.reset();
  const auto failed = std::move(outcome_.failed);
  failed({trouble, std::move(message)});
}

}  // namespace meshdns::registry::kubernetes
