// SPDX-License-Identifier: Apache-2.0
// Turns resources of the workload API into objects of Kubernetes and Istio, so that the registry
// needs no rules of its own for them:
//
//   Service   a Kubernetes Service if its host is NAME.NAMESPACE.svc.DOMAIN, else a ServiceEntry;
//   Workload  a Pod or WorkloadEntry, which identify clients, and an EndpointSlice for each
//             Kubernetes Service that it serves.
//
// A ServiceEntry selects its workloads by a label that has the service's name as key, because
// workloads and services come in any order, and neither knows whether the other is there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "registry/base/result.hpp"
#include "registry/model/resources.hpp"
#include "registry/source/istiod/workload_api.hpp"

namespace meshdns::registry::istiod {

struct WorkloadRules {
  std::string cluster_domain = "cluster.local";
  // VIPs of other networks are left out; empty: none is.
  std::string network;
};

// Any thread.  An Error says the field and what is wrong with it.  `name` is the name of the
// resource, which must be that of its content: objects of different names never meet.
Result<std::vector<Resource>> objects_of(const ApiAddress& address, std::string_view name,
                                         const WorkloadRules& rules);

// The objects of a resource that its name alone tells of: no EndpointSlices.  A resource has at
// most one of them.
std::vector<ResourceKey> keys_of_name(std::string_view name, const WorkloadRules& rules);

}  // namespace meshdns::registry::istiod
