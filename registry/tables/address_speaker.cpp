// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/address_speaker.hpp"

#include <algorithm>

namespace meshdns::registry {
namespace {

std::string label_of(const Resource& object) { return key_of(object).to_string(); }

// The youngest of the Pods; null when two are equally young.
const Resource* youngest(const std::vector<const Resource*>& pods) {
  const Resource* best = pods.front();
  bool is_alone = true;
  for (const Resource* pod : pods) {
    if (pod == best) continue;
    const auto created = meta_of(*pod).creation_time;
    const auto newest = meta_of(*best).creation_time;
    if (created > newest) best = pod;
    is_alone = created == newest ? false : created > newest || is_alone;
  }
  return is_alone ? best : nullptr;
}

AddressSpeaker among_leaving(const std::vector<const Resource*>& pods) {
  const Resource* const pod = youngest(pods);
  if (pod == nullptr) return {nullptr, "several terminating Pods have the address"};
  return {pod, label_of(*pod) + " holds the address until it is gone; no running Pod has it"};
}

AddressSpeaker among_entries(const std::vector<const Resource*>& entries, std::size_t refused) {
  if (entries.empty())
    return {nullptr, refused == 0 ? "no Pod or WorkloadEntry has the address"
                                  : "only WorkloadEntries have the address, in namespaces that "
                                    "client.workload_entry_namespaces does not name"};
  const Resource* const oldest = *std::ranges::min_element(
      entries,
      [](const Resource* a, const Resource* b) { return is_older(meta_of(*a), meta_of(*b)); });
  std::string why = label_of(*oldest) + " has the address";
  if (entries.size() > 1)
    why += "; it is the oldest of " + std::to_string(entries.size()) + " WorkloadEntries";
  return {oldest, std::move(why)};
}

}  // namespace

bool is_listed(std::string_view ns, const std::vector<std::string>& workload_entry_namespaces) {
  return std::ranges::any_of(workload_entry_namespaces,
                             [&](const std::string& name) { return name == "*" || name == ns; });
}

AddressSpeaker choose_speaker(std::span<const Resource> objects,
                              const std::vector<std::string>& workload_entry_namespaces) {
  std::vector<const Resource*> running;
  std::vector<const Resource*> leaving;
  std::vector<const Resource*> entries;
  std::size_t refused = 0;
  bool is_node = false;
  bool was_node = false;
  for (const Resource& object : objects) {
    if (const auto* pod = std::get_if<Pod>(&object)) {
      was_node |= pod->host_network;
      is_node |= pod->host_network && (pod->running || pod->leaving);
      if (pod->running) running.push_back(&object);
      if (pod->leaving) leaving.push_back(&object);
    } else if (is_listed(meta_of(object).ns, workload_entry_namespaces)) {
      entries.push_back(&object);
    } else {
      ++refused;
    }
  }
  if (is_node) return {nullptr, "the address is a node's: Pods of the host network share it"};
  if (running.size() > 1) return {nullptr, "several running Pods have the address"};
  if (!running.empty()) return {running.front(), label_of(*running.front()) + " has the address"};
  if (!leaving.empty()) return among_leaving(leaving);
  if (was_node) return {nullptr, "a Pod of the host network had the address: it is a node's"};
  return among_entries(entries, refused);
}

}  // namespace meshdns::registry
