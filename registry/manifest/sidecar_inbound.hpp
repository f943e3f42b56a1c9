// SPDX-License-Identifier: Apache-2.0
// The parts of a Sidecar that say nothing about names: TLS, endpoints and connection pools of
// inbound connections.  They are judged because istiod refuses the whole object for a fault in
// them.
#pragma once

#include <string_view>

#include "registry/manifest/fields.hpp"

namespace meshdns::registry {

// "127.0.0.1:8080", "[::1]:8080", ":8080", "unix:///path".
void check_default_endpoint(Report& report, const Field& field);
// Of an ingress listener whose port has `protocol`.
void check_ingress_tls(Report& report, const Field& tls, std::string_view protocol);
void check_connection_pool(Report& report, const Field& pool);

}  // namespace meshdns::registry
