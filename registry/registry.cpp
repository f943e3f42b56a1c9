#include "registry/registry.hpp"

#include <algorithm>
#include <map>
#include <memory_resource>
#include <set>
#include <unordered_map>
#include <utility>

#include "registry/base/host_name.hpp"
#include "registry/derive/derive.hpp"

namespace meshdns::registry {
namespace {

struct HostKey {
  SymbolRef ns;
  std::string host;
  friend bool operator<(const HostKey& a, const HostKey& b) {
    return a.ns.get() != b.ns.get() ? a.ns.get() < b.ns.get() : a.host < b.host;
  }
  friend bool operator==(const HostKey& a, const HostKey& b) {
    return a.ns.get() == b.ns.get() && a.host == b.host;
  }
};
struct HostKeyHash {
  std::size_t operator()(const HostKey& key) const {
    return hash_bytes(key.host) ^ reinterpret_cast<std::uintptr_t>(key.ns.get());
  }
};

// What changed about the sources of one host in one namespace.  The last word on a source wins.
struct SourceChange {
  void note(const StoredRef& source, bool is_added) {
    auto& other = is_added ? removed : added;
    std::erase(other, source);
    (is_added ? added : removed).push_back(source);
  }
  std::vector<StoredRef> added;
  std::vector<StoredRef> removed;
};

bool is_wildcard(std::string_view host) { return host.starts_with("*."); }

// The order in which a client without a service of its own chooses (istio-semantics.md,
// section 7.2).
bool precedes(const ServiceRecord& a, const ServiceRecord& b) {
  const bool a_kube = a.provider != Provider::ServiceEntry;
  const bool b_kube = b.provider != Provider::ServiceEntry;
  if (a_kube != b_kube) return a_kube;
  if (a.creation_time != b.creation_time) return a.creation_time < b.creation_time;
  return a.ns->text() < b.ns->text();
}

// The addresses by which PTR finds the record: what it answers with, and a Kubernetes Service's
// endpoints. Resolved names' addresses are left out: their reverse names are their owners'
// business.
std::vector<IpAddress> reverse_addresses(const ServiceRecord* record) {
  std::vector<IpAddress> addresses;
  if (record == nullptr || record->placeholder) return addresses;
  const bool resolved =
      record->resolution == Resolution::Dns || record->resolution == Resolution::DnsRoundRobin;
  if (record->answer == AnswerKind::Vips ||
      (record->answer == AnswerKind::Endpoints && !resolved)) {
    const AddressView view = record->addresses(nullptr, nullptr);
    for (const auto& octets : view.v4) addresses.push_back(IpAddress::v4(octets));
    for (const auto& octets : view.v6) addresses.push_back(IpAddress::v6(octets));
  }
  if (record->provider != Provider::ServiceEntry && record->endpoints() != nullptr)
    for (const auto& entry : record->endpoints()->entries) addresses.push_back(entry.address);
  std::ranges::sort(addresses);
  const auto duplicates = std::ranges::unique(addresses);
  addresses.erase(duplicates.begin(), duplicates.end());
  return addresses;
}

bool same_vips(const ServiceRecord& a, const ServiceRecord& b) {
  const AddressView x = a.addresses(nullptr, nullptr);
  const AddressView y = b.addresses(nullptr, nullptr);
  return std::ranges::equal(x.v4, y.v4) && std::ranges::equal(x.v6, y.v6);
}

bool same_ports(const ServiceRecord& a, const ServiceRecord& b) {
  static const std::vector<ServicePort> kNone;
  return (a.ports ? a.ports->ports : kNone) == (b.ports ? b.ports->ports : kNone);
}

bool same_instances(const ServiceRecord& a, const ServiceRecord& b) {
  const EndpointList* x = a.endpoints();
  const EndpointList* y = b.endpoints();
  if (x == nullptr || y == nullptr) return x == y;
  return std::ranges::equal(
      x->entries, y->entries, [](const EndpointEntry& e, const EndpointEntry& f) {
        return e.address == f.address && e.ready == f.ready && e.weight == f.weight &&
               e.hostname == f.hostname && e.network == f.network && e.cluster == f.cluster;
      });
}

std::vector<IpAddress> addresses_of(const Resource& workload) {
  if (const auto* pod = std::get_if<Pod>(&workload)) return pod->ips;
  if (const auto* entry = std::get_if<WorkloadEntry>(&workload))
    if (const auto ip = IpAddress::parse(entry->spec.address)) return {*ip};
  return {};
}

bool is_kubernetes(const ServiceRecord* r) {
  return r != nullptr && !r->placeholder && r->provider == Provider::Kubernetes;
}

}  // namespace

// --- Transaction
// ------------------------------------------------------------------------------------

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
void Transaction::replace_origin(OriginId origin, std::vector<ResourceKey> keep) {
  replaced_.emplace_back(origin, std::move(keep));
}
void Transaction::retain(OriginId origin, std::vector<std::uint64_t> retained) {
  retained_.emplace_back(origin, std::move(retained));
}
void Transaction::set_resolved(ResolvedName name) { resolved_.push_back(std::move(name)); }

// --- Registry::State
// ----------------------------------------------------------------------------------

// What one commit has touched so far.
struct Registry::Change {
  // One host in one namespace that has to be derived anew, and the source that it gains or loses.
  struct Mark {
    SymbolRef ns;
    std::string_view host;  // in `texts`
    StoredRef source;       // null: something else about it has changed
    bool added = false;
  };
  void mark(const SymbolRef& ns, std::string_view host, StoredRef source = {}, bool added = false) {
    auto* text = static_cast<char*>(texts.allocate(host.size(), 1));
    host.copy(text, host.size());
    marks.push_back({ns, {text, host.size()}, std::move(source), added});
  }
  void mark(const HostKey& key) { mark(key.ns, key.host); }

