// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/client_table.hpp"

#include <algorithm>

#include "registry/base/host_name.hpp"
#include "registry/snapshot/endpoint_place.hpp"
#include "registry/tables/address_speaker.hpp"

namespace meshdns::registry {

void SidecarTable::add(const SymbolRef& ns, const StoredRef& sidecar) {
  sidecars_[ns].push_back(sidecar);
}

void SidecarTable::remove(const SymbolRef& ns, const StoredRef& sidecar) {
  const auto it = sidecars_.find(ns);
  if (it == sidecars_.end()) return;
  std::erase(it->second, sidecar);
  if (it->second.empty()) sidecars_.erase(it);
}

// `client_labels`: null leaves out Sidecars with a selector.
StoredRef SidecarTable::choose(const SymbolRef& ns, const Labels* client_labels) const {
  const auto it = sidecars_.find(ns);
  if (it == sidecars_.end()) return {};
  StoredRef best;
  std::pair<Resource, bool> best_value;
  for (const auto& stored : it->second) {
    Resource resource = stored->decode();
    const auto& sidecar = std::get<Sidecar>(resource);
    const bool has_selector = sidecar.workload_selector.has_value();
    if (has_selector &&
        (client_labels == nullptr || !selects(*sidecar.workload_selector, *client_labels)))
      continue;
    // Sidecars with a selector rank first, each group by age.
    if (!best || (has_selector && !best_value.second) ||
        (has_selector == best_value.second && is_older(sidecar.meta, meta_of(best_value.first)))) {
      best = stored;
      best_value = {std::move(resource), has_selector};
    }
  }
  return best;
}

StoredRef SidecarTable::find(const Labels& client_labels, const SymbolRef& ns,
                             const SymbolRef& root) const {
  StoredRef chosen = choose(ns, &client_labels);
  if (!chosen && ns != root) chosen = choose(root, nullptr);
  return chosen;
}

Ref<const SidecarScope> SidecarTable::scope_of(const StoredRef& stored, const SymbolRef& ns,
                                               SymbolTable& symbols) {
  const Resource resource = stored->decode();
  const auto& sidecar = std::get<Sidecar>(resource);
  const bool says_own = std::ranges::any_of(sidecar.egress, [](const EgressListener& listener) {
    return std::ranges::any_of(listener.hosts, [](const std::string& host) {
      return host.starts_with("./") || host.starts_with("~./");
    });
  });
  // A Sidecar without "." means the same to every namespace: all share one scope.
  auto& scope = scopes_[{stored.get(), says_own ? ns.get() : nullptr}];
  if (!scope) scope = SidecarScope::compile(sidecar, ns, symbols, stored);
  return scope;
}

void SidecarTable::sweep() {
  std::erase_if(scopes_, [](const auto& item) { return item.second->is_unique(); });
}

namespace {

std::vector<IpAddress> addresses_of(const Resource& workload) {
  if (const auto* pod = std::get_if<Pod>(&workload)) return pod->ips;
  if (const auto* entry = std::get_if<WorkloadEntry>(&workload))
    if (const auto ip = IpAddress::parse(entry->spec.address)) return {*ip};
  return {};
}

std::string workload_of(const ClientIdentity& identity) {
  if (const std::string_view name = canonical_name(identity.labels); !name.empty())
    return std::string(name);
  return identity.workload.empty() ? identity.node : identity.workload;
}

std::vector<std::string> search_list_of(std::string_view ns, std::string_view cluster_domain) {
  const std::string domain(cluster_domain);
  return {std::string(ns) + ".svc." + domain, "svc." + domain, domain};
}

}  // namespace

void ClientTable::use(ClientSettings clients) {
  clients_ = std::move(clients);
  all_changed_ = true;
}

void ClientTable::link_workload(const StoredRef& stored, const Resource& workload, bool add) {
  for (const auto& address : addresses_of(workload)) changes_[address].push_back({stored, add});
}

void ClientTable::link_sidecar(const SymbolRef& ns, const StoredRef& sidecar, bool add) {
  if (add)
    sidecars_.add(ns, sidecar);
  else
    sidecars_.remove(ns, sidecar);
  changed_sidecars_.insert(ns);
}

void ClientTable::for_each_pod(const std::function<void(const StoredResource&)>& visit) const {
  pods_.for_each([&](const PodEntry& entry) {
    for (const StoredRef& object : entry.pods)
      if (object->kind() == Kind::Pod) visit(*object);
  });
}

void ClientTable::refresh(const Pod& pod) {
  for (const auto& address : pod.ips) changes_.try_emplace(address);
}

ClientTable::Update ClientTable::update() {
  Update update;
  const auto sidecars = std::exchange(changed_sidecars_, {});
  const bool all = std::exchange(all_changed_, false) ||
                   sidecars.contains(symbols_.intern(settings_.root_namespace));
  if (all) {
    by_address_ = {};
    pods_.for_each([&](const PodEntry& e) { changes_.try_emplace(e.address); });
  } else {
    for (const auto& ns : sidecars)
      workloads_.for_each(ns, [&](const StoredResource& stored) {
        for (const auto& address : addresses_of(stored.decode())) changes_.try_emplace(address);
      });
  }
  for (const auto& [address, changes] : std::exchange(changes_, {})) {
    update_address(address, changes);
    update.addresses.push_back(address);
  }
  const bool is_default_changed = std::exchange(default_changed_, false);
  update.everyone = all || !sidecars.empty() || is_default_changed;
  if (!update.everyone) return update;
  make_default();
  sidecars_.sweep();
  return update;
}

void ClientTable::make_default() {
  ClientIdentity identity = clients_.default_identity;
  if (identity.locality.empty())
    identity.locality = nodes_.locality_of(identity.cluster, identity.node);
  default_client_ = make(identity);
  auto* nobody = new Client;
  nobody->identity.description = "unknown client (public)";
  // Nothing tells its namespace, but it is near to this daemon.
  nobody->identity.cluster = clients_.default_identity.cluster;
  nobody->cluster = default_client_->cluster;
  nobody->identity.node = identity.node;
  nobody->identity.locality = identity.locality;
  nobody->place = default_client_->place;
  nobody->identity.network = clients_.default_identity.network;
  nobody->network = default_client_->network;
  public_client_ = Ref<const Client>(nobody);
}

// The objects that have an address after the changes; the last change of an object wins.
std::vector<StoredRef> ClientTable::objects_after(std::vector<StoredRef> objects,
                                                  const ObjectChanges& changes) {
  if (changes.empty()) return objects;
  std::unordered_map<const StoredResource*, bool> is_linked;
  for (const auto& [object, add] : changes) is_linked[object.get()] = add;
  std::erase_if(objects, [&](const StoredRef& object) { return is_linked.contains(object.get()); });
  for (const auto& [object, add] : changes)
    if (std::exchange(is_linked[object.get()], false)) objects.push_back(object);
  return objects;
}

void ClientTable::update_address(const IpAddress& address, const ObjectChanges& changes) {
  const std::uint64_t hash = hash_of(address);
  const auto same = [&](const PodEntry& e) { return e.address == address; };
  const auto same_client = [&](const ClientEntry& e) { return e.address == address; };
  const PodEntry* old = pods_.find(hash, same);
  const std::vector<StoredRef> objects =
      objects_after(old == nullptr ? std::vector<StoredRef>() : old->pods, changes);
  if (objects.empty()) {
    pods_.erase(hash, same);
    by_address_.erase(hash, same_client);
    return;
  }
  const Ref<const PodEntry> entry = pod_entry(address, objects);
  pods_.put(hash, entry, same);
  if (clients_.by_source_address)
    by_address_.put(hash, client_entry(address, entry->pods), same_client);
}

Ref<const PodEntry> ClientTable::pod_entry(const IpAddress& address,
                                           const std::vector<StoredRef>& objects) const {
  auto* entry = new PodEntry;
  Ref<const PodEntry> result(entry);
  entry->address = address;
  entry->pods = objects;
  for (const auto& stored : objects) {
    if (stored->kind() != Kind::Pod) continue;
    const Resource resource = stored->decode();
    const auto& pod = std::get<Pod>(resource);
    if (pod.running) entry->namespaces.push_back(symbols_.intern(pod.meta.ns));
    if (!pod.running && !pod.leaving) continue;
    entry->has_pod = true;
    if (!pod.host_network) entry->holders.push_back(symbols_.intern(pod.meta.ns));
  }
  return result;
}

Ref<const ClientEntry> ClientTable::client_entry(const IpAddress& address,
                                                 const std::vector<StoredRef>& objects) {
  auto* client = new ClientEntry;
  Ref<const ClientEntry> result(client);
  client->address = address;
  std::vector<Resource> speakers;
  // A namespace that is not listed costs no work for each of its WorkloadEntries.
  bool has_unlisted = false;
  for (const auto& stored : objects) {
    const bool is_unlisted = stored->kind() == Kind::WorkloadEntry &&
                             !is_listed(stored->ns(), clients_.workload_entry_namespaces);
    if (is_unlisted && std::exchange(has_unlisted, true)) continue;
    speakers.push_back(stored->decode());
  }
  AddressSpeaker speaker = choose_speaker(speakers, clients_.workload_entry_namespaces);
  if (speaker.object != nullptr) client->client = make(identity_of(*speaker.object, address));
  client->why = std::move(speaker.why);
  return result;
}

// The client that the workload at its address identifies.
ClientIdentity ClientTable::identity_of(const Resource& workload, const IpAddress& address) const {
  ClientIdentity identity;
  identity.ipv4 = clients_.default_identity.ipv4;
  identity.ipv6 = clients_.default_identity.ipv6;
  const ObjectMeta& meta = meta_of(workload);
  identity.ns = meta.ns;
  identity.labels = meta.labels;
  identity.network = network_of(workload, address);
  identity.cluster = meta.cluster.empty() ? clients_.default_identity.cluster : meta.cluster;
  identity.locality = locality_of(workload);
  identity.description =
      std::string(to_string(kind_of(workload))) + " " + meta.ns + "/" + meta.name;
  identity.workload = meta.name;
  if (const auto* pod = std::get_if<Pod>(&workload)) {
    if (const std::string_view owner = owner_of(*pod); !owner.empty()) identity.workload = owner;
    if (!pod->dns_policy_none) identity.search = search_list_of_pod(meta.ns);
    identity.search.insert(identity.search.end(), pod->searches.begin(), pod->searches.end());
    identity.narrowed_by_sidecars = !pod->is_gateway;
    identity.node = pod->node_name;
    // The API gives a Pod one address of each family that it has.
    identity.ipv4 = std::ranges::any_of(pod->ips, &IpAddress::is_v4);
    identity.ipv6 = std::ranges::any_of(pod->ips, &IpAddress::is_v6);
  } else {
    const auto& entry = std::get<WorkloadEntry>(workload);
    identity.labels = selectable_labels(entry);
    identity.search = search_list_of(meta.ns, settings_.cluster_domain);
  }
  return identity;
}

std::string ClientTable::network_of(const Resource& workload, const IpAddress& address) const {
  if (const auto* entry = std::get_if<WorkloadEntry>(&workload);
      entry != nullptr && !entry->spec.network.empty())
    return entry->spec.network;
  const ObjectMeta& meta = meta_of(workload);
  if (!meta.network.empty()) return meta.network;
  if (const SymbolRef network = networks_.default_of(meta.cluster, address))
    return std::string(network->text());
  return clients_.default_identity.network;
}

// A workload whose place nothing tells is taken to be where the daemon is, unless its node is
// another one.
Locality ClientTable::locality_of(const Resource& workload) const {
  const ObjectMeta& meta = meta_of(workload);
  const ClientIdentity& daemon = clients_.default_identity;
  if (const auto* entry = std::get_if<WorkloadEntry>(&workload)) {
    if (!entry->spec.locality.empty()) return parse_locality(entry->spec.locality);
    return locality_of_label(selectable_labels(*entry)).value_or(daemon.locality);
  }
  if (const auto labelled = locality_of_label(meta.labels)) return *labelled;
  const std::string& node = std::get<Pod>(workload).node_name;
  Locality of_node = nodes_.locality_of(meta.cluster, node);
  if (!of_node.empty()) return of_node;
  return node.empty() || daemon.node.empty() || node == daemon.node ? daemon.locality : of_node;
}

std::vector<std::string> ClientTable::search_list_of_pod(std::string_view ns) const {
  auto list = search_list_of(ns, settings_.cluster_domain);
  list.insert(list.end(), clients_.node_search.begin(), clients_.node_search.end());
  return list;
}

StoredRef ClientTable::sidecar_of(const ClientIdentity& identity, const SymbolRef& ns) const {
  if (!identity.narrowed_by_sidecars) return {};
  return sidecars_.find(identity.labels, ns, symbols_.intern(settings_.root_namespace));
}

Ref<const Client> ClientTable::make(const ClientIdentity& identity) {
  const auto intern = [this](const std::string& text) {
    return text.empty() ? SymbolRef() : symbols_.intern(text);
  };
  const SymbolRef ns = symbols_.intern(identity.ns);
  const StoredRef sidecar = sidecar_of(identity, ns);
  return describe(identity, ns, intern(identity.network), intern(identity.cluster),
                  place_of(identity.locality, identity.node, symbols_),
                  sidecar ? sidecars_.scope_of(sidecar, ns, symbols_) : Ref<const SidecarScope>());
}

Ref<const Client> ClientTable::visitor(const ClientIdentity& asked) const {
  ClientIdentity identity = asked;
  if (identity.locality.empty())
    identity.locality = nodes_.locality_of(identity.cluster, identity.node);
  // A symbol of its own equals no other, as is right for a namespace that nothing is known of.
  const auto look_up = [this](const std::string& text) {
    const SymbolRef known = symbols_.find(text);
    return known ? known : SymbolRef(new Symbol(text));
  };
  const SymbolRef ns = look_up(identity.ns);
  const StoredRef sidecar = sidecar_of(identity, ns);
  Ref<const SidecarScope> scope;
  if (sidecar)
    scope = SidecarScope::compile(std::get<Sidecar>(sidecar->decode()), ns, symbols_, sidecar);
  const auto look_up_part = [&](const std::string& text) {
    return text.empty() ? SymbolRef() : look_up(text);
  };
  const Locality& locality = identity.locality;
  return describe(identity, ns, look_up_part(identity.network), look_up_part(identity.cluster),
                  {look_up_part(identity.node), look_up_part(locality.region),
                   look_up_part(locality.zone), look_up_part(locality.subzone)},
                  std::move(scope));
}

Ref<const Client> ClientTable::describe(const ClientIdentity& identity, const SymbolRef& ns,
                                        const SymbolRef& network, const SymbolRef& cluster,
                                        Place place, Ref<const SidecarScope> scope) const {
  auto* client = new Client;
  Ref<const Client> result(client);
  client->identity = identity;
  client->ns = ns;
  client->workload = workload_of(identity);
  if (settings_.networks != NetworkChoice::Off) client->network = network;
  client->cluster = cluster;
  client->place = std::move(place);
  client->scope = std::move(scope);
  const auto own_policy = client->scope ? client->scope->outbound_policy() : std::nullopt;
  client->is_registry_only =
      identity.narrowed_by_sidecars &&
      own_policy.value_or(settings_.outbound_policy) == OutboundPolicy::RegistryOnly;
  const auto search = identity.search.empty() ? search_list_of_pod(identity.ns) : identity.search;
  for (const auto& text : search) {
    const std::string suffix = canonical_host(text);
    if (!suffix.empty() && std::ranges::find(client->search, suffix) == client->search.end())
      client->search.push_back(suffix);
  }
  return result;
}

void ClientTable::publish_to(Snapshot& snapshot) const {
  snapshot.pods = pods_;
  snapshot.clients = by_address_;
  snapshot.default_client = default_client_;
  snapshot.public_client = public_client_;
  snapshot.by_source_address = clients_.by_source_address;
  snapshot.unknown_clients = clients_.unknown;
}

}  // namespace meshdns::registry
