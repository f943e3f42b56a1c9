// SPDX-License-Identifier: Apache-2.0
#include "registry/registry.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>
#include <utility>

#include "registry/derive/decoded_resources.hpp"
#include "registry/derive/derive.hpp"
#include "registry/host_changes.hpp"
#include "registry/tables/claimant_table.hpp"
#include "registry/tables/client_table.hpp"
#include "registry/tables/host_marks.hpp"
#include "registry/tables/host_table.hpp"
#include "registry/tables/member_table.hpp"
#include "registry/tables/namespace_table.hpp"
#include "registry/tables/non_terminal_table.hpp"
#include "registry/tables/origin_table.hpp"
#include "registry/tables/reverse_table.hpp"
#include "registry/tables/status_address_table.hpp"
#include "registry/tables/vip_table.hpp"
#include "registry/tables/workload_table.hpp"

namespace meshdns::registry {

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

// The effects of one commit so far.
struct Registry::Change {
  HostMarks hosts;
  // The records that are derived of one host, until the next host.
  std::string host;
  std::vector<HostTable::Replacement> derived;
  bool wants_events = false;
  std::vector<ServiceEvent> events;
  bool wants_changes = false;
  std::vector<HostChange> changes;
  std::vector<IpAddress> pod_addresses;  // of changed Pods, which endpoints may be
  const HostTable* replaced = nullptr;   // the hosts before a change of the settings
  CommitSummary summary;
};

// The tables, and how a resource of each kind goes into them.
struct Registry::State {
  using Change = Registry::Change;
  explicit State(MeshSettings s) : settings(std::make_shared<const MeshSettings>(std::move(s))) {}