  // A host gains an address that is found by it, or loses one.
  struct ReverseChange {
    std::uint64_t address_hash;
    std::uint64_t host_hash;
    bool removed;
    auto operator<=>(const ReverseChange&) const = default;
  };

  // Side by side, not a map: at 100,000 hosts its nodes would lie between what stays, and leave the
  // heap full of holes.
  std::pmr::monotonic_buffer_resource texts;
  std::vector<Mark> marks;
  std::vector<ReverseChange> reverse;
  std::set<const Symbol*> sidecar_namespaces;
  std::set<IpAddress> addresses;
  std::set<const Symbol*> namespaces;
  bool vips = false;
  bool all_clients = false;
  bool dns_visible = false;
  bool wants_events = false;
  std::vector<ServiceEvent> events;
  CommitSummary summary;
};

struct Registry::State {
  using Change = Registry::Change;
  struct SelectorHost {
    HostKey key;
    Labels selector;
    const StoredResource* entry;
  };
  // What one namespace contributes besides hosts.
  struct NamespaceState {
    std::vector<StoredRef> workloads;  // WorkloadEntries and Pods
    std::vector<StoredRef> sidecars;
    std::vector<SelectorHost> selector_hosts;  // of ServiceEntries with a workloadSelector
    StoredRef object;                          // the Namespace itself
  };
  // How many services below a name are exported alike.
  struct ScopeCount {
    ExportScope scope;
    std::uint32_t records;
  };
  explicit State(MeshSettings s) { use_settings(std::move(s)); }

  void use_settings(MeshSettings s) {
    settings = std::make_shared<const MeshSettings>(std::move(s));
    next.settings = settings;
    if (settings->auto_allocate == AutoAllocate::Hash)
      allocator = std::make_unique<HashVips>();
    else if (settings->auto_allocate == AutoAllocate::Off || !allocator)
      allocator = std::make_unique<NoVips>();
  }

  NamespaceState& namespace_state(const SymbolRef& ns) { return namespaces[ns]; }

  bool is_served(const StoredResource& resource) const {
    const auto& served = settings->namespaces;
    if (served.empty() || resource.kind() == Kind::Sidecar) return true;
    const std::string_view ns =
        resource.kind() == Kind::Namespace ? resource.name() : resource.ns();
    return std::ranges::find(served, ns) != served.end();
  }

  // The one that counts of the versions that several origins give of an object.  `has_key` tells
  // the object from others of its hash.
  template <typename HasKey>
  StoredRef winner(std::uint64_t key_hash, const HasKey& has_key) const {
    const StoredResource* best = nullptr;
    next.resources.for_each_candidate(key_hash, [&](const StoredResource& candidate) {
      if (!has_key(candidate)) return;
      if (best == nullptr || origins[candidate.origin()] < origins[best->origin()])
        best = &candidate;
    });
    return StoredRef(best);
  }

  void upsert(const StoredRef& resource, Change& change);
  void remove(const ResourceKey& key, OriginId origin, Change& change);
  void list_under_origin(const StoredResource& resource, const StoredResource* in_place_of);
  void unlist_under_origin(const StoredResource& resource);
  void retain(OriginId origin, const std::vector<std::uint64_t>& retained, Change& change);
  void exchange(const StoredRef& before, const StoredRef& after, Change& change);
  void link(const StoredRef& resource, bool add, Change& change);
  void link_service_entry(const ServiceEntry& entry, const StoredRef& stored, bool add,
                          Change& change);
  void claim_addresses(const ServiceEntry& entry, bool add, Change& change);
  void link_workload(const Resource& workload, const StoredRef& stored, bool add, Change& change);
  void link_hosts(const Resource& resource, const StoredRef& stored, bool add, Change& change);

  void assign_vips(Change& change);
  void rederive_marked(Change& change);
  void rederive(const HostKey& key, const SourceChange& sources, DeriveContext& context,
                Change& change);
  void put_host(std::string_view host, const std::vector<Ref<const ServiceRecord>>& records);
  const HostEntry* find_entry(std::string_view host) const {
    return is_wildcard(host) ? next.find_wildcard(host.substr(2)) : next.find_host(host);
  }
  void update_names(const ServiceRecord* before, const ServiceRecord* after, const HostKey& key,
                    Change& change);
  void note_reverse(std::string_view host, const ServiceRecord* before, const ServiceRecord* after,
                    Change& change);
  void update_reverse(Change& change);
  void update_non_terminals(const HostKey& key, const ServiceRecord* before,
                            const ServiceRecord* after);
  void count_below(std::string_view name, const std::optional<ExportScope>& before,
                   const std::optional<ExportScope>& after);
  void put_non_terminal(std::string_view name, const std::vector<ScopeCount>& counts);
  void note_event(const HostKey& key, const Ref<const ServiceRecord>& before,
                  const Ref<const ServiceRecord>& after, Change& change);
  void update_namespace(const Symbol* ns);
  void update_clients(Change& change);
  void update_pod_entry(const IpAddress& address);
  Ref<const Client> client_behind(const PodEntry& entry);
  Ref<const Client> make_client(const ClientIdentity& identity);
  Ref<const SidecarScope> scope_for(const ClientIdentity& identity, const SymbolRef& ns);
  DeriveContext derive_context();
  void derive_all(Change& change);
  void settle(Change& change);
  std::shared_ptr<const Snapshot> snapshot();

