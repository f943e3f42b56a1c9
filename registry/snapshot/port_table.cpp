// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/port_table.hpp"

#include "registry/base/hash.hpp"

namespace meshdns::registry {
namespace {

std::uint64_t hash_of(const std::vector<ServicePort>& ports) {
  std::uint64_t hash = ports.size();
  for (const auto& port : ports) {
    const auto numbers = std::uint64_t{port.number} << 16 | port.target_port;
    hash = hash_detail::mix(hash ^ hash_bytes(port.name), hash_bytes(port.protocol) ^ numbers) + 1;
  }
  return hash;
}

}  // namespace

Ref<const PortList> PortTable::intern(const std::vector<ServicePort>& ports) {
  const std::uint64_t hash = hash_of(ports);
  const auto [begin, end] = lists_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (it->second->ports == ports) return it->second;
  if (lists_.size() >= sweep_at_) sweep();
  return lists_.emplace(hash, Ref<const PortList>(new PortList(ports)))->second;
}

void PortTable::sweep() {
  std::erase_if(lists_, [](const auto& item) { return item.second->is_unique(); });
  sweep_at_ = 2 * lists_.size() + 1024;
}

}  // namespace meshdns::registry
