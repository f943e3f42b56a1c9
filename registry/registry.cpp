// SPDX-License-Identifier: Apache-2.0
#include "registry/registry.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
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

Registry::Registry(MeshSettings settings)
    : state_(std::make_unique<State>(std::move(settings), nullptr)) {
  Change change(false);
  state_->settle(change);
  current_ = state_->snapshot();
}

Registry::~Registry() = default;

OriginId Registry::origin(std::string_view name) { return state_->origins.id_of(name); }

Ref<const Client> Registry::client_of(const ClientIdentity& identity) {
  return state_->clients.visitor(identity);
}

std::vector<VipAssignment> Registry::virtual_addresses() const {
  return state_->vips.assignments();
}

std::uint64_t Registry::virtual_address_changes() const { return state_->vips.changes(); }

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

std::vector<std::string> Registry::users_of_endpoint_name(std::string_view ns,
                                                          std::string_view name) const {
  const SymbolRef symbol = state_->symbols.find(ns);
  return symbol ? state_->endpoint_names.users_of(symbol, name) : std::vector<std::string>();
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

void Registry::set_before_publish(std::function<void(const Changes&)> before_publish) {
  state_->before_publish = std::move(before_publish);
}

void Registry::set_interrupt(std::function<bool()> interrupt) {
  state_->interrupt = std::move(interrupt);
}

bool Registry::wants_records() const {
  return state_->before_publish != nullptr || controller_.has_handlers();
}

Changes Registry::finish(Change& change) {
  Changes& changes = change.changes;
  if (!state_->interrupted) state_->settle(change);
  if (changes.interrupted = state_->interrupted; state_->interrupted) return std::move(changes);
  const auto former = std::exchange(current_, state_->snapshot());
  changes.everything |= change.replaced != nullptr || may_answer_otherwise(*former, *current_);
  if (change.wants_records) {
    add_changes_of_pods(change.pod_addresses, *current_, changes.records);
    if (change.replaced != nullptr)
      compare_with_former(*change.replaced, state_->hosts, changes.records);
  }
  if (state_->before_publish) state_->before_publish(changes);
  if (state_->publish) state_->publish(current_);
  controller_.notify(changes, *current_);
  return std::move(changes);
}

Changes Registry::commit(Transaction&& transaction) {
  using Effect = OriginChange::Effect;
  Change change(wants_records());
  OriginTable& origins = state_->origins;
  const OriginTable::Exchange exchange = state_->exchange_in(change);
  std::size_t& changed = change.changes.changed_resources;
  for (const auto& resource : transaction.restored) {
    if (state_->is_interrupted()) return finish(change);
    changed += origins.upsert(resource, exchange);
  }
  for (auto& [name, effect, resources, kept, removed, findings] : transaction.changes) {
    if (effect == Effect::Keep || effect == Effect::Remove) continue;
    const OriginId origin = origins.id_of(name);
    resources.for_each([&](std::string_view encoded, std::uint32_t line) {
      if (state_->is_interrupted()) return;
      const StoredRef resource = StoredResource::of_encoded(encoded, origin, line);
      changed += origins.upsert(resource, exchange);
      if (effect == Effect::Replace) kept.push_back(resource->key_hash());
    });
    if (state_->interrupted) return finish(change);
    resources.clear();
  }
  for (auto& [name, effect, resources, kept, removed, findings] : transaction.changes) {
    if (effect == Effect::Keep) continue;
    const OriginId origin = origins.id_of(name);
    if (effect != Effect::Update) {
      std::ranges::sort(kept);
      changed += origins.retain(origin, kept, exchange);
    }
    for (const std::uint64_t key_hash : removed)
      changed += origins.remove(key_hash, origin, exchange);
    if (effect == Effect::Remove) origins.forget(origin);
  }
  std::set<HostKey> resolved_for;  // sets that use one or many of the names are derived once
  for (auto& [ns_text, name] : transaction.resolved)
    if (const SymbolRef ns = state_->symbols.find(ns_text))
      state_->endpoint_names.resolve(ns, std::move(name), resolved_for);
  for (const auto& key : resolved_for) change.hosts.mark(key);
  state_->symbols.sweep_if_grown();
  if (state_->take_settings_change()) {
    Changes changes = rebuild(state_->configured);
    changes.changed_resources = changed;
    changes.mesh_config_changed = true;
    return changes;
  }
  return finish(change);
}

Changes Registry::set_settings(MeshSettings settings) { return rebuild(std::move(settings)); }

Changes Registry::rebuild(MeshSettings configured) {
  // Hosts, visibility and clients all depend on the settings: everything is linked anew, from the
  // same resources, and published as one generation.
  auto old = std::move(state_);
  const std::optional<MeshConfig> config = old->mesh_config_for(configured);
  state_ = std::make_unique<State>(std::move(configured), config ? &*config : nullptr);
  state_->facts = old->facts;
  state_->origins.take_names(old->origins);
  state_->endpoint_names.take_resolved(old->endpoint_names);
  state_->networks.count(old->clients.settings().default_identity.network, true);
  state_->clients.use(old->clients.settings());
  state_->before_publish = old->before_publish;
  state_->publish = old->publish;
  state_->interrupt = old->interrupt;
  state_->interrupted = old->interrupted;
  if (state_->settings->auto_allocate == AutoAllocate::Persistent &&
      old->settings->auto_allocate == AutoAllocate::Persistent)
    state_->vips.set_allocator(old->vips.take_allocator());
  state_->vips.count_changes_from(old->vips.changes() + 1);
  Change change(wants_records());
  change.replaced = &old->hosts;
  const OriginTable::Exchange exchange = state_->exchange_in(change);
  old->origins.resources().for_each([&](const StoredResource& resource) {
    change.changes.changed_resources += state_->origins.upsert(StoredRef(&resource), exchange);
  });
  state_->config_maps_changed = false;
  Changes changes = finish(change);
  const std::set<NameUse> before = old->endpoint_names.uses();
  const std::set<NameUse> after = state_->endpoint_names.uses();
  EndpointNameTable::Difference& names = changes.names;
  names.added.clear();
  names.removed.clear();
  std::ranges::set_difference(after, before, std::back_inserter(names.added));
  std::ranges::set_difference(before, after, std::back_inserter(names.removed));
  names.all_touched = true;
  return changes;
}

Changes Registry::set_vip_allocator(std::unique_ptr<VipAllocator> allocator) {
  state_->vips.set_allocator(std::move(allocator));
  Change change(wants_records());
  return finish(change);
}

void Registry::set_clients(ClientSettings clients) {
  state_->networks.count(state_->clients.settings().default_identity.network, false);
  state_->networks.count(clients.default_identity.network, true);
  state_->clients.use(std::move(clients));
  Change change(wants_records());
  finish(change);
}

std::optional<Changes> Registry::settle_networks() {
  if (!state_->networks.forget_ended()) return std::nullopt;
  Change change(wants_records());
  return finish(change);
}

void Registry::set_serial(std::uint32_t serial) {
  state_->facts.serial = serial;
  Change change(wants_records());
  finish(change);
}

void Registry::set_sources(SourceState sources) {
  if (state_->facts.sources == sources) return;
  state_->facts.sources = std::move(sources);
  Change change(wants_records());
  finish(change);
}

}  // namespace meshdns::registry
