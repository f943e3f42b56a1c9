// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/followed_collection.hpp"

#include <algorithm>
#include <utility>

#include "registry/base/counted.hpp"
#include "registry/snapshot/stored_resource.hpp"

namespace meshdns::registry::kubernetes {
namespace {

// Limit of objects whose findings are kept.  Further objects are refused and counted.
constexpr std::size_t kMaxFaultyObjects = 500;

constexpr std::string_view kUnconfirmed =
    "not confirmed: the API server does not list this kind at present; its objects stay until its "
    "CustomResourceDefinition is gone, or the server has been ready without it for 60 s";

bool is_refusal(ReflectorStatus::Trouble trouble) {
  return trouble == ReflectorStatus::Trouble::Forbidden ||
         trouble == ReflectorStatus::Trouble::Absent;
}

}  // namespace

FollowedCollection::FollowedCollection(PlannedCollection plan, const Naming& naming,
                                       const ReflectorOptions& options,
                                       Reflector::Environment environment,
                                       CollectionListener& listener)
    : plan_(std::move(plan)),
      source_(naming.source),
      origin_(naming.source + "/" + plan_.label),
      decode_{origin_, naming.cluster, naming.network, "default", false, naming.gateway_kinds},
      scheduler_(environment.scheduler),
      listener_(listener),
      reflector_(plan_.collection, options, std::move(environment), *this) {}

std::optional<std::uint64_t> FollowedCollection::on_object(
    const Node& object, std::span<const DocumentProblem> problems, bool is_initial) {
  std::vector<Finding> findings;
  const TypeMeta type{plan_.collection.api_version, plan_.collection.kind};
  Decoded decoded = decode_object(object, type, problems, decode_, [&](Finding&& finding) {
    finding.line = 0;
    findings.push_back(std::move(finding));
  });
  const bool is_accepted = decoded.outcome == Decoded::Outcome::Accepted;
  if (!is_accepted && decoded.outcome != Decoded::Outcome::Refused) return {};
  const std::uint64_t hash = hash_of(decoded.key);
  if (is_accepted)
    refused_.erase(hash);
  else
    refused_.insert(hash);
  replace_findings(hash, std::move(findings));
  if (is_accepted) listener_.on_upsert(*this, std::move(*decoded.resource), is_initial);
  return hash;
}

ResourceKey FollowedCollection::key_of(const ObjectRef& object) const {
  return {plan_.kind, decode_.cluster, std::string(object.ns), std::string(object.name)};
}

std::optional<std::uint64_t> FollowedCollection::on_unreadable(const ObjectRef& object,
                                                               std::string_view why) {
  const std::uint64_t hash = hash_of(key_of(object));
  Finding finding;
  finding.path = origin_;
  finding.kind = plan_.collection.kind;
  if (!object.ns.empty()) finding.object = printable(object.ns) + '/';
  finding.object += printable(object.name);
  finding.message =
      (object.name.empty() ? "an object without a name cannot be read: " : "cannot be read: ") +
      printable(why, 200);
  replace_findings(hash, {std::move(finding)});
  if (object.name.empty()) return {};
  refused_.insert(hash);
  return hash;
}

// A deleted object may be of any content: its name is all that counts.
std::optional<std::uint64_t> FollowedCollection::on_deleted(const ObjectRef& object) {
  ResourceKey key = key_of(object);
  if (key.name.empty()) return {};
  const std::uint64_t hash = hash_of(key);
  refused_.erase(hash);
  replace_findings(hash, {});
  listener_.on_remove(*this, std::move(key));
  return hash;
}

void FollowedCollection::on_listed(std::vector<std::uint64_t> seen) {
  const auto is_gone = [&](std::uint64_t object) {
    return !std::ranges::binary_search(seen, object);
  };
  std::erase_if(refused_, is_gone);
  if (std::erase_if(findings_, [&](const auto& item) { return is_gone(item.first); }) > 0)
    listener_.on_findings(*this);
  listener_.on_retain(*this, std::move(seen));
}

void FollowedCollection::replace_findings(std::uint64_t object, std::vector<Finding>&& findings) {
  const auto known = findings_.find(object);
  if (findings.empty()) {
    if (known == findings_.end()) return;
    findings_.erase(known);
  } else if (known != findings_.end()) {
    if (known->second == findings) return;
    known->second = std::move(findings);
  } else {
    if (findings_.size() >= kMaxFaultyObjects) return;
    findings_.emplace(object, std::move(findings));
  }
  listener_.on_findings(*this);
}

void FollowedCollection::on_state() {
  const bool was_refused = refused_since_.has_value();
  const bool is_refused = is_refusal(reflector_.status().trouble);
  if (is_refused && !was_refused) {
    refused_since_ = scheduler_.now();
    refusal_timer_ = scheduler_.after(kRefusalGrace, [this] {
      listener_.on_findings(*this);
      listener_.on_state(*this);
    });
  } else if (!is_refused && was_refused) {
    const bool was_told = is_refused_for_good(scheduler_.now());
    refused_since_.reset();
    refusal_timer_.reset();
    if (was_told) listener_.on_findings(*this);
  }
  listener_.on_state(*this);
}

void FollowedCollection::set_unconfirmed(bool is_unconfirmed) {
  if (std::exchange(is_unconfirmed_, is_unconfirmed) == is_unconfirmed) return;
  listener_.on_findings(*this);
  // The pause after a 404 is over: the kind is there.
  if (!is_unconfirmed && reflector_.status().trouble == ReflectorStatus::Trouble::Absent)
    reflector_.retry_now();
}

bool FollowedCollection::is_refused_for_good(Milliseconds now) const {
  return refused_since_ && now - *refused_since_ >= kRefusalGrace;
}

bool FollowedCollection::is_settled(Milliseconds now) const {
  if (reflector_.status().synced) return true;
  return !plan_.is_required && is_refused_for_good(now);
}

std::string FollowedCollection::refusal() const {
  if (plan_.kind == Kind::ConfigMap)
    return "may not be read (" + reflector_.status().error +
           "): rootNamespace, defaultServiceExportTo, serviceEntryVisibility and "
           "outboundTrafficPolicy of MeshConfig are not known, and the configuration and the "
           "defaults count; grant list and watch of this ConfigMap in a Role of the namespace " +
           plan_.ns + ", or set mesh.istio_config_map to \"\"";
  const std::string& ns = plan_.collection.path;
  const bool is_namespaced = ns.contains("/namespaces/");
  return "may not be read (" + reflector_.status().error + "): grant list and watch of " +
         plan_.resource + " in the " + (is_namespaced ? "Role" : "ClusterRole") +
         " of meshdnsd; names that depend on it are answered without it until then";
}

Finding FollowedCollection::untold() const {
  const auto count = std::ranges::count_if(
      refused_, [this](std::uint64_t object) { return !findings_.contains(object); });
  Finding finding;
  finding.severity = Severity::Warning;
  finding.path = origin_;
  finding.message = "and " + counted(static_cast<std::uint64_t>(count), "more object") +
                    (count == 1 ? " that is refused" : " that are refused");
  return finding;
}

std::vector<Finding> FollowedCollection::findings() const {
  std::vector<Finding> all;
  if (is_unconfirmed_) {
    Finding finding;
    finding.path = origin_;
    finding.message = kUnconfirmed;
    all.push_back(std::move(finding));
  }
  if (reflector_.status().trouble == ReflectorStatus::Trouble::Forbidden &&
      is_refused_for_good(scheduler_.now())) {
    Finding finding;
    if (plan_.is_optional) finding.severity = Severity::Warning;
    finding.path = origin_;
    finding.message = refusal();
    all.push_back(std::move(finding));
  }
  for (const auto& [object, findings] : findings_)
    all.insert(all.end(), findings.begin(), findings.end());
  if (findings_.size() >= kMaxFaultyObjects) all.push_back(untold());
  return all;
}

std::string FollowedCollection::trouble() const {
  if (is_unconfirmed_) return std::string(kUnconfirmed);
  const ReflectorStatus& status = reflector_.status();
  return std::string(to_string(status.trouble)) + ": " + status.error;
}

CollectionStatus FollowedCollection::status(Milliseconds now) const {
  const ReflectorStatus& from = reflector_.status();
  const CollectionProgress& progress = from;
  CollectionStatus status{progress, plan_.label, {}};
  if (from.trouble != ReflectorStatus::Trouble::None) status.trouble = to_string(from.trouble);
  if (is_unconfirmed_) {
    status.trouble = "unconfirmed";
    status.error = kUnconfirmed;
  }
  status.refused = refused_.size() + from.nameless;
  // Nothing more is expected of a list that is complete.
  if (plan_.collection.is_watched || !from.synced)
    status.silent_seconds = std::chrono::duration<double>(now - from.heard_at).count();
  return status;
}

}  // namespace meshdns::registry::kubernetes