  Snapshot next;  // being built; its tries share with the published one
  std::shared_ptr<const MeshSettings> settings;
  ClientSettings clients;
  SymbolTable symbols;
  PortTable ports;
  std::vector<std::string> origins{""};
  std::unordered_map<std::string, OriginId> origin_ids;
  std::unordered_map<OriginId, std::vector<const StoredResource*>> by_origin;  // each at its slot
  struct BySymbol {
    std::size_t operator()(const SymbolRef& s) const { return std::hash<const Symbol*>()(s.get()); }
  };
  std::unordered_map<SymbolRef, NamespaceState, BySymbol> namespaces;
  std::unordered_map<std::string, std::set<HostKey>> name_users;
  std::unordered_map<std::string, ResolvedName> resolved;
  std::map<std::pair<const StoredResource*, const Symbol*>, Ref<const SidecarScope>> scopes;
  std::unordered_map<std::string, std::vector<ScopeCount>> non_terminals;
  struct VipKey {
    std::int64_t creation_time;
    std::string host;
    std::string ns;
    // As Istio sorts services: by creation time, then by "host.namespace" as one text.
    bool operator<(const VipKey& other) const {
      if (creation_time != other.creation_time) return creation_time < other.creation_time;
      if (host == other.host) return ns < other.ns;
      return host + "." + ns < other.host + "." + other.ns;
    }
  };
  std::map<VipKey, std::uint32_t> eligible;  // how many ServiceEntries ask for that VIP
  std::unordered_map<HostKey, std::vector<IpAddress>, HostKeyHash> assigned;
  std::map<IpAddress, std::uint32_t> claimed;  // in the ranges, by how many entries
  std::unique_ptr<VipAllocator> allocator;
  std::function<void(std::shared_ptr<const Snapshot>)> publish;
};

void Registry::State::upsert(const StoredRef& resource, Change& change) {
  const std::uint64_t hash = resource->key_hash();
  const auto has_key = [&](const StoredResource& other) { return other.has_key_of(*resource); };
  const auto same = [&](const StoredResource& other) {
    return other.origin() == resource->origin() && has_key(other);
  };
  const StoredResource* existing = next.resources.find(hash, same);
  if (existing != nullptr && existing->encoded() == resource->encoded()) {
    existing->set_line(resource->line());
    return;
  }
  const StoredRef before = winner(hash, has_key);
  list_under_origin(*resource, existing);
  next.resources.put(hash, resource, same);
  ++change.summary.changed_resources;
  exchange(before, before ? winner(hash, has_key) : resource, change);
}

void Registry::State::list_under_origin(const StoredResource& resource,
                                        const StoredResource* in_place_of) {
  auto& list = by_origin[resource.origin()];
  if (in_place_of != nullptr) {
    resource.set_slot(in_place_of->slot());
    list[resource.slot()] = &resource;
    return;
  }
  resource.set_slot(static_cast<std::uint32_t>(list.size()));
  list.push_back(&resource);
}

void Registry::State::unlist_under_origin(const StoredResource& resource) {
  auto& list = by_origin[resource.origin()];
  list[resource.slot()] = list.back();
  list.back()->set_slot(resource.slot());
  list.pop_back();
}

void Registry::State::remove(const ResourceKey& key, OriginId origin, Change& change) {
  const std::uint64_t hash = hash_of(key);
  const auto has_key = [&](const StoredResource& other) { return other.has_key(key); };
  const auto same = [&](const StoredResource& other) {
    return other.origin() == origin && has_key(other);
  };
  const StoredResource* existing = next.resources.find(hash, same);
  if (existing == nullptr) return;
  const StoredRef before = winner(hash, has_key);
  unlist_under_origin(*existing);
  next.resources.erase(hash, same);
  ++change.summary.changed_resources;
  exchange(before, winner(hash, has_key), change);
}

void Registry::State::retain(OriginId origin, const std::vector<std::uint64_t>& retained,
                             Change& change) {
  std::vector<ResourceKey> gone;
  for (const StoredResource* resource : by_origin[origin])
    if (!std::ranges::binary_search(retained, resource->key_hash()))
      gone.push_back(resource->key());
  for (const auto& key : gone) remove(key, origin, change);
}

void Registry::State::exchange(const StoredRef& before, const StoredRef& after, Change& change) {
  if (before == after) return;
  if (before && is_served(*before)) link(before, false, change);
  if (after && is_served(*after)) link(after, true, change);
}

void Registry::State::link(const StoredRef& stored, bool add, Change& change) {
  const Resource resource = stored->decode();
  const SymbolRef ns =
      symbols.intern(stored->kind() == Kind::Namespace ? stored->name() : stored->ns());
  switch (stored->kind()) {
    case Kind::ServiceEntry:
      return link_service_entry(std::get<ServiceEntry>(resource), stored, add, change);
    case Kind::WorkloadEntry:
    case Kind::Pod:
      return link_workload(resource, stored, add, change);
    case Kind::Sidecar: {
      auto& sidecars = namespace_state(ns).sidecars;
      if (add)
        sidecars.push_back(stored);
      else
        std::erase(sidecars, stored);
      change.sidecar_namespaces.insert(ns.get());
      return;
    }
    case Kind::Namespace:
      namespace_state(ns).object = add ? stored : StoredRef();
      change.namespaces.insert(ns.get());
      if (!settings->service_entry_visibility.policies.empty()) derive_all(change);
      return;
    case Kind::ServiceExport:
    case Kind::Service:
    case Kind::EndpointSlice:
    case Kind::Endpoints:
    case Kind::ServiceImport:
    case Kind::NameTableEntry:
      return link_hosts(resource, stored, add, change);
  }
}

void Registry::State::link_hosts(const Resource& resource, const StoredRef& stored, bool add,
                                 Change& change) {
  const SymbolRef ns = symbols.intern(stored->ns());
  for (const auto& host : hosts_of(resource, *settings)) change.mark(ns, host, stored, add);
  // A name of the cluster set follows the Service that it stands for.
  const auto follow = [&](std::string_view service) {
    const std::string set = service_host(service, stored->ns(), kClusterSetDomain);
    if (next.find_host(set) != nullptr) change.mark(ns, set);
  };
  if (const auto* slice = std::get_if<EndpointSlice>(&resource)) follow(slice->service);
  if (std::holds_alternative<KubeService>(resource)) follow(stored->name());
}

void Registry::State::link_service_entry(const ServiceEntry& entry, const StoredRef& stored,
                                         bool add, Change& change) {
  const SymbolRef ns = symbols.intern(entry.meta.ns);
  NamespaceState& state = namespace_state(ns);
  claim_addresses(entry, add, change);
  for (const auto& host : hosts_of(entry, *settings)) {
    change.mark(ns, host, stored, add);
    if (entry.workload_selector && add)
      state.selector_hosts.push_back({{ns, host}, *entry.workload_selector, stored.get()});
    if (settings->auto_allocate == AutoAllocate::Off || !wants_vip(entry, host)) continue;
    const VipKey key{entry.meta.creation_time, host, entry.meta.ns};
    if (add)
      ++eligible[key];
    else if (auto it = eligible.find(key); it != eligible.end() && --it->second == 0)
      eligible.erase(it);
    change.vips = true;
  }
  if (entry.workload_selector && !add)
    std::erase_if(state.selector_hosts,
                  [&](const SelectorHost& s) { return s.entry == stored.get(); });
}

// Addresses that entries give themselves are never the allocator's to give.
void Registry::State::claim_addresses(const ServiceEntry& entry, bool add, Change& change) {
  if (settings->auto_allocate == AutoAllocate::Off) return;
  const auto claim = [&](const IpAddress& address) {
    if (!settings->vip_cidr_v4.contains(address) && !settings->vip_cidr_v6.contains(address))
      return;
    if (add)
      ++claimed[address];
    else if (auto it = claimed.find(address); it != claimed.end() && --it->second == 0)
      claimed.erase(it);
    change.vips = true;
  };
  for (const auto& prefix : entry.addresses)
    if (prefix.is_single()) claim(prefix.address);
  for (const auto& status : entry.status_addresses) claim(status.value);
}

void Registry::State::link_workload(const Resource& workload, const StoredRef& stored, bool add,
                                    Change& change) {
  const SymbolRef ns = symbols.intern(stored->ns());
  NamespaceState& state = namespace_state(ns);
  if (add)
    state.workloads.push_back(stored);
  else
    std::erase(state.workloads, stored);
  for (const auto& selecting : state.selector_hosts) change.mark(selecting.key);
  for (const auto& address : addresses_of(workload)) {
    // The entry of an address lists all that have it; who of them speaks is decided when all is
    // linked.
    const std::uint64_t hash = hash_of(address);
    auto* entry = new PodEntry;
    Ref<const PodEntry> replacement(entry);
    entry->address = address;
    if (const PodEntry* old = next.find_pod(address)) entry->pods = old->pods;
    if (add)
      entry->pods.push_back(stored);
    else
      std::erase(entry->pods, stored);
    next.pods.put(hash, replacement, [&](const PodEntry& e) { return e.address == address; });
    change.addresses.insert(address);
  }
}

// --- VIPs
// -------------------------------------------------------------------------------------------

void Registry::State::assign_vips(Change& change) {
  std::vector<VipRequest> requests;
  requests.reserve(eligible.size());
  for (const auto& [key, count] : eligible)
    requests.insert(requests.end(), count, {key.ns, key.host});
  std::vector<IpAddress> taken;
  for (const auto& [address, uses] : claimed) taken.push_back(address);
  std::unordered_map<HostKey, std::vector<IpAddress>, HostKeyHash> fresh;
  for (const auto& vip : allocator->assign(requests, taken))
    fresh[{symbols.intern(vip.ns), vip.host}] = {vip.v4, vip.v6};
  for (const auto& [key, addresses] : fresh)
    if (const auto it = assigned.find(key); it == assigned.end() || it->second != addresses)
      change.mark(key);
  for (const auto& [key, addresses] : assigned)
    if (!fresh.contains(key)) change.mark(key);
  assigned = std::move(fresh);
}

// --- Hosts
// ------------------------------------------------------------------------------------------

DeriveContext Registry::State::derive_context() {
  DeriveContext context;
  context.settings = settings.get();
  context.symbols = &symbols;
  context.ports = &ports;
  context.for_each_workload = [this](const Symbol& ns,
                                     const std::function<void(const StoredRef&)>& visit) {
    const auto it = namespaces.find(SymbolRef(&ns));
    if (it == namespaces.end()) return;
    // Pods before WorkloadEntries, then by name: the order must not depend on arrival.
    auto workloads = it->second.workloads;
    std::ranges::sort(workloads, [](const StoredRef& a, const StoredRef& b) {
      if (a->kind() != b->kind()) return a->kind() == Kind::Pod;
      if (a->name() != b->name()) return a->name() < b->name();
      return a->cluster() < b->cluster();
    });
    for (const auto& workload : workloads) visit(workload);
  };
  context.resolved = [this](std::string_view host) -> const ResolvedName* {
    const auto it = resolved.find(std::string(host));
    return it == resolved.end() ? nullptr : &it->second;
  };
  context.namespace_labels = [this](std::string_view ns) -> const Labels* {
    const NamespaceEntry* entry = next.find_namespace(ns);
    return entry == nullptr ? nullptr : &entry->labels;
  };
  context.vips = [this](std::string_view ns, std::string_view host) -> std::vector<IpAddress> {
    const auto it = assigned.find({symbols.intern(ns), std::string(host)});
    return it == assigned.end() ? std::vector<IpAddress>() : it->second;
  };
  context.for_each_source = [this](std::string_view host, std::string_view ns,
                                   const std::function<void(const StoredRef&)>& visit) {
    const HostEntry* entry = next.find_host(host);
    if (entry == nullptr) return;
    for (const ServiceRecord* record : entry->records())
      if (record->ns->text() == ns) record->for_each_source(visit);
  };
  return context;
}

void Registry::State::rederive_marked(Change& change) {
  const auto marks = std::exchange(change.marks, {});
  std::vector<const Change::Mark*> order;
  order.reserve(marks.size());
  for (const auto& mark : marks) order.push_back(&mark);
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) {
    return a->ns.get() != b->ns.get() ? a->ns.get() < b->ns.get() : a->host < b->host;
  });
  // Names of the cluster set come last, since they are derived from others.
  std::ranges::stable_partition(
      order, [](const auto* mark) { return !is_below(mark->host, kClusterSetDomain); });
  DeriveContext context = derive_context();
  for (std::size_t i = 0; i < order.size();) {
    const Change::Mark& first = *order[i];
    SourceChange sources;
    for (; i < order.size() && order[i]->ns == first.ns && order[i]->host == first.host; ++i)
      if (order[i]->source) sources.note(order[i]->source, order[i]->added);
    rederive({first.ns, std::string(first.host)}, sources, context, change);
  }
  update_reverse(change);
}

