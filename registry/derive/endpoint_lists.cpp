// SPDX-License-Identifier: Apache-2.0
#include "registry/derive/endpoint_lists.hpp"

#include <functional>
#include <utility>

#include "registry/base/hash.hpp"
#include "registry/model/entry_endpoints.hpp"
#include "registry/snapshot/stored_resource.hpp"

namespace meshdns::registry {
namespace {

// Of all that lists may differ in: a comparison of lists that are not equal could be a long one.
std::uint64_t hash_of_list(const EndpointList& list) {
  std::uint64_t hash = list.entries.size();
  const auto add = [&](std::uint64_t value) { hash = hash_detail::mix(hash ^ value, ~value) + 1; };
  for (const EndpointEntry& entry : list.entries) {
    add(std::hash<IpAddress>()(entry.address));
    add(std::uint64_t{entry.weight} << 18 | std::uint64_t{entry.subset} << 2 |
        (entry.ready ? 2U : 0U) | (entry.resolved ? 1U : 0U));
    add(std::hash<const Symbol*>()(entry.network.get()));
    add(std::hash<const Symbol*>()(entry.cluster.get()));
    add(hash_bytes(entry.hostname) + 3 * hash_bytes(entry.pod_name) +
        5 * hash_bytes(entry.node_name));
  }
  for (const auto& ports : list.ports) add(std::hash<const PortList*>()(ports.get()));
  return hash;
}

}  // namespace

Ref<const EndpointList> EndpointLists::complete(std::unique_ptr<EndpointList> list,
                                                bool pod_names) {
  if (list->entries.size() < EndpointIndex::kWorthwhile)
    return Ref<const EndpointList>(list.release());
  const std::uint64_t hash = hash_of_list(*list);
  const auto [begin, end] = lists_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (it->second->entries == list->entries && it->second->ports == list->ports &&
        it->second->near == list->near)
      return it->second;
  list->index = EndpointIndex(list->entries, pod_names);
  return lists_.emplace(hash, Ref<const EndpointList>(list.release()))->second;
}

// Names are resolved for each namespace, and a short list costs less than its key.
bool EndpointLists::may_keep(const ServiceEntry& entry) {
  return !has_endpoint_names(entry) &&
         (entry.workload_selector || entry.endpoints.size() >= EndpointIndex::kWorthwhile);
}

// All that the endpoints depend on.
std::string EndpointLists::key_of(const ServiceEntry& entry, TrafficDistribution distribution) {
  ServiceEntry essence;
  essence.meta.ns = entry.meta.ns;
  essence.meta.network = entry.meta.network;
  essence.meta.cluster = entry.meta.cluster;
  essence.ports = entry.ports;
  essence.resolution = entry.resolution;
  essence.endpoints = entry.endpoints;
  essence.workload_selector = entry.workload_selector;
  essence.traffic_distribution = distribution;
  std::string key;
  encode_resource(essence, key);
  return key;
}

Ref<const EndpointList> EndpointLists::kept(const std::string& key) const {
  const auto found = alike_.find(key);
  return found == alike_.end() ? Ref<const EndpointList>() : found->second;
}

void EndpointLists::keep(std::string key, const Ref<const EndpointList>& list) {
  if (list->entries.size() < EndpointIndex::kWorthwhile || key_octets_ + key.size() > kMaxKeyOctets)
    return;
  key_octets_ += key.size();
  alike_.emplace(std::move(key), list);
}

EndpointAddresses EndpointLists::addresses(const EndpointList& list) {
  if (list.entries.size() < EndpointIndex::kWorthwhile) return addresses_of(list, gateways_.get());
  const auto [kept, is_new] = addresses_.try_emplace(&list);
  if (is_new) kept->second = addresses_of(list, gateways_.get());
  return kept->second;
}

}  // namespace meshdns::registry
