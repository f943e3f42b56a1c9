// SPDX-License-Identifier: Apache-2.0
#include "registry/model/mesh_service.hpp"

#include "registry/base/enum_text.hpp"

namespace meshdns::registry {

std::string_view to_string(ServiceResolution resolution) {
  return enum_text<ServiceResolution::DynamicDNS>(
      resolution,
      {"ClientSideLB", "DNSLB", "Passthrough", "DNSRoundRobinLB", "Alias", "DynamicDNS"});
}

std::string_view to_string(EndpointFamily family) {
  return family == EndpointFamily::Unix ? "Unix" : "TCP";
}

}  // namespace meshdns::registry
