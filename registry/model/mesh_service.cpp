// SPDX-License-Identifier: Apache-2.0
#include "registry/model/mesh_service.hpp"

namespace meshdns::registry {

std::string_view to_string(ServiceResolution resolution) {
  switch (resolution) {
    case ServiceResolution::ClientSideLB:
      return "ClientSideLB";
    case ServiceResolution::DNSLB:
      return "DNSLB";
    case ServiceResolution::Passthrough:
      return "Passthrough";
    case ServiceResolution::DNSRoundRobinLB:
      return "DNSRoundRobinLB";
    case ServiceResolution::Alias:
      return "Alias";
    case ServiceResolution::DynamicDNS:
      return "DynamicDNS";
  }
  return "";
}

std::string_view to_string(EndpointFamily family) {
  return family == EndpointFamily::Unix ? "Unix" : "TCP";
}

}  // namespace meshdns::registry