void Registry::State::rederive(const HostKey& key, const SourceChange& sources,
                               DeriveContext& context, Change& change) {
  const HostEntry* entry = find_entry(key.host);
  Ref<const ServiceRecord> before;
  std::vector<Ref<const ServiceRecord>> records;
  if (entry != nullptr)
    for (const ServiceRecord* record : entry->records()) {
      if (record->ns == key.ns)
        before = Ref<const ServiceRecord>(record);
      else
        records.emplace_back(record);
    }
  std::vector<StoredRef> remaining;
  if (before)
    before->for_each_source([&](const StoredRef& s) {
      if (std::ranges::find(sources.removed, s) == sources.removed.end()) remaining.push_back(s);
    });
  for (const auto& s : sources.added)
    if (std::ranges::find(remaining, s) == remaining.end()) remaining.push_back(s);
  Ref<const ServiceRecord> after;
  if (!remaining.empty()) {
    context.was_answered = before && before->answer == AnswerKind::Endpoints;
    after = derive_record(key.ns, key.host, remaining, context);
  }
  if (!before && !after) return;
  if (after) records.push_back(after);
  std::ranges::sort(records, [](const auto& a, const auto& b) { return precedes(*a, *b); });
  put_host(key.host, records);
  if (after && records.size() > 1) change.summary.conflicts.push_back(key.host);
  update_names(before.get(), after.get(), key, change);
  if (!is_wildcard(key.host)) note_reverse(key.host, before.get(), after.get(), change);
  change.dns_visible |= is_kubernetes(before.get()) || is_kubernetes(after.get());
  update_non_terminals(key, before.get(), after.get());
  note_event(key, before, after, change);
  ++change.summary.changed_hosts;
}

