// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/network_table.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "registry/base/hash.hpp"
#include "registry/model/labels.hpp"

namespace meshdns::registry {
namespace {

std::uint64_t hash_of_pod(std::string_view cluster, std::string_view ns, std::string_view name) {
  using hash_detail::mix;
  return mix(hash_bytes(name), mix(hash_bytes(ns), hash_bytes(cluster) | 1) | 1);
}

std::uint64_t hash_of_pod_at(std::uint64_t pod, const IpAddress& address) {
  return hash_detail::mix(pod, std::hash<IpAddress>()(address) | 1);
}

}  // namespace

NetworkTable::NetworkTable(const MeshSettings& settings, SymbolTable& symbols)
    : settings_(settings), symbols_(symbols) {
  for (const MeshNetwork& network : settings_.mesh_networks) count(network.name, true);
}

void NetworkTable::count(std::string_view network, bool add) {
  if (network.empty()) return;
  auto named = named_.find(network);
  if (add) {
    if (named == named_.end()) named = named_.emplace(network, std::size_t{0}).first;
    ++named->second;
    several_ = several_ || named_.size() > 1;
  } else if (named != named_.end() && --named->second == 0) {
    named_.erase(named);
  }
}

bool NetworkTable::forget_ended() {
  return std::exchange(several_, named_.size() > 1) && !several_;
}

void NetworkTable::count_networks(const Resource& resource, bool add) {
  count(meta_of(resource).network, add);
  if (const auto* workload = std::get_if<WorkloadEntry>(&resource))
    count(workload->spec.network, add);
  if (const auto* entry = std::get_if<ServiceEntry>(&resource))
    for (const WorkloadSpec& spec : entry->endpoints) count(spec.network, add);
}

void NetworkTable::link(const Resource& resource, bool add) {
  count_networks(resource, add);
  if (const auto* pod = std::get_if<Pod>(&resource)) link_pod(*pod, add);
  if (const auto* service = std::get_if<KubeService>(&resource)) link_service(*service, add);
  if (const auto* gateway = std::get_if<Gateway>(&resource))
    link_gateway(gateway->meta, "Gateway " + gateway->meta.ns + "/" + gateway->meta.name,
                 gateway->remote_addresses, add);
  if (const auto* object = std::get_if<Namespace>(&resource);
      object != nullptr && object->meta.name == settings_.root_namespace)
    link_root_namespace(*object, add);
}

// By address, too: a Pod may come back under its name with another address and another label, and
// slices do not wait for that.
void NetworkTable::link_pod(const Pod& pod, bool add) {
  const std::string_view label = network_label(pod.meta.labels);
  if (label.empty()) return;
  const std::uint64_t of_pod = hash_of_pod(pod.meta.cluster, pod.meta.ns, pod.meta.name);
  for (const IpAddress& address : pod.ips) {
    const std::uint64_t hash = hash_of_pod_at(of_pod, address);
    const auto [change, is_new] = changed_pods_.try_emplace(hash);
    if (const auto known = pods_.find(hash); is_new && known != pods_.end())
      change->second.before = known->second;
    change->second.address = address;
    if (add)
      pods_[hash] = symbols_.intern(label);
    else
      pods_.erase(hash);
  }
}

void NetworkTable::link_root_namespace(const Namespace& object, bool add) {
  const std::string_view label = network_label(object.meta.labels);
  count(label, add);
  if (add && !label.empty()) {
    of_clusters_[object.meta.cluster] = symbols_.intern(label);
  } else {
    of_clusters_.erase(object.meta.cluster);
  }
}

void NetworkTable::link_service(const KubeService& service, bool add) {
  link_gateway(service.meta,
               service_host(service.meta.name, service.meta.ns, settings_.cluster_domain),
               service.external_addresses, add);
}

void NetworkTable::link_gateway(const ObjectMeta& meta, std::string name,
                                const std::vector<IpAddress>& addresses, bool add) {
  if (settings_.networks != NetworkChoice::Gateways || addresses.empty()) return;
  const std::pair key(meta.cluster, std::move(name));
  if (!add) {
    gateway_objects_.erase(key);
    return;
  }
  // A label takes the traffic of a whole network.
  const bool may_have_label =
      settings_.claims == Claims::Istio || meta.ns == settings_.root_namespace;
  gateway_objects_[key] = {may_have_label ? std::string(network_label(meta.labels)) : std::string(),
                           addresses};
}

std::vector<NetworkGateways::Gateway> NetworkTable::find_gateways() const {
  // Each endpoint of a network stands for all of them, and any tenant may add some.
  constexpr std::size_t kMaxOfNetwork = 64;
  std::map<std::string, std::size_t, std::less<>> counts;
  std::vector<NetworkGateways::Gateway> gateways;
  if (settings_.networks != NetworkChoice::Gateways) return gateways;
  const auto add = [&](std::string_view network, std::string_view cluster,
                       std::span<const IpAddress> addresses) {
    std::size_t& count = counts[std::string(network)];
    for (const IpAddress& address : addresses) {
      if (++count > kMaxOfNetwork) return;
      gateways.push_back({symbols_.intern(network),
                          cluster.empty() ? SymbolRef() : symbols_.intern(cluster), address});
    }
  };
  for (const MeshNetwork& network : settings_.mesh_networks)
    add(network.name, {}, network.gateways);
  for (const auto& [key, service] : gateway_objects_) {
    const auto& [cluster, host] = key;
    if (!service.network.empty()) {
      add(service.network, cluster, service.addresses);
      continue;
    }
    // The name of a Service is that of one cluster.
    for (const MeshNetwork& network : settings_.mesh_networks)
      if (std::ranges::find(network.registries, cluster) != network.registries.end() &&
          std::ranges::find(network.gateway_services, host) != network.gateway_services.end())
        add(network.name, cluster, service.addresses);
  }
  return gateways;
}

NetworkTable::Changes NetworkTable::take_changes() {
  Changes changes;
  changes.defaults = of_clusters_ != of_clusters_before_;
  if (changes.defaults) of_clusters_before_ = of_clusters_;
  for (auto& [hash, change] : std::exchange(changed_pods_, {})) {
    const auto after = pods_.find(hash);
    if (change.before == (after == pods_.end() ? SymbolRef() : after->second)) continue;
    changes.addresses.push_back(change.address);
  }
  if (settings_.networks == NetworkChoice::Off) return changes;
  if (!several_) {
    changes.choice = std::exchange(gateways_, {}) != nullptr;
    return changes;
  }
  Ref<const NetworkGateways> gateways(new NetworkGateways(find_gateways()));
  if (gateways_ && std::ranges::equal(gateways_->all(), gateways->all())) return changes;
  gateways_ = std::move(gateways);
  changes.choice = true;
  return changes;
}

SymbolRef NetworkTable::default_of(std::string_view cluster, const IpAddress& address) const {
  if (const auto known = of_clusters_.find(cluster); known != of_clusters_.end())
    return known->second;
  const std::string_view name = network_of(settings_.mesh_networks, cluster, address);
  return name.empty() ? SymbolRef() : symbols_.intern(name);
}

SymbolRef NetworkTable::of_pod(std::string_view cluster, std::string_view ns, std::string_view name,
                               const IpAddress& address) const {
  if (pods_.empty() || name.empty()) return {};
  const auto known = pods_.find(hash_of_pod_at(hash_of_pod(cluster, ns, name), address));
  return known == pods_.end() ? SymbolRef() : known->second;
}

}  // namespace meshdns::registry
