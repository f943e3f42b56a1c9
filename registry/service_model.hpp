// SPDX-License-Identifier: Apache-2.0
// The services of a registry as values of Istio's abstract service model.
//
// Snapshots keep what answers need.  The other fields are decoded from the stored resources when
// somebody asks for them, so they cost queries and snapshots nothing.
//
// Control thread: selected workloads and resolved names are in the registry's own tables.
#pragma once

#include <string_view>
#include <vector>

#include "registry/model/mesh_service.hpp"
#include "registry/registry.hpp"

namespace meshdns::registry {

// Returns the services that a record stands for: its parts, or itself; none of a placeholder.
std::vector<const ServiceRecord*> services_of(const ServiceRecord& record);

// For all functions below: `service` is an element of services_of() for a record of `host`.  The
// record may be older than Registry::current(); labels and the like of its endpoints are current.
ServiceId id_of(std::string_view host, const ServiceRecord& service);
MeshService mesh_service(const Registry& registry, std::string_view host,
                         const ServiceRecord& service);
// In the order of the service's objects; Unix sockets come last.
std::vector<ServiceInstance> instances_of(const Registry& registry, const ServiceRecord& service);

}  // namespace meshdns::registry