void Registry::State::put_host(std::string_view host,
                               const std::vector<Ref<const ServiceRecord>>& records) {
  const bool wildcard = is_wildcard(host);
  auto& index = wildcard ? next.wildcards : next.hosts;
  const std::uint64_t hash = hash_bytes(wildcard ? host.substr(2) : host);
  const auto same = [&](const HostEntry& e) { return e.host() == host; };
  if (records.empty())
    index.erase(hash, same);
  else
    index.put(hash, HostEntry::create(host, records), same);
}

void Registry::State::update_names(const ServiceRecord* before, const ServiceRecord* after,
                                   const HostKey& key, Change& change) {
  static const std::vector<std::string> kNone;
  const auto& old_names =
      before != nullptr && before->details ? before->details->resolved_names : kNone;
  const auto& new_names =
      after != nullptr && after->details ? after->details->resolved_names : kNone;
  if (after != nullptr && after->resolution == Resolution::DnsRoundRobin)
    change.summary.names_in_order.insert(change.summary.names_in_order.end(), new_names.begin(),
                                         new_names.end());
  for (const auto& name : new_names) {
    auto& users = name_users[name];
    if (users.empty()) change.summary.names_added.push_back(name);
    users.insert(key);
  }
  for (const auto& name : old_names) {
    if (std::ranges::find(new_names, name) != new_names.end()) continue;
    const auto it = name_users.find(name);
    if (it == name_users.end()) continue;
    it->second.erase(key);
    if (!it->second.empty()) continue;
    name_users.erase(it);
    resolved.erase(name);
    // A name that one host drops and another takes in the same commit goes on as it is.
    if (std::erase(change.summary.names_added, name) == 0)
      change.summary.names_removed.push_back(name);
  }
}

// Other namespaces' records of the host may have the address too: the host is counted once a
// record.
void Registry::State::note_reverse(std::string_view host, const ServiceRecord* before,
                                   const ServiceRecord* after, Change& change) {
  const std::vector<IpAddress> old_addresses = reverse_addresses(before);
  const std::vector<IpAddress> new_addresses = reverse_addresses(after);
  const std::uint64_t host_hash = hash_bytes(host);
  std::vector<IpAddress> difference;
  std::ranges::set_difference(old_addresses, new_addresses, std::back_inserter(difference));
  for (const auto& address : difference)
    change.reverse.push_back({hash_of(address), host_hash, true});
  difference.clear();
  std::ranges::set_difference(new_addresses, old_addresses, std::back_inserter(difference));
  for (const auto& address : difference)
    change.reverse.push_back({hash_of(address), host_hash, false});
}

// In the order of the index, so that the part of it that one address has brought into the caches
// serves the next: a million addresses take half as long as in the order of their hosts.
void Registry::State::update_reverse(Change& change) {
  auto changes = std::exchange(change.reverse, {});
  std::ranges::sort(changes);
  std::vector<std::uint64_t> hosts;
  for (auto it = changes.begin(); it != changes.end();) {
    const std::uint64_t hash = it->address_hash;
    const auto same = [&](const ReverseEntry& e) { return e.address_hash() == hash; };
    hosts.clear();
    if (const ReverseEntry* old = next.reverse.find(hash, same); old != nullptr)
      hosts.assign(old->host_hashes().begin(), old->host_hashes().end());
    for (; it != changes.end() && it->address_hash == hash; ++it) {
      if (!it->removed)
        hosts.push_back(it->host_hash);
      else if (const auto host = std::ranges::find(hosts, it->host_hash); host != hosts.end())
        hosts.erase(host);
    }
    if (hosts.empty())
      next.reverse.erase(hash, same);
    else
      next.reverse.put(hash, ReverseEntry::create(hash, hosts), same);
  }
}

