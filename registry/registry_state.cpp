// SPDX-License-Identifier: Apache-2.0
#include "registry/registry_state.hpp"

#include <algorithm>
#include <set>

namespace meshdns::registry {
namespace {

bool has_endpoints(const ServiceRecord& record) {
  return record.endpoints() != nullptr || record.parts() != nullptr;
}

}  // namespace

void Registry::State::link(const StoredRef& stored, bool add, Change& change) {
  const Resource resource = stored->decode();
  if (is_strict())
    claimants.note_owner(resource, add, [&](const HostKey& host) { change.hosts.mark(host); });
  vips.claim(resource, add);
  networks.link(resource, add);
  gateways.link(resource, stored, add);
  switch (stored->kind()) {
    case Kind::ServiceEntry:
      return link_service_entry(std::get<ServiceEntry>(resource), stored, add, change);
    case Kind::WorkloadEntry:
    case Kind::Pod:
      return link_workload(resource, stored, add, change);
    case Kind::Sidecar:
      return link_sidecar(stored, add);
    case Kind::Namespace:
      if (is_served(stored->name())) link_namespace(std::get<Namespace>(resource), add, change);
      return;
    case Kind::ServiceExport:
    case Kind::Service:
    case Kind::EndpointSlice:
    case Kind::Endpoints:
    case Kind::ServiceImport:
    case Kind::NameTableEntry:
      return link_hosts(resource, stored, add, change);
    case Kind::ConfigMap:
      return link_config_map(stored, add);
    case Kind::Node:
      return link_node(std::get<KubeNode>(resource), add);
    case Kind::Gateway:
    case Kind::HttpRoute:
    case Kind::TlsRoute:
    case Kind::GrpcRoute:
    case Kind::Ingress:
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
  if (const auto* service = std::get_if<KubeService>(&resource)) {
    follow(stored->name());
    service_selectors.link_service(ns, stored, *service, add);
  }
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

// The name of the cluster set that follows the Service of that host.
std::string Registry::State::host_in_cluster_set(std::string_view host) const {
  const std::size_t zone = settings->cluster_domain.size();
  return std::string(host.substr(0, host.size() - zone)).append(kClusterSetDomain);
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
  if (stored->kind() == Kind::WorkloadEntry)
    service_selectors.link_workload(ns, stored, workload, add, [&](std::string_view host) {
      change.hosts.mark(ns, host);
      const std::string set = host_in_cluster_set(host);
      if (hosts.find(set) != nullptr) change.hosts.mark(ns, set);
    });
  clients.link_workload(stored, workload, add);
  if (const auto* pod = std::get_if<Pod>(&workload); pod != nullptr && change.wants_records)
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

void Registry::State::link_config_map(const StoredRef& stored, bool add) {
  config_maps_changed = true;
  if (add)
    config_maps.insert_or_assign(stored->key(), stored);
  else
    config_maps.erase(stored->key());
}

// Each cluster may have one, but the mesh has one set of settings: the first cluster's counts.
std::optional<MeshConfig> Registry::State::mesh_config_for(const MeshSettings& of) const {
  for (const auto& [key, stored] : config_maps)
    if (is_istio_config_map(of, key.ns, key.name)) return std::get<MeshConfig>(stored->decode());
  return {};
}

bool Registry::State::take_settings_change() {
  if (!std::exchange(config_maps_changed, false)) return false;
  const std::optional<MeshConfig> config = mesh_config_for(configured);
  return effective_settings(configured, config ? &*config : nullptr) != *settings;
}

void Registry::State::link_namespace(const Namespace& object, bool add, Change& change) {
  const SymbolRef name = symbols.intern(object.meta.name);
  const TrafficDistribution before = namespaces.distribution_of(object.meta.name);
  if (add)
    namespaces.put(name, object);
  else
    namespaces.erase(name);
  note_pod_names(object.meta.name);
  gateways.note_namespace(object.meta.name);
  const bool wants_near = settings->locality != LocalityChoice::Off &&
                          before != namespaces.distribution_of(object.meta.name);
  if (settings->service_entry_visibility.policies.empty() && !wants_near) return;
  hosts.for_each([&](const HostEntry& entry) {
    for (const ServiceRecord* record : entry.records()) change.hosts.mark(record->ns, entry.host());
  });
}

void Registry::State::link_node(const KubeNode& node, bool add) {
  if (settings->locality == LocalityChoice::Off) return;
  if (add)
    nodes.put(node);
  else
    nodes.erase(node);
}

void Registry::State::follow_nodes(Change& change) {
  const std::set<NodeTable::Key> moved = nodes.take_changes();
  if (moved.empty()) return;
  clients.for_each_pod([&](const StoredResource& stored) {
    const Resource resource = stored.decode();
    const auto& pod = std::get<Pod>(resource);
    if (!moved.contains({pod.meta.cluster, pod.node_name}) &&
        !moved.contains({std::string(), pod.node_name}))
      return;
    const SymbolRef ns = symbols.intern(pod.meta.ns);
    workloads.for_each_selecting(ns, resource,
                                 [&](std::string_view host) { change.hosts.mark(ns, host); });
    clients.refresh(pod);
  });
  clients.refresh_default();
}

void Registry::State::rederive_marked(Change& change) {
  DeriveContext context(*this);
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
  change.changes.names = endpoint_names.take_difference();
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
  auto& conflicts = change.changes.conflicts;
  conflicts.insert(conflicts.end(), static_cast<std::size_t>(has_host), change.host);
}

// Puts a record into the tables for lookups, and notes the effects.
void Registry::State::put(const HostKey& key, const Ref<const ServiceRecord>& before,
                          const Ref<const ServiceRecord>& after, Change& change) {
  Changes& changes = change.changes;
  change.derived.push_back({key.ns, after});
  members.exchange(key, before.get(), after.get(),
                   [&](const HostKey& host) { change.hosts.mark(host); });
  if (!is_wildcard(key.host)) {
    reverse.note(key.host, before.get(), after.get());
    non_terminals.exchange_addresses(before.get(), after.get(), settings->reverse_zones);
  }
  non_terminals.exchange(key, before.get(), after.get(), settings->cluster_domain);
  endpoint_names.exchange(key, before.get(), after.get());
  endpoint_names.note_host(key, before.get(), after.get(), settings->cluster_domain);
  if (change.wants_records) change.changes.records.push_back({key.host, before, after});
  ++changes.changed_hosts;
  if (!after) return;
  if (after->is_of_cluster() && after->endpoints() != nullptr)
    facts.members.add(std::string_view(key.host).substr(0, key.host.find('.')));
  // "pod1.db" in a name table
  if (after->provider == Provider::NameTable && after->details)
    if (const auto dot = after->details->short_name.find('.'); dot != std::string::npos)
      facts.members.add(std::string_view(after->details->short_name).substr(dot + 1));
  if (after->refused && !(before && before->refused))
    changes.refused.push_back({key.host, after->source, after->details->notes.back()});
  if (after->details && after->details->has_ordered_names)
    for (const auto& name : after->details->resolved_names)
      changes.names_in_order.push_back({name, std::string(key.ns->text())});
}

void Registry::State::mark_networks(Change& change) {
  const NetworkTable::Changes changes = networks.take_changes();
  const auto mark = [&](const HostEntry& host, const auto& is_concerned) {
    for (const ServiceRecord* record : host.records())
      if (is_concerned(*record)) change.hosts.mark(record->ns, host.host());
  };
  if (changes.defaults) clients.note_networks();
  if (changes.defaults || changes.choice)
    hosts.for_each([&](const HostEntry& host) { mark(host, has_endpoints); });
  for (const IpAddress& address : changes.addresses)
    if (const ReverseEntry* const entry = reverse.find(address))
      for (const AddressUse& use : entry->uses())
        hosts.for_each(use, [&](const HostEntry& host) { mark(host, has_endpoints); });
}

void Registry::State::settle_gateways(Change& change) {
  gateways.settle({.on_source =
                       [&](const std::string& host, const StoredRef& source, bool added) {
                         const HostKey key{symbols.intern(source->ns()), host};
                         change.hosts.mark(key.ns, host, source, added);
                         if (is_strict()) claimants.note_claimant(key, added);
                       },
                   .on_answer =
                       [&](const std::string& host, const StoredRef& source) {
                         change.hosts.mark(symbols.intern(source->ns()), host);
                       },
                   .on_refused =
                       [&](const std::string& host, const StoredRef& source) {
                         change.changes.refused.push_back(
                             {host, source, std::string(rule_of(Claim::GatewayNameOfAll).reason)});
                       }});
}

void Registry::State::settle(Change& change) {
  follow_nodes(change);
  settle_gateways(change);
  vips.assign(symbols, [&](const HostKey& host) { change.hosts.mark(host); });
  mark_networks(change);
  rederive_marked(change);
  if (!interrupted) update_clients(change);
  selections.clear();
  selections_of_services.clear();
  decoded.clear();
}

void Registry::State::update_clients(Change& change) {
  ClientTable::Update update = clients.update();
  change.changes.everything |= update.everyone;
  change.changes.clients = std::move(update.addresses);
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
  snapshot->gateways = networks.gateways();
  return snapshot;
}

}  // namespace meshdns::registry