  bool is_served(const StoredResource& resource) const {
    const auto& served = settings->namespaces;
    if (served.empty() || resource.kind() == Kind::Sidecar) return true;
    const std::string_view ns =
        resource.kind() == Kind::Namespace ? resource.name() : resource.ns();
    return std::ranges::find(served, ns) != served.end();
  }
  // Whether what takes long is given up.  Asked of each object; asks every 5 ms or so.
  bool is_interrupted() {
    if (interrupted || !interrupt || ++steps % 1'024 != 0) return interrupted;
    return interrupted = interrupt();
  }
  bool is_strict() const { return settings->claims == Claims::Strict; }

  OriginTable::Exchange exchange_in(Change& change) {
    return [this, &change](const StoredRef& before, const StoredRef& after) {
      if (before && is_served(*before)) link(before, false, change);
      if (after && is_served(*after)) link(after, true, change);
    };
  }
  void link(const StoredRef& resource, bool add, Change& change);
  void link_service_entry(const ServiceEntry& entry, const StoredRef& stored, bool add,
                          Change& change);
  void link_workload(const Resource& workload, const StoredRef& stored, bool add, Change& change);
  void link_sidecar(const StoredRef& stored, bool add);
  void link_namespace(const Namespace& object, bool add, Change& change);
  void note_pod_names(std::string_view ns);
  void link_hosts(const Resource& resource, const StoredRef& stored, bool add, Change& change);

  DeriveContext derive_context();
  void rederive_marked(Change& change);
  void rederive(const HostKey& key, const SourceChange& sources, DeriveContext& context,
                Change& change);
  void replace_derived(Change& change);
  void put(const HostKey& key, const Ref<const ServiceRecord>& before,
           const Ref<const ServiceRecord>& after, Change& change);
  void settle(Change& change);
  std::shared_ptr<const Snapshot> snapshot();

  const std::shared_ptr<const MeshSettings> settings;
  Snapshot facts;  // generation, serial and the state of the sources; without tables
  SymbolTable symbols;
  PortTable ports;
  OriginTable origins;
  HostTable hosts;
  MemberTable members{hosts, *settings};
  ReverseTable reverse;
  NonTerminalTable non_terminals;
  NamespaceTable namespaces;
  WorkloadTable workloads;
  ClientTable clients{*settings, symbols, workloads};
  ClaimantTable claimants;  // only with claims: strict
  EndpointNameTable endpoint_names;
  VipTable vips{*settings};
  DecodedResources decoded;
  Selections selections{workloads, decoded};
  StatusAddressTable status_addresses{decoded};
  std::function<void(std::shared_ptr<const Snapshot>)> publish;
  std::function<bool()> interrupt;
  std::size_t steps = 0;
  bool interrupted = false;  // for good
};

void Registry::State::link(const StoredRef& stored, bool add, Change& change) {
  const Resource resource = stored->decode();
  if (is_strict())
    claimants.note_owner(resource, add, [&](const HostKey& host) { change.hosts.mark(host); });
  vips.claim(resource, add);
  switch (stored->kind()) {
    case Kind::ServiceEntry:
      return link_service_entry(std::get<ServiceEntry>(resource), stored, add, change);
    case Kind::WorkloadEntry:
    case Kind::Pod:
      return link_workload(resource, stored, add, change);
    case Kind::Sidecar:
      return link_sidecar(stored, add);
    case Kind::Namespace:
      return link_namespace(std::get<Namespace>(resource), add, change);
    case Kind::ServiceExport:
    case Kind::Service:
    case Kind::EndpointSlice:
    case Kind::Endpoints:
    case Kind::ServiceImport:
    case Kind::NameTableEntry:
      return link_hosts(resource, stored, add, change);
    case Kind::VirtualService:  // explanations look for it among the resources
      return;
  }
}

void Registry::State::link_hosts(const Resource& resource, const StoredRef& stored, bool add,
                                 Change& change) {
  const SymbolRef ns = symbols.intern(stored->ns());
  const bool makes_claims = is_strict() && stored->kind() == Kind::NameTableEntry;
  for (const auto& host : hosts_of(resource, *settings)) {
    change.hosts.mark(ns, host, stored, add);
    if (makes_claims) claimants.note_claimant({ns, host}, add);
  }
  // A name of the cluster set follows the Service that it stands for.
  const auto follow = [&](std::string_view service) {
    const std::string set = service_host(service, stored->ns(), kClusterSetDomain);
    if (hosts.find(set) != nullptr) change.hosts.mark(ns, set);
  };
  if (const auto* slice = std::get_if<EndpointSlice>(&resource)) follow(slice->service);
  if (std::holds_alternative<KubeService>(resource)) follow(stored->name());
}

void Registry::State::link_service_entry(const ServiceEntry& entry, const StoredRef& stored,
                                         bool add, Change& change) {
  const SymbolRef ns = symbols.intern(entry.meta.ns);
  const std::vector<std::string> hosts_of_entry = hosts_of(entry, *settings);
  for (const auto& host : hosts_of_entry) {
    change.hosts.mark(ns, host, stored, add);
    if (is_strict()) claimants.note_claimant({ns, host}, add);
  }
  vips.request(entry, hosts_of_entry, add);
  status_addresses.link(entry, stored, hosts_of_entry, add,
                        [&](std::string_view other, std::string_view host) {
                          change.hosts.mark(symbols.intern(other), host);
                        });
  if (!entry.workload_selector) return;
  if (add)
    workloads.add_selector(ns, *stored, *entry.workload_selector, hosts_of_entry);
  else
    workloads.remove_selector(ns, *stored, *entry.workload_selector);
}

void Registry::State::link_workload(const Resource& workload, const StoredRef& stored, bool add,
                                    Change& change) {
  const SymbolRef ns = symbols.intern(stored->ns());
  if (add)
    workloads.add(ns, stored, workload);
  else
    workloads.remove(ns, stored, workload);
  workloads.for_each_selecting(ns, workload,
                               [&](std::string_view host) { change.hosts.mark(ns, host); });
  clients.link_workload(stored, workload, add);
  if (const auto* pod = std::get_if<Pod>(&workload); pod != nullptr && change.wants_changes)
    change.pod_addresses.insert(change.pod_addresses.end(), pod->ips.begin(), pod->ips.end());
  if (stored->kind() == Kind::Pod && settings->pods == PodNames::Verified)
    note_pod_names(stored->ns());
}

// Endpoints may have names like 10-0-0-1.shop.pod.cluster.local.
void Registry::State::note_pod_names(std::string_view ns) {
  if (!endpoint_names.empty())
    endpoint_names.note_below(std::string(ns) + ".pod." + settings->cluster_domain);
}

void Registry::State::link_sidecar(const StoredRef& stored, bool add) {
  if (stored->ns() == settings->root_namespace)
    endpoint_names.note_all();
  else
    endpoint_names.note_namespace(stored->ns());
  clients.link_sidecar(symbols.intern(stored->ns()), stored, add);
}

void Registry::State::link_namespace(const Namespace& object, bool add, Change& change) {
  const SymbolRef name = symbols.intern(object.meta.name);
  if (add)
    namespaces.put(name, object);
  else
    namespaces.erase(name);
  note_pod_names(object.meta.name);
  if (settings->service_entry_visibility.policies.empty()) return;
  hosts.for_each([&](const HostEntry& entry) {
    for (const ServiceRecord* record : entry.records()) change.hosts.mark(record->ns, entry.host());
  });
}

DeriveContext Registry::State::derive_context() {
  DeriveContext context;
  context.settings = settings.get();
  context.decoded = &decoded;
  context.owners = &claimants.owners();
  context.symbols = &symbols;
  context.ports = &ports;
  context.for_each_selected = [this](const SymbolRef& ns, const Labels& selector,
                                     const std::function<void(const Resource&)>& visit) {
    for (const DecodedRef& workload : selections.of(ns, selector)) visit(workload->resource());
  };
  context.resolved = [this](std::string_view ns, std::string_view name) {
    return endpoint_names.find(ns, name);
  };
  context.namespace_labels = [this](std::string_view ns) { return namespaces.labels_of(ns); };
  context.vips = [this](std::string_view ns, std::string_view host) {
    return vips.addresses_of({symbols.intern(ns), std::string(host)});
  };
  context.has_status_address = [this](const IpAddress& address, const StoredRef& entry,
                                      std::string_view host) {
    return status_addresses.has(address, entry, host);
  };
  context.is_member = [this](std::string_view host) { return members.is_member(host); };
  context.for_each_source = [this](std::string_view host, std::string_view ns,
                                   const std::function<void(const StoredRef&)>& visit) {
    if (const auto record = hosts.find({symbols.intern(ns), std::string(host)}))
      record->for_each_source(visit);
  };
  return context;
}

void Registry::State::rederive_marked(Change& change) {
  EndpointLists lists;
  DeriveContext context = derive_context();
  context.lists = &lists;
  // A Service's members may mark hosts that are derived already.
  while (!change.hosts.empty()) {
    change.hosts.take([&](const HostKey& key, const SourceChange& sources) {
      if (key.host != change.host) replace_derived(change);
      change.host = key.host;
      rederive(key, sources, context, change);
    });
    replace_derived(change);
  }
  if (interrupted) return;
  reverse.apply();
  EndpointNameTable::Difference names = endpoint_names.take_difference();
  CommitSummary& summary = change.summary;
  summary.names_added = std::move(names.added);
  summary.names_removed = std::move(names.removed);
  summary.names_touched = std::move(names.touched);
  summary.namespaces_touched = std::move(names.touched_namespaces);
  summary.all_names_touched = names.all_touched;
}

void Registry::State::rederive(const HostKey& key, const SourceChange& sources,
                               DeriveContext& context, Change& change) {
  if (is_interrupted()) return;
  const Ref<const ServiceRecord> before = hosts.find(key);
  std::vector<StoredRef> remaining;
  if (before)
    before->for_each_source([&](const StoredRef& s) {
      if (std::ranges::find(sources.removed, s) == sources.removed.end()) remaining.push_back(s);
    });
  for (const auto& s : sources.added)
    if (std::ranges::find(remaining, s) == remaining.end()) remaining.push_back(s);
  Ref<const ServiceRecord> after;
  if (!remaining.empty()) {
    context.was_answered = before && (before->answer == AnswerKind::Endpoints ||
                                      (before->split && before->endpoints()));
    after = derive_record(key.ns, key.host, remaining, context);
  }
  if (before || after) put(key, before, after, change);
}

// Puts the records that were derived of one host into the table of hosts.
void Registry::State::replace_derived(Change& change) {
  const auto derived = std::exchange(change.derived, {});
  if (derived.empty() || hosts.put(change.host, derived) < 2) return;
  const auto has_host = std::ranges::count_if(derived, [](const auto& d) { return !!d.record; });
  change.summary.conflicts.insert(change.summary.conflicts.end(),
                                  static_cast<std::size_t>(has_host), change.host);
}

// Puts a record into the tables for lookups, and notes the effects.
void Registry::State::put(const HostKey& key, const Ref<const ServiceRecord>& before,
                          const Ref<const ServiceRecord>& after, Change& change) {
  CommitSummary& summary = change.summary;
  change.derived.push_back({key.ns, after});
  members.exchange(key, before.get(), after.get(),
                   [&](const HostKey& host) { change.hosts.mark(host); });
  if (!is_wildcard(key.host)) reverse.note(key.host, before.get(), after.get());
  non_terminals.exchange(key, before.get(), after.get(), settings->cluster_domain);
  if (!is_wildcard(key.host))
    non_terminals.exchange_addresses(before.get(), after.get(), settings->reverse_zones);
  endpoint_names.exchange(key, before.get(), after.get());
  endpoint_names.note_host(key, before.get(), after.get(), settings->cluster_domain);
  if (change.wants_events)
    if (auto event = difference(key.host, key.ns->text(), before, after))
      change.events.push_back(std::move(*event));
  if (change.wants_changes)
    change.changes.push_back({key.host, std::string(key.ns->text()), before, after});
  ++summary.changed_hosts;
  if (!after) return;
  if (after->provider != Provider::ServiceEntry && after->endpoints() != nullptr)
    facts.members.add(std::string_view(key.host).substr(0, key.host.find('.')));
  if (after->refused && !(before && before->refused))
    summary.refused.push_back({key.host, after->source, after->details->notes.back()});
  if (after->details && after->details->has_ordered_names)
    summary.names_in_order.insert(summary.names_in_order.end(),
                                  after->details->resolved_names.begin(),
                                  after->details->resolved_names.end());
}

void Registry::State::settle(Change& change) {
  vips.assign(symbols, [&](const HostKey& host) { change.hosts.mark(host); });
  rederive_marked(change);
  if (!interrupted) clients.update();
  selections.clear();
  decoded.clear();
}

std::shared_ptr<const Snapshot> Registry::State::snapshot() {
  ++facts.generation;
  auto snapshot = std::make_shared<Snapshot>(facts);
  snapshot->settings = settings;
  origins.publish_to(*snapshot);
  hosts.publish_to(*snapshot);
  reverse.publish_to(*snapshot);
  non_terminals.publish_to(*snapshot);
  namespaces.publish_to(*snapshot);
  clients.publish_to(*snapshot);
  return snapshot;
}

Registry::Registry(MeshSettings settings) : state_(std::make_unique<State>(std::move(settings))) {
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

bool Registry::has_endpoint_name(const ServiceRecord& service, std::string_view host,
                                 std::string_view name) const {
  return state_->endpoint_names.is_user({service.ns, std::string(host)}, name);
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

void Registry::set_interrupt(std::function<bool()> interrupt) {
  state_->interrupt = std::move(interrupt);
}

CommitSummary Registry::finish(Change& change) {
  change.wants_events = controller_.has_handlers();
  change.wants_changes = controller_.change_handler() != nullptr;
  if (!state_->interrupted) state_->settle(change);
  if (change.summary.interrupted = state_->interrupted; state_->interrupted)
    return std::move(change.summary);
  current_ = state_->snapshot();
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
  return finish(change);
}

CommitSummary Registry::set_settings(MeshSettings settings) {
  // Hosts, visibility and clients all depend on the settings: everything is linked anew, from the
  // same resources, and published as one generation.
  auto old = std::move(state_);
  state_ = std::make_unique<State>(std::move(settings));
  state_->facts = old->facts;
  state_->origins.take_names(old->origins);
  state_->endpoint_names.take_resolved(old->endpoint_names);
  state_->clients.use(old->clients.settings());
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
  state_->clients.use(std::move(clients));
  Change change;
  finish(change);
}

void Registry::set_serial(std::uint32_t serial) {
  state_->facts.serial = serial;
  Change change;
  finish(change);
}

void Registry::set_endpoints_unknown(bool unknown) {
  if (state_->facts.endpoints_unknown == unknown) return;
  state_->facts.endpoints_unknown = unknown;
  Change change;
  finish(change);
}

void Registry::set_state(bool authoritative, bool synced, bool from_state_dir) {
  Snapshot& facts = state_->facts;
  if (facts.authoritative == authoritative && facts.synced == synced &&
      facts.from_state_dir == from_state_dir)
    return;
  facts.authoritative = authoritative;
  facts.synced = synced;
  facts.from_state_dir = from_state_dir;
  Change change;
  finish(change);
}

}  // namespace meshdns::registry
