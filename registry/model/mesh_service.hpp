// SPDX-License-Identifier: Apache-2.0
// The abstract service model: services and their instances as plain values, with the names of
// Istio's model.  registry/service_model.hpp makes them of a registry.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {

// How a proxy finds the endpoints of a service.
enum class ServiceResolution : std::uint8_t {
  ClientSideLB,     // it knows them: static ones, and those of a Service with a clusterIP
  DNSLB,            // it resolves their names
  Passthrough,      // it sends to the address that the client chose: NONE, headless Services
  DNSRoundRobinLB,  // as DNSLB, one address at a time
  Alias,            // those of another host: ExternalName
  DynamicDNS,       // it resolves the name that the client asked for
};
std::string_view to_string(ServiceResolution resolution);  // "ClientSideLB"

// The identity of a service: no two services of a registry are equal in all of these.
struct ServiceId {
  std::string hostname;
  std::string ns;
  std::string uid;       // "istio://NAMESPACE/services/NAME", of the oldest object
  std::string provider;  // "Kubernetes", "ServiceEntry", ...
  friend auto operator<=>(const ServiceId&, const ServiceId&) = default;
};

// Addresses by the cluster that gave them; "" is the only cluster.
using ClusterVips = std::vector<std::pair<std::string, std::vector<IpAddress>>>;

struct MeshService {
  ServiceId id;
  std::string name;     // of the object
  std::string address;  // the first address or prefix; "0.0.0.0": none that is the service's own
  std::vector<IpAddress> addresses;  // those that names are answered with
  ClusterVips cluster_vips;          // of Kubernetes Services
  std::vector<ServicePort> ports;
  std::vector<std::string> service_accounts;  // of its endpoints; sorted, each once
  std::vector<std::string>
      subject_alt_names;  // those of decorating entries, too; sorted, each once
  bool mesh_external = false;
  ServiceResolution resolution = ServiceResolution::ClientSideLB;
  std::int64_t creation_time = kUnknownCreationTime;
  std::vector<std::string> export_to;  // namespaces; {"*"}: all; empty: none
  std::string answer;                  // "vips", "endpoints", ...
  std::string alias;                   // ExternalName's target; empty = none
};

enum class EndpointFamily : std::uint8_t { Tcp, Unix };
std::string_view to_string(EndpointFamily family);  // "TCP", "Unix"

// One endpoint of a service at one of its ports.  An endpoint with several ports is several
// instances.
struct ServiceInstance {
  EndpointFamily family = EndpointFamily::Tcp;
  std::string address;            // the IP address; "/path" or "@name" of a Unix socket
  std::uint16_t port = 0;         // the endpoint's own; 0: Unix socket, or a service without ports
  std::string service_port_name;  // empty: the service has no ports, or one without a name
  std::string locality;           // "region/zone/subzone"; of Kubernetes only the zone: "/zone"
  Labels labels;
  std::string service_account;
  std::string network;
  std::string cluster;
  std::string uid;  // "kubernetes://POD.NAMESPACE", "istio://NAMESPACE/workloads/NAME", or empty
  bool ready = true;
  std::uint32_t weight = 1;
  std::string hostname;  // of a member of a headless Service
  std::string pod_name;
  std::string node_name;
};

}  // namespace meshdns::registry