// The names between a host and the cluster domain, but for "svc", which is always there.
void Registry::State::update_non_terminals(const HostKey& key, const ServiceRecord* before,
                                           const ServiceRecord* after) {
  if (!is_below(key.host, settings->cluster_domain)) return;
  const auto scope_of = [&](const ServiceRecord* r) -> std::optional<ExportScope> {
    if (r == nullptr || r->placeholder) return std::nullopt;
    return ExportScope{key.ns, r->exports};
  };
  const auto was = scope_of(before);
  const auto is = scope_of(after);
  if (was == is) return;
  const std::string svc = "svc." + settings->cluster_domain;
  for (std::string_view name = parent_of(key.host);
       is_below(name, settings->cluster_domain) && name != svc; name = parent_of(name))
    count_below(name, was, is);
}

void Registry::State::count_below(std::string_view name, const std::optional<ExportScope>& before,
                                  const std::optional<ExportScope>& after) {
  auto& counts = non_terminals[std::string(name)];
  const auto count_of = [&](const ExportScope& scope) {
    return std::ranges::find(counts, scope, &ScopeCount::scope);
  };
  const std::size_t size = counts.size();
  if (before)
    if (const auto count = count_of(*before); --count->records == 0) counts.erase(count);
  bool changed = counts.size() != size;
  if (after) {
    const auto count = count_of(*after);
    changed |= count == counts.end();
    if (count == counts.end())
      counts.push_back({*after, 1});
    else
      ++count->records;
  }
  if (changed) put_non_terminal(name, counts);
  if (counts.empty()) non_terminals.erase(std::string(name));
}

void Registry::State::put_non_terminal(std::string_view name,
                                       const std::vector<ScopeCount>& counts) {
  const std::uint64_t hash = hash_bytes(name);
  const auto same = [&](const NonTerminal& e) { return e.name == name; };
  if (counts.empty()) {
    next.non_terminals.erase(hash, same);
    return;
  }
  auto* entry = new NonTerminal;
  const Ref<const NonTerminal> replacement(entry);
  entry->name = name;
  for (const auto& count : counts) entry->scopes.push_back(count.scope);
  next.non_terminals.put(hash, replacement, same);
}

void Registry::State::note_event(const HostKey& key, const Ref<const ServiceRecord>& before,
                                 const Ref<const ServiceRecord>& after, Change& change) {
  if (!change.wants_events) return;
  const bool was = before && !before->placeholder;
  const bool is = after && !after->placeholder;
  if (!was && !is) return;
  ServiceEvent event;
  event.event = !was ? Event::Add : !is ? Event::Delete : Event::Update;
  event.host = key.host;
  event.ns = key.ns->text();
  if (was) event.before = before;
  if (is) event.after = after;
  event.service_changed = !was || !is || before->answer != after->answer ||
                          before->provider != after->provider ||
                          before->alias() != after->alias() || !same_ports(*before, *after) ||
                          (after->answer == AnswerKind::Vips && !same_vips(*before, *after)) ||
                          before->source != after->source;
  event.instances_changed = !was || !is || !same_instances(*before, *after);
  if (event.service_changed || event.instances_changed) change.events.push_back(std::move(event));
}

// --- Namespaces and clients
// ---------------------------------------------------------------------------

void Registry::State::update_namespace(const Symbol* ns) {
  const SymbolRef symbol(ns);
  const NamespaceState& state = namespace_state(symbol);
  const std::uint64_t hash = hash_bytes(ns->text());
  const auto same = [&](const NamespaceEntry& e) { return e.name == symbol; };
  if (!state.object) {
    next.namespaces.erase(hash, same);
    return;
  }
  auto* entry = new NamespaceEntry;
  const Ref<const NamespaceEntry> replacement(entry);
  entry->name = symbol;
  const Resource object = state.object->decode();
  entry->labels = meta_of(object).labels;
  entry->creation_time = meta_of(object).creation_time;
  next.namespaces.put(hash, replacement, same);
}

Ref<const SidecarScope> Registry::State::scope_for(const ClientIdentity& identity,
                                                   const SymbolRef& ns) {
  const SymbolRef root = symbols.intern(settings->root_namespace);
  const auto choose = [&](const SymbolRef& from, bool with_selector) -> StoredRef {
    const auto it = namespaces.find(from);
    if (it == namespaces.end()) return {};
    StoredRef best;
    std::pair<Resource, bool> best_value;
    for (const auto& stored : it->second.sidecars) {
      Resource resource = stored->decode();
      const auto& sidecar = std::get<Sidecar>(resource);
      const bool has_selector = sidecar.workload_selector.has_value();
      if (has_selector && (!with_selector || !selects(*sidecar.workload_selector, identity.labels)))
        continue;
      // Those with a selector rank first, each group by age.
      if (!best || (has_selector && !best_value.second) ||
          (has_selector == best_value.second &&
           is_older(sidecar.meta, meta_of(best_value.first)))) {
        best = stored;
        best_value = {std::move(resource), has_selector};
      }
    }
    return best;
  };
  StoredRef chosen = choose(ns, true);
  if (!chosen && ns != root) chosen = choose(root, false);
  if (!chosen) return {};
  const Resource resource = chosen->decode();
  const auto& sidecar = std::get<Sidecar>(resource);
  const bool says_own = std::ranges::any_of(sidecar.egress, [](const EgressListener& listener) {
    return std::ranges::any_of(listener.hosts, [](const std::string& host) {
      return host.starts_with("./") || host.starts_with("~./");
    });
  });
  // A Sidecar without "." means the same to every namespace: all share one scope.
  auto& scope = scopes[{chosen.get(), says_own ? ns.get() : nullptr}];
  if (!scope) scope = SidecarScope::compile(sidecar, ns, symbols, chosen);
  return scope;
}

