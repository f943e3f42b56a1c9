// What lies below a service's name: its endpoints ("web-0", "10-0-0-1"), and its ports, which SRV
// gives (Kubernetes DNS-Based Service Discovery 1.1.0, sections 2.3.2 and 2.4.2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "registry/view/view.hpp"

namespace meshdns::dnsd {

// A name below a service, read.
struct ServiceLabels {
  enum class Kind : std::uint8_t {
    Service,   // nothing in front
    Endpoint,  // "web-0"; in a clusterset also "web-0.east"
    Protocol,  // "_tcp": exists when a port of that protocol does
    Port,      // "_http._tcp"
    None,      // no name that a service has
  };
  Kind kind = Kind::Service;
  std::string_view endpoint = {};
  std::string_view cluster = {};   // of a clusterset's endpoint; empty = any
  std::string_view port = {};      // without the underscore
  std::string_view protocol = {};  // without the underscore: "tcp"
};
ServiceLabels read_service_labels(std::string_view below, const registry::ServiceRecord& service);

// What SRV says of one target.
struct PortTarget {
  std::string label;  // of the endpoint; empty = the service itself
  std::uint16_t port = 0;
  friend auto operator<=>(const PortTarget&, const PortTarget&) = default;
};

// The ports of a service as one client sees them.  A lens: lives as long as what it was made of.
class ServicePorts {
 public:
  ServicePorts(const registry::View& view, const registry::ServiceRecord& service)
      : view_(view), service_(service) {}

  // Whether a port of that name and protocol has a record; an empty name is any named port.
  // Unnamed ports have no names below the service.
  bool has(std::string_view port, std::string_view protocol) const;
  // The records of `labels`: Kind::Service gives every port once (unnamed ones too), Kind::Port
  // that port, Kind::Endpoint that endpoint's.  Without repetitions.  Allocates.
  std::vector<PortTarget> targets(const ServiceLabels& labels) const;
  // SRV records lead to the endpoints themselves, not to the service.
  bool are_per_endpoint() const;

 private:
  void add_endpoint_ports(const ServiceLabels& labels, std::vector<PortTarget>& targets) const;

  const registry::View& view_;
  const registry::ServiceRecord& service_;
};

// Calls `visit(endpoint)` for every ready endpoint that this client may reach and that has this
// name; never more than one name each.
template <typename Visit>
void for_each_endpoint_named(const registry::View& view, const registry::ServiceRecord& service,
                             const ServiceLabels& labels, Visit&& visit);

// Whether `endpoint` is called `label`.  `address`: `label` read as a dashed address, if it is one.
bool is_endpoint_named(const registry::EndpointEntry& endpoint, std::string_view label,
                       const std::optional<IpAddress>& address, bool pod_names);
// "10-0-0-1" as 10.0.0.1, "2001-db8--1" as 2001:db8::1.
std::optional<IpAddress> parse_dashed_address(std::string_view label);
// Whether the service has an endpoint that is ready, reachable for this client or not.
bool has_ready_endpoint(const registry::ServiceRecord& service);

template <typename Visit>
void for_each_endpoint_named(const registry::View& view, const registry::ServiceRecord& service,
                             const ServiceLabels& labels, Visit&& visit) {
  const registry::EndpointList* const endpoints = service.endpoints();
  if (endpoints == nullptr) return;
  const std::optional<IpAddress> address = parse_dashed_address(labels.endpoint);
  const bool pod_names = view.settings().endpoint_pod_names;
  for (const registry::EndpointEntry& endpoint : endpoints->entries) {
    if (!endpoint.ready || !view.reaches(endpoint)) continue;
    if (!labels.cluster.empty() &&
        (!endpoint.cluster || endpoint.cluster->text() != labels.cluster))
      continue;
    if (is_endpoint_named(endpoint, labels.endpoint, address, pod_names)) visit(endpoint);
  }
}

}  // namespace meshdns::dnsd
