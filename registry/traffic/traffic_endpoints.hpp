// SPDX-License-Identifier: Apache-2.0
// The endpoints to which the mesh sends a connection, as answers have them.  For explanations only:
// it may walk all resources, and allocates.
#pragma once

#include <cstdint>

#include "registry/traffic/traffic_match.hpp"

namespace meshdns::registry {

// The port of an endpoint for a port of its service: the one of that name, else the target port.
std::uint16_t endpoint_port(const EndpointList& endpoints, const EndpointEntry& entry,
                            const ServicePort& port);

// Fills match.endpoints.  REQUIRES: match.service is not null.
void add_endpoints(const View& view, const Connection& connection, TrafficMatch& match);

}  // namespace meshdns::registry