Ref<const Client> Registry::State::make_client(const ClientIdentity& identity) {
  auto* client = new Client;
  Ref<const Client> result(client);
  client->identity = identity;
  client->ns = symbols.intern(identity.ns);
  if (!identity.network.empty()) client->network = symbols.intern(identity.network);
  if (!identity.cluster.empty()) client->cluster = symbols.intern(identity.cluster);
  client->scope = scope_for(identity, client->ns);
  const std::string& domain = settings->cluster_domain;
  client->search = identity.search;
  if (client->search.empty())
    client->search = {identity.ns + ".svc." + domain, "svc." + domain, domain};
  std::vector<std::string> unique;
  for (auto& suffix : client->search) {
    suffix = canonical_host(suffix);
    if (!suffix.empty() && std::ranges::find(unique, suffix) == unique.end())
      unique.push_back(suffix);
  }
  client->search = std::move(unique);
  return result;
}

// The one workload that an address stands for; null when it stands for several or none.
Ref<const Client> Registry::State::client_behind(const PodEntry& entry) {
  std::vector<Resource> pods;
  std::vector<Resource> workload_entries;
  for (const auto& stored : entry.pods) {
    Resource resource = stored->decode();
    if (const auto* pod = std::get_if<Pod>(&resource)) {
      if (pod->running) pods.push_back(std::move(resource));
    } else {
      workload_entries.push_back(std::move(resource));
    }
  }
  if (pods.size() > 1 || (pods.empty() && workload_entries.size() != 1)) return {};
  ClientIdentity identity;
  identity.ipv4 = clients.default_identity.ipv4;
  identity.ipv6 = clients.default_identity.ipv6;
  if (!pods.empty()) {
    const auto& pod = std::get<Pod>(pods.front());
    if (pod.host_network) return {};
    identity.ns = pod.meta.ns;
    identity.labels = pod.meta.labels;
    identity.network = pod.meta.network;
    identity.cluster = pod.meta.cluster;
    identity.description = "Pod " + pod.meta.ns + "/" + pod.meta.name;
    const std::string& domain = settings->cluster_domain;
    if (!pod.dns_policy_none)
      identity.search = {pod.meta.ns + ".svc." + domain, "svc." + domain, domain};
    identity.search.insert(identity.search.end(), pod.searches.begin(), pod.searches.end());
  } else {
    const auto& workload = std::get<WorkloadEntry>(workload_entries.front());
    identity.ns = workload.meta.ns;
    identity.labels = workload.meta.labels;
    for (const auto& label : workload.spec.labels)
      if (std::ranges::none_of(workload.meta.labels,
                               [&](const auto& l) { return l.first == label.first; }))
        identity.labels.push_back(label);
    std::ranges::sort(identity.labels);
    identity.network =
        workload.spec.network.empty() ? workload.meta.network : workload.spec.network;
    identity.cluster = workload.meta.cluster;
    identity.description = "WorkloadEntry " + workload.meta.ns + "/" + workload.meta.name;
  }
  return make_client(identity);
}

void Registry::State::update_pod_entry(const IpAddress& address) {
  const std::uint64_t hash = hash_of(address);
  const auto same = [&](const PodEntry& e) { return e.address == address; };
  const auto same_client = [&](const ClientEntry& e) { return e.address == address; };
  const PodEntry* old = next.pods.find(hash, same);
  if (old == nullptr || old->pods.empty()) {
    next.pods.erase(hash, same);
    next.clients.erase(hash, same_client);
    return;
  }
  auto* entry = new PodEntry;
  const Ref<const PodEntry> replacement(entry);
  entry->address = address;
  entry->pods = old->pods;
  for (const auto& stored : entry->pods) {
    const Resource resource = stored->decode();
    if (const auto* pod = std::get_if<Pod>(&resource); pod != nullptr && pod->running)
      entry->namespaces.push_back(symbols.intern(pod->meta.ns));
  }
  next.pods.put(hash, replacement, same);
  if (!clients.by_source_address) return;
  auto* client = new ClientEntry;
  const Ref<const ClientEntry> client_ref(client);
  client->address = address;
  client->client = client_behind(*entry);
  next.clients.put(hash, client_ref, same_client);
}

void Registry::State::update_clients(Change& change) {
  const Symbol* root = symbols.intern(settings->root_namespace).get();
  const bool everybody = change.all_clients || change.sidecar_namespaces.contains(root);
  if (everybody) {
    next.clients = {};
    next.pods.for_each([&](const PodEntry& e) { change.addresses.insert(e.address); });
  } else {
    for (const Symbol* ns : change.sidecar_namespaces)
      for (const auto& stored : namespaces[SymbolRef(ns)].workloads)
        for (const auto& address : addresses_of(stored->decode())) change.addresses.insert(address);
  }
  for (const auto& address : change.addresses) update_pod_entry(address);
  if (everybody || !change.sidecar_namespaces.empty() || !next.default_client) {
    next.default_client = make_client(clients.default_identity);
    ClientIdentity nobody;
    nobody.description = "unknown client (public)";
    auto* client = new Client;
    client->identity = nobody;
    next.public_client = Ref<const Client>(client);
  }
  if (!change.sidecar_namespaces.empty() || everybody)
    std::erase_if(scopes, [](const auto& item) { return item.second->is_unique(); });
}

// --- Commit
// -------------------------------------------------------------------------------------------

void Registry::State::derive_all(Change& change) {
  const auto mark_all = [&](const HostEntry& entry) {
    for (const ServiceRecord* record : entry.records()) change.mark(record->ns, entry.host());
  };
  next.hosts.for_each(mark_all);
  next.wildcards.for_each(mark_all);
}

