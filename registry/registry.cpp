// SPDX-License-Identifier: Apache-2.0
#include "registry/registry.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>
#include <utility>

#include "registry/registry_state.hpp"

namespace meshdns::registry {
namespace {

// Returns whether the snapshots differ in what all answers depend on.
bool may_answer_otherwise(const Snapshot& former, const Snapshot& now) {
  return former.settings != now.settings || former.serial != now.serial ||
         former.sources != now.sources || former.gateways != now.gateways;
}

}  // namespace

// --- Transaction --------------------------------------------------------------------------------

void Transaction::upsert(const Resource& resource, OriginId origin, std::uint32_t line) {
  upserts_.push_back(StoredResource::encode(resource, origin, line));
}
void Transaction::upsert(StoredRef resource) { upserts_.push_back(std::move(resource)); }
void Transaction::upsert(std::string_view encoded, OriginId origin, std::uint32_t line) {
  upserts_.push_back(StoredResource::of_encoded(encoded, origin, line));
}
void Transaction::remove(ResourceKey key, OriginId origin) {
  removals_.emplace_back(std::move(key), origin);
}
void Transaction::remove(std::uint64_t key_hash, OriginId origin) {
  hashed_removals_.emplace_back(key_hash, origin);
}
void Transaction::replace_origin(OriginId origin, std::vector<ResourceKey> keep) {
  replaced_.emplace_back(origin, std::move(keep));
}
void Transaction::remove_origin(OriginId origin) {
  replace_origin(origin, {});
  removed_origins_.push_back(origin);
}
void Transaction::retain(OriginId origin, std::vector<std::uint64_t> retained) {
  retained_.emplace_back(origin, std::move(retained));
}
void Transaction::set_resolved(std::string_view ns, ResolvedName name) {
  resolved_.emplace_back(ns, std::move(name));
}

Registry::Registry(MeshSettings settings)
    : state_(std::make_unique<State>(std::move(settings), nullptr)) {
  Change change;
  state_->settle(change);
  current_ = state_->snapshot();
}

Registry::~Registry() = default;

OriginId Registry::origin(std::string_view name) { return state_->origins.id_of(name); }

Ref<const Client> Registry::client_of(const ClientIdentity& identity) {
  return state_->clients.visitor(identity);
}

std::vector<std::string> Registry::endpoint_names_of(std::string_view ns) const {
  const SymbolRef symbol = state_->symbols.find(ns);
  return symbol ? state_->endpoint_names.names_of(symbol) : std::vector<std::string>();
}

std::vector<std::string> Registry::namespaces_with_endpoint_names() const {
  return state_->endpoint_names.namespaces();
}

void Registry::for_each_selected(std::string_view ns, const Labels& selector,
                                 const std::function<void(const Resource&)>& visit) const {
  if (const SymbolRef symbol = state_->symbols.find(ns))
    state_->workloads.for_each_selected(symbol, selector, visit);
}

const ResolvedName* Registry::resolved(std::string_view ns, std::string_view name) const {
  return state_->endpoint_names.find(ns, name);
}

std::vector<ContestedAddress> Registry::contested_addresses() const {
  std::vector<ContestedAddress> contested =
      state_->status_addresses.contested(kMaxContestedAddresses);
  state_->decoded.clear();
  return contested;
}

std::size_t Registry::symbols() const { return state_->symbols.size(); }
std::size_t Registry::scopes() const { return state_->clients.scopes(); }

void Registry::set_publish(std::function<void(std::shared_ptr<const Snapshot>)> publish) {
  state_->publish = std::move(publish);
}

void Registry::set_before_publish(std::function<void(const AnswerChange&)> before_publish) {
  state_->before_publish = std::move(before_publish);
}

void Registry::set_interrupt(std::function<bool()> interrupt) {
  state_->interrupt = std::move(interrupt);
}

CommitSummary Registry::finish(Change& change) {
  change.wants_events = controller_.has_handlers();
  change.wants_changes = controller_.change_handler() != nullptr;
  change.wants_answers = state_->before_publish != nullptr;
  if (!state_->interrupted) state_->settle(change);
  if (change.summary.interrupted = state_->interrupted; state_->interrupted)
    return std::move(change.summary);
  const auto former = std::exchange(current_, state_->snapshot());
  if (change.wants_answers) {
    change.answers.everything |=
        change.replaced != nullptr || may_answer_otherwise(*former, *current_);
    state_->before_publish(change.answers);
  }
  if (state_->publish) state_->publish(current_);
  notify(change);
  return std::move(change.summary);
}

void Registry::notify(Change& change) {
  if (controller_.has_handlers()) controller_.notify(change.events, *current_);
  if (!change.wants_changes) return;
  add_changes_of_pods(change.pod_addresses, *current_, change.changes);
  if (change.replaced != nullptr)
    compare_with_former(*change.replaced, state_->hosts, change.changes);
  controller_.change_handler()(change.changes);
}

CommitSummary Registry::commit(Transaction&& transaction) {
  Change change;
  change.wants_changes = controller_.change_handler() != nullptr;
  // The objects that each replaced origin keeps, as hashes of their keys.
  std::unordered_map<OriginId, std::vector<std::uint64_t>> replaced;
  for (const auto& [origin, keep] : transaction.replaced_)
    for (auto& kept = replaced[origin]; const auto& key : keep) kept.push_back(hash_of(key));
  OriginTable& origins = state_->origins;
  const OriginTable::Exchange exchange = state_->exchange_in(change);
  std::size_t& changed = change.summary.changed_resources;
  for (const auto& resource : transaction.upserts_) {
    if (state_->is_interrupted()) return finish(change);
    changed += origins.upsert(resource, exchange);
    if (const auto it = replaced.find(resource->origin()); it != replaced.end())
      it->second.push_back(resource->key_hash());
  }
  for (auto& [origin, kept] : replaced) {
    std::ranges::sort(kept);
    changed += origins.retain(origin, kept, exchange);
  }
  for (const auto& [origin, retained] : transaction.retained_)
    changed += origins.retain(origin, retained, exchange);
  for (const auto& [key, origin] : transaction.removals_)
    changed += origins.remove(key, origin, exchange);
  for (const auto& [key_hash, origin] : transaction.hashed_removals_)
    changed += origins.remove(key_hash, origin, exchange);
  for (const OriginId origin : transaction.removed_origins_) origins.forget(origin);
  std::set<HostKey> resolved_for;  // sets that use one or many of the names are derived once
  for (auto& [ns_text, name] : transaction.resolved_)
    if (const SymbolRef ns = state_->symbols.find(ns_text))
      state_->endpoint_names.resolve(ns, std::move(name), resolved_for);
  for (const auto& key : resolved_for) change.hosts.mark(key);
  state_->symbols.sweep_if_grown();
  if (state_->take_settings_change()) {
    CommitSummary summary = rebuild(state_->configured);
    summary.changed_resources = changed;
    summary.mesh_config_changed = true;
    return summary;
  }
  return finish(change);
}

CommitSummary Registry::set_settings(MeshSettings settings) { return rebuild(std::move(settings)); }

CommitSummary Registry::rebuild(MeshSettings configured) {
  // Hosts, visibility and clients all depend on the settings: everything is linked anew, from the
  // same resources, and published as one generation.
  auto old = std::move(state_);
  const std::optional<MeshConfig> config = old->mesh_config_for(configured);
  state_ = std::make_unique<State>(std::move(configured), config ? &*config : nullptr);
  state_->facts = old->facts;
  state_->origins.take_names(old->origins);
  state_->endpoint_names.take_resolved(old->endpoint_names);
  state_->networks.note(old->clients.settings().default_identity.network);
  state_->clients.use(old->clients.settings());
  state_->before_publish = old->before_publish;
  state_->publish = old->publish;
  state_->interrupt = old->interrupt;
  state_->interrupted = old->interrupted;
  if (state_->settings->auto_allocate == AutoAllocate::Persistent &&
      old->settings->auto_allocate == AutoAllocate::Persistent)
    state_->vips.set_allocator(old->vips.take_allocator());
  Change change;
  change.replaced = &old->hosts;
  const OriginTable::Exchange exchange = state_->exchange_in(change);
  old->origins.resources().for_each([&](const StoredResource& resource) {
    change.summary.changed_resources += state_->origins.upsert(StoredRef(&resource), exchange);
  });
  state_->config_maps_changed = false;
  CommitSummary summary = finish(change);
  const std::set<NameUse> before = old->endpoint_names.uses();
  const std::set<NameUse> after = state_->endpoint_names.uses();
  summary.names_added.clear();
  summary.names_removed.clear();
  std::ranges::set_difference(after, before, std::back_inserter(summary.names_added));
  std::ranges::set_difference(before, after, std::back_inserter(summary.names_removed));
  summary.all_names_touched = true;
  return summary;
}

CommitSummary Registry::set_vip_allocator(std::unique_ptr<VipAllocator> allocator) {
  state_->vips.set_allocator(std::move(allocator));
  Change change;
  return finish(change);
}

void Registry::set_clients(ClientSettings clients) {
  state_->networks.note(clients.default_identity.network);
  state_->clients.use(std::move(clients));
  Change change;
  finish(change);
}

void Registry::set_serial(std::uint32_t serial) {
  state_->facts.serial = serial;
  Change change;
  finish(change);
}

void Registry::set_sources(SourceState sources) {
  if (state_->facts.sources == sources) return;
  state_->facts.sources = std::move(sources);
  Change change;
  finish(change);
}

}  // namespace meshdns::registry
