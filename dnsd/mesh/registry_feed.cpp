// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/registry_feed.hpp"

#include <malloc.h>

#include <algorithm>
#include <utility>

namespace meshdns::dnsd {
namespace {

// A batch of this size has left so many freed pieces behind (parsed trees, lists) that giving them
// back to the system is worth the milliseconds; glibc keeps them otherwise.
constexpr std::size_t kLargeBatch = 5'000;

void set_member(std::set<std::string>& set, const std::string& member, bool is_in) {
  if (is_in)
    set.insert(member);
  else
    set.erase(member);
}

}  // namespace

RegistryFeed::RegistryFeed(registry::Registry& registry, Log& log)
    : registry_(registry), log_(log) {}

void RegistryFeed::set_resolver(resolver::NameResolver* resolver) { resolver_ = resolver; }

void RegistryFeed::set_sources(std::set<std::string> sources) {
  registry::Transaction transaction;
  std::set<std::string> given_up;
  std::erase_if(origins_by_source_, [&](const auto& item) {
    if (sources.contains(item.first)) return false;
    complete_.erase(item.first);
    without_endpoints_.erase(item.first);
    without_policies_.erase(item.first);
    restored_.erase(item.first);
    given_up.insert(item.second.begin(), item.second.end());
    return true;
  });
  // A file may be one of several sources: of a directory, and by itself.
  for (const auto& [source, origins] : origins_by_source_)
    for (const auto& origin : origins) given_up.erase(origin);
  for (const auto& origin : given_up) {
    transaction.remove_origin(origin);
    forget_findings(origin);
  }
  if (!transaction.empty()) follow(registry_.commit(std::move(transaction)));
}

void RegistryFeed::restore(registry::SavedSnapshot&& saved) {
  registry::Transaction transaction;
  transaction.restored = std::move(saved.resources);
  for (std::size_t i = 0; i < saved.sources.size(); ++i)
    if (saved.wanted[i] && saved.sources[i].complete)
      restored_[saved.sources[i].name].complete = true;
  for (auto& origin : saved.origins) {
    const std::string& source = saved.sources[origin.source].name;
    restored_[source].origins.insert(origin.name);
    origins_by_source_[source].insert(std::move(origin.name));
  }
  if (!transaction.empty()) follow(registry_.commit(std::move(transaction)));
}

std::set<std::string> RegistryFeed::restored_origins(const std::string& source) const {
  const auto restored = restored_.find(source);
  return restored == restored_.end() ? std::set<std::string>() : restored->second.origins;
}

std::set<std::string> RegistryFeed::origins_of(const std::string& source) const {
  const auto known = origins_by_source_.find(source);
  return known == origins_by_source_.end() ? std::set<std::string>() : known->second;
}

bool RegistryFeed::is_known(const std::string& source) const {
  if (is_complete(source)) return true;
  const auto restored = restored_.find(source);
  return restored != restored_.end() && restored->second.complete;
}

registry::SavedSources RegistryFeed::saved_sources(std::vector<registry::SavedSource> sources) {
  registry::SavedSources saved;
  saved.sources = std::move(sources);
  for (std::uint32_t i = 0; i < saved.sources.size(); ++i) {
    registry::SavedSource& source = saved.sources[i];
    source.complete = is_known(source.name);
    const auto origins = origins_by_source_.find(source.name);
    if (origins == origins_by_source_.end()) continue;
    for (const auto& name : origins->second) {
      const registry::OriginId origin = registry_.origin(name);
      if (origin >= saved.source_of.size())
        saved.source_of.resize(origin + 1, registry::SavedSources::kNone);
      saved.source_of[origin] = i;
    }
  }
  return saved;
}

void RegistryFeed::confirm(const registry::SourceBatch& batch, registry::Transaction& transaction) {
  const auto restored = restored_.find(batch.source);
  if (restored == restored_.end()) return;
  auto& unconfirmed = restored->second.origins;
  for (const auto& change : transaction.changes) unconfirmed.erase(change.origin);
  if (!batch.complete) return;
  // A collection that may not be read any more is still one of the source's.
  if (batch.origins)
    for (const auto& origin : *batch.origins) unconfirmed.erase(origin);
  for (const auto& origin : unconfirmed) {
    transaction.remove_origin(origin);
    origins_by_source_[batch.source].erase(origin);
  }
  restored_.erase(restored);
}

void RegistryFeed::apply(registry::SourceBatch&& batch) {
  using Effect = registry::OriginChange::Effect;
  auto& origins = origins_by_source_[batch.source];
  bool is_list_over = false;
  for (const auto& change : batch.changes) {
    report(change);
    note_held(change);
    unreturned_ += change.resources.size();
    is_list_over |= change.effect != Effect::Update;
    if (change.effect == Effect::Remove)
      origins.erase(change.origin);
    else if (change.effect != Effect::Keep)
      origins.insert(change.origin);
  }
  registry::Transaction transaction{.changes = std::move(batch.changes)};
  confirm(batch, transaction);
  for (const auto& notice : batch.notices)
    log_.write(notice.is_warning ? LogLevel::Warn : LogLevel::Info, notice.text,
               {{"source", batch.source}});
  if (batch.origins) forget_others(origins, *batch.origins, transaction);
  if (batch.complete) complete_.insert(batch.source);
  set_member(without_endpoints_, batch.source, batch.lacks_endpoints);
  set_member(without_policies_, batch.source, batch.lacks_policies);
  if (!transaction.empty()) {
    registry::Changes changes = registry_.commit(std::move(transaction));
    if (changes.interrupted) {
      // Nobody may take the source for read, nor save what there is of it.
      interrupted_ = true;
      complete_.erase(batch.source);
      return;
    }
    follow(changes);
  }
  if (unreturned_ >= kLargeBatch && is_list_over) {
    unreturned_ = 0;
    batch = {};
    transaction = {};
    malloc_trim(0);
  }
  if (listener_) listener_();
}

// Removes the origins that the source had before and does not mention any more.
void RegistryFeed::forget_others(std::set<std::string>& origins,
                                 const std::vector<std::string>& held,
                                 registry::Transaction& transaction) {
  const std::set<std::string> kept(held.begin(), held.end());
  for (const auto& origin : origins) {
    if (kept.contains(origin)) continue;
    transaction.remove_origin(origin);
    forget_findings(origin);
  }
  std::erase_if(origins, [&](const std::string& origin) { return !kept.contains(origin); });
}

void RegistryFeed::report(const registry::OriginChange& change) {
  using Effect = registry::OriginChange::Effect;
  // A file's findings are said whenever it was read; those of a collection, which comes in many
  // small changes, once.
  const bool only_new = change.effect == Effect::Update || change.effect == Effect::Retain;
  const auto known = findings_.find(change.origin);
  if (only_new && known != findings_.end() && known->second == change.findings) return;
  for (const auto& finding : change.findings) {
    if (only_new && known != findings_.end() &&
        std::ranges::find(known->second, finding) != known->second.end())
      continue;
    const bool is_error = finding.severity == registry::Severity::Error;
    const bool is_note = finding.severity == registry::Severity::Note;
    if (!is_note) ++(is_error ? counters_.errors : counters_.warnings);
    log_.write(is_error  ? LogLevel::Error
               : is_note ? LogLevel::Info
                         : LogLevel::Warn,
               finding.to_string());
  }
  const std::lock_guard lock(findings_mutex_);
  if (change.findings.empty())
    findings_.erase(change.origin);
  else
    findings_[change.origin] = change.findings;
}

void RegistryFeed::note_held(const registry::OriginChange& change) {
  // A file that could not be read, or a collection: its errors that are of no single object.
  const bool is_file = change.effect == registry::OriginChange::Effect::Keep;
  const bool is_list = change.effect == registry::OriginChange::Effect::Update ||
                       change.effect == registry::OriginChange::Effect::Retain;
  const bool is_held = std::ranges::any_of(change.findings, [&](const registry::Finding& finding) {
    return finding.severity == registry::Severity::Error &&
           (is_file || (is_list && finding.object.empty()));
  });
  const std::lock_guard lock(findings_mutex_);
  if (is_held)
    held_origins_.insert(change.origin);
  else
    held_origins_.erase(change.origin);
}

std::string RegistryFeed::error_of(const std::string& object, const std::string& origin) const {
  const std::lock_guard lock(findings_mutex_);
  const auto found = findings_.find(origin);
  if (found == findings_.end()) return {};
  const bool is_held = held_origins_.contains(origin);
  const auto error = std::ranges::find_if(found->second, [&](const registry::Finding& finding) {
    return finding.severity == registry::Severity::Error &&
           (is_held || finding.kind + " " + finding.object == object);
  });
  return error == found->second.end() ? std::string() : error->to_string();
}

void RegistryFeed::forget_findings(const std::string& origin) {
  const std::lock_guard lock(findings_mutex_);
  findings_.erase(origin);
  held_origins_.erase(origin);
}

void RegistryFeed::follow(const registry::Changes& changes) {
  ++counters_.commits;
  counters_.changed_resources += changes.changed_resources;
  counters_.changed_hosts += changes.changed_hosts;
  if (changes.changed_resources > 0)
    log_.debug("registry changed",
               {{"resources", changes.changed_resources}, {"hosts", changes.changed_hosts}});
  if (changes.mesh_config_changed) tell_of_mesh_config();
  for (const auto& host : changes.conflicts)
    log_.write_folded(
        LogLevel::Info,
        "several namespaces have a service for this host; each client gets the service of its view",
        {{"host", host}});
  for (const auto& claim : changes.refused)
    log_.write_folded(
        LogLevel::Warn, "refused a host",
        {{"host", claim.host}, {"object", claim.source->label()}, {"reason", claim.reason}});
  if (resolver_ == nullptr) return;
  for (const auto& use : changes.names.removed) resolver_->unwatch(use.name, use.ns);
  for (const auto& use : changes.names.added)
    if (!resolver_->watch(use.name, use.ns))
      log_.write_folded(LogLevel::Warn,
                        "a namespace has too many DNS endpoint names; endpoints of names over the "
                        "limit have no addresses",
                        {{"namespace", use.ns}});
  for (const auto& use : changes.names.touched) resolver_->recheck(use.name, use.ns);
  for (const auto& ns : changes.names.touched_namespaces) resolver_->recheck_namespace(ns);
  if (changes.names.all_touched) resolver_->recheck_all();
  for (const auto& use : changes.names_in_order) resolver_->watch_order(use.name, use.ns, true);
}

void RegistryFeed::tell_of_mesh_config() {
  const registry::MeshSettings& settings = *registry_.current()->settings;
  const registry::SettingOrigins& origins = settings.origins;
  std::string taken;
  const auto note = [&](std::string_view name, registry::SettingOrigin origin) {
    if (origin == registry::SettingOrigin::MeshConfig)
      taken.append(taken.empty() ? "" : ", ").append(name);
  };
  note("rootNamespace", origins.root_namespace);
  note("defaultServiceExportTo", origins.default_export_to);
  note("serviceEntryVisibility", origins.service_entry_visibility);
  note("outboundTrafficPolicy", origins.outbound_policy);
  log_.info(
      "the settings of Istio's MeshConfig have changed",
      {{"configmap", settings.istio_config_map}, {"in_force", taken.empty() ? "none" : taken}});
}

void RegistryFeed::on_resolved(std::string_view ns, std::vector<registry::ResolvedName>&& names) {
  registry::Transaction transaction;
  for (auto& name : names) {
    if (!name.reason.empty() && name.state != registry::ResolvedName::State::Pending)
      log_.write_folded(LogLevel::Warn, "an endpoint name has no address",
                        {{"name", name.host}, {"namespace", ns}, {"reason", name.reason}});
    if (result_listener_) result_listener_(ns, name.host);
    transaction.set_resolved(ns, std::move(name));
  }
  follow(registry_.commit(std::move(transaction)));
}

}  // namespace meshdns::dnsd