void Registry::State::settle(Change& change) {
  // Labels of namespaces count for visibility, so they come before the hosts.
  for (const Symbol* ns : change.namespaces) update_namespace(ns);
  change.namespaces.clear();
  if (change.vips) assign_vips(change);
  rederive_marked(change);
  for (const Symbol* ns : change.namespaces) update_namespace(ns);
  update_clients(change);
}

std::shared_ptr<const Snapshot> Registry::State::snapshot() {
  if (!next.origins || next.origins->names.size() != origins.size()) {
    auto* names = new OriginNames;
    next.origins = Ref<const OriginNames>(names);
    names->names = origins;
  }
  next.by_source_address = clients.by_source_address;
  next.unknown_clients = clients.unknown;
  ++next.generation;
  return std::make_shared<const Snapshot>(next);
}

Registry::Registry(MeshSettings settings)
    : state_(std::make_unique<State>(std::move(settings))), clock_([] { return std::int64_t{0}; }) {
  State::Change change;
  state_->settle(change);
  state_->next.serial = 1;
  current_ = state_->snapshot();
}

Registry::~Registry() = default;

OriginId Registry::origin(std::string_view name) {
  const auto [it, is_new] =
      state_->origin_ids.emplace(name, static_cast<OriginId>(state_->origins.size()));
  if (is_new) state_->origins.emplace_back(name);
  return it->second;
}

Ref<const Client> Registry::client_of(const ClientIdentity& identity) {
  return state_->make_client(identity);
}

std::size_t Registry::scopes() const { return state_->scopes.size(); }

void Registry::set_publish(std::function<void(std::shared_ptr<const Snapshot>)> publish) {
  state_->publish = std::move(publish);
}

CommitSummary Registry::finish(Change& change) {
  change.wants_events = controller_.has_handlers();
  state_->settle(change);
  if (change.dns_visible)
    state_->next.serial = std::max(state_->next.serial + 1, static_cast<std::uint32_t>(clock_()));
  current_ = state_->snapshot();
  if (state_->publish) state_->publish(current_);
  if (controller_.has_handlers()) controller_.notify(change.events, *current_);
  return std::move(change.summary);
}

CommitSummary Registry::commit(Transaction&& transaction) {
  State::Change change;
  // What each replaced origin goes on holding, as hashes of keys.
  std::unordered_map<OriginId, std::vector<std::uint64_t>> replaced;
  for (const auto& [origin, keep] : transaction.replaced_)
    for (auto& kept = replaced[origin]; const auto& key : keep) kept.push_back(hash_of(key));
  for (const auto& resource : transaction.upserts_) {
    state_->upsert(resource, change);
    if (const auto it = replaced.find(resource->origin()); it != replaced.end())
      it->second.push_back(resource->key_hash());
  }
  for (auto& [origin, kept] : replaced) {
    std::ranges::sort(kept);
    state_->retain(origin, kept, change);
  }
  for (const auto& [origin, retained] : transaction.retained_)
    state_->retain(origin, retained, change);
  for (const auto& [key, origin] : transaction.removals_) state_->remove(key, origin, change);
  for (auto& name : transaction.resolved_) {
    const auto users = state_->name_users.find(name.host);
    if (users == state_->name_users.end()) continue;
    for (const auto& key : users->second) change.mark(key);
    std::string host = name.host;
    state_->resolved[std::move(host)] = std::move(name);
  }
  if (state_->symbols.size() > 4 * state_->namespaces.size() + 1024) state_->symbols.sweep();
  return finish(change);
}

CommitSummary Registry::set_settings(MeshSettings settings) {
  // Hosts, visibility and clients all depend on the settings: everything is linked anew, from the
  // same resources, and published as one generation.
  auto old = std::move(state_);
  state_ = std::make_unique<State>(std::move(settings));
  state_->clients = old->clients;
  state_->origins = old->origins;
  state_->origin_ids = old->origin_ids;
  state_->resolved = old->resolved;
  state_->publish = old->publish;
  if (state_->settings->auto_allocate == AutoAllocate::Persistent &&
      old->settings->auto_allocate == AutoAllocate::Persistent)
    state_->allocator = std::move(old->allocator);
  state_->next.generation = old->next.generation;
  state_->next.serial = old->next.serial;
  state_->next.authoritative = old->next.authoritative;
  state_->next.synced = old->next.synced;
  state_->next.from_state_dir = old->next.from_state_dir;
  state_->next.endpoints_unknown = old->next.endpoints_unknown;
  State::Change change;
  change.all_clients = true;
  change.dns_visible = true;
  old->next.resources.for_each(
      [&](const StoredResource& resource) { state_->upsert(StoredRef(&resource), change); });
  CommitSummary summary = finish(change);
  std::vector<std::string> added;
  for (const auto& [name, users] : state_->name_users)
    if (!old->name_users.contains(name)) added.push_back(name);
  summary.names_removed.clear();
  for (const auto& [name, users] : old->name_users)
    if (!state_->name_users.contains(name)) summary.names_removed.push_back(name);
  summary.names_added = std::move(added);
  return summary;
}

CommitSummary Registry::set_vip_allocator(std::unique_ptr<VipAllocator> allocator) {
  state_->allocator = std::move(allocator);
  State::Change change;
  change.vips = true;
  return finish(change);
}

void Registry::set_clients(ClientSettings clients) {
  state_->clients = std::move(clients);
  State::Change change;
  change.all_clients = true;
  finish(change);
}

void Registry::set_endpoints_unknown(bool unknown) {
  if (state_->next.endpoints_unknown == unknown) return;
  state_->next.endpoints_unknown = unknown;
  State::Change change;
  finish(change);
}

void Registry::set_state(bool authoritative, bool synced, bool from_state_dir) {
  Snapshot& next = state_->next;
  if (next.authoritative == authoritative && next.synced == synced &&
      next.from_state_dir == from_state_dir)
    return;
  next.authoritative = authoritative;
  next.synced = synced;
  next.from_state_dir = from_state_dir;
  State::Change change;
  finish(change);
}

}  // namespace meshdns::registry
