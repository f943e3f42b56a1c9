// SPDX-License-Identifier: Apache-2.0
// The Services behind a name of the cluster set that several clusters export without an import
// (KEP-1645, "Constraints and Conflict Resolution").  Of Services that contradict each other, that
// of the oldest ServiceExport counts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "registry/model/resources.hpp"

namespace meshdns::registry {

class DecodedResource;

// Objects of one kind, oldest first.
template <typename T>
using StoredObjects = std::vector<std::pair<const T*, const DecodedResource*>>;

struct ExportedServices {
  StoredObjects<KubeService> services;  // in the order of their exports
  std::vector<ServicePort> ports;       // of all of them, without those that contradict older ones
  std::vector<std::string> conflicts;   // what is left out, in words, for explanations
};

// `services`: those of the name in all clusters; the ones that no export names, or that cannot be
// exported, are left out.  The result refers to the same objects.
ExportedServices exported_services(const StoredObjects<ServiceExport>& exports,
                                   const StoredObjects<KubeService>& services);

}  // namespace meshdns::registry
