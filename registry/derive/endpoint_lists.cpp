// SPDX-License-Identifier: Apache-2.0
#include "registry/derive/endpoint_lists.hpp"

#include <functional>
#include <utility>

#include "registry/base/hash.hpp"

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
    if (it->second->entries == list->entries && it->second->ports == list->ports) return it->second;
  list->index = EndpointIndex(list->entries, pod_names);
  return lists_.emplace(hash, Ref<const EndpointList>(list.release()))->second;
}

}  // namespace meshdns::registry
