// SPDX-License-Identifier: Apache-2.0
// The large endpoint lists of the services that one commit derives, each stored once.  An entry
// with 256 hosts and 4,096 endpoints has one list instead of a million endpoints, and so have
// entries that select the same workloads.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "registry/snapshot/service_record.hpp"

namespace meshdns::registry {

// Control thread.
class EndpointLists {
 public:
  // Completes the list with its index, or returns an equal one that it was given before.
  // `pod_names`: MeshSettings::endpoint_pod_names, the same in all calls.
  Ref<const EndpointList> complete(std::unique_ptr<EndpointList> list, bool pod_names);

 private:
  std::unordered_multimap<std::uint64_t, Ref<const EndpointList>> lists_;
};

}  // namespace meshdns::registry
