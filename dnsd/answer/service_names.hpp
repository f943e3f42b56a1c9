// SPDX-License-Identifier: Apache-2.0
// Names below a service's name: its endpoints ("web-0", "10-0-0-1"), and its ports, which have SRV
// records (Kubernetes DNS-Based Service Discovery 1.1.0, sections 2.3.2 and 2.4.2).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "registry/view/view.hpp"

namespace meshdns::dnsd {

// A name below a service, read.
struct ServiceLabels {
  enum class Kind : std::uint8_t {
    Service,   // nothing in front
    Endpoint,  // "web-0"; in a clusterset "web-0.east", with the id of its cluster
    Protocol,  // "_tcp": exists when a port of that protocol does
    Port,      // "_http._tcp"
    None,      // no name that a service has
  };
  Kind kind = Kind::Service;
  std::string_view endpoint = {};
  std::string_view port = {};      // without the underscore
  std::string_view protocol = {};  // without the underscore: "tcp"
};
ServiceLabels read_service_labels(std::string_view below, const registry::ServiceRecord& service);

// The ports of a service as one client sees them.  REQUIRES: outlived by its arguments.
class ServicePorts {
 public:
  ServicePorts(const registry::View& view, const registry::ServiceRecord& service)
      : view_(view), service_(service) {}

  // Returns whether a port of that name and protocol has a record; an empty name is any named port.
  // Unnamed ports have no names below the service.
  bool has(std::string_view port, std::string_view protocol) const;
  // Returns whether `labels` has any SRV record.
  bool has_targets(const ServiceLabels& labels) const;
  // Calls `visit(number)` for the ports that `labels` means, at the service's addresses or at those
  // of a subset of its endpoints: Kind::Port is that port, all others are every port, unnamed ones
  // too.  A number may come twice.
  template <typename Visit>
  void for_each_port(const ServiceLabels& labels, const Visit& visit) const;
  template <typename Visit>
  void for_each_port(std::uint16_t subset, const ServiceLabels& labels, const Visit& visit) const;
  // SRV records lead to the endpoints themselves, not to the service.
  bool are_per_endpoint() const;

 private:
  std::span<const registry::ServicePort> ports() const;
  std::span<const registry::ServicePort> ports_of(std::uint16_t subset) const;
  static bool is_wanted(const registry::ServicePort& port, const ServiceLabels& labels);
  // Returns whether the service's addresses are those of its endpoints, which have ports of their
  // own.
  bool has_endpoint_addresses() const {
    return service_.answer == registry::AnswerKind::Endpoints && service_.endpoints() != nullptr;
  }
  // Calls `visit(subset)` for the subsets of ready endpoints that the client reaches.
  template <typename Visit>
  void for_each_subset(const Visit& visit) const;
  // Whether the client reaches a ready endpoint that has a port for which `matches` holds.
  template <typename Matches>
  bool has_endpoint_port(const Matches& matches) const;

  const registry::View& view_;
  const registry::ServiceRecord& service_;
};

// Calls `visit(endpoint)` for the ready endpoints that this client may reach and that have this
// name, until it returns false; never more than one name each.  Of very many that share one name
// only some are visited, IPv4 and IPv6.
template <typename Visit>
void for_each_endpoint_named(const registry::View& view, const registry::ServiceRecord& service,
                             const ServiceLabels& labels, Visit&& visit);
// As above, for those ready endpoints of this name for which `is_wanted(endpoint)` holds.
template <typename Filter, typename Visit>
void for_each_endpoint_where(const registry::View& view, const registry::ServiceRecord& service,
                             const ServiceLabels& labels, const Filter& is_wanted, Visit&& visit);
// Returns whether the client may reach all endpoints.  False also when that is not known without a
// look at each.
bool are_all_reached(const registry::View& view, const registry::EndpointIndex& endpoints);

// Returns whether `endpoint` is called `label`.  `address`: `label` read as a dashed address, if it
// is one.
bool is_endpoint_named(const registry::EndpointEntry& endpoint, std::string_view label,
                       const std::optional<IpAddress>& address, bool pod_names);
// "10-0-0-1" as 10.0.0.1, "2001-db8--1" as 2001:db8::1.
std::optional<IpAddress> parse_dashed_address(std::string_view label);
// Returns whether endpoints of a service of the cluster set have names below this label, which is
// the id of their cluster.  A cluster of a very large service is taken to have some: NODATA denies
// less.
bool has_cluster(const registry::View& view, const registry::ServiceRecord& service,
                 std::string_view label);

template <typename Filter, typename Visit>
void for_each_endpoint_where(const registry::View& view, const registry::ServiceRecord& service,
                             const ServiceLabels& labels, const Filter& is_wanted, Visit&& visit) {
  const registry::EndpointList* const endpoints = service.endpoints();
  if (endpoints == nullptr) return;
  if (endpoints->index.is_made()) {
    // By address: those of IPv4 come first, those of IPv6 last.
    constexpr std::size_t kMost = 256;
    const auto found = endpoints->index.named(labels.endpoint);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (i == kMost && found.size() > 2 * kMost) i = found.size() - kMost;
      const registry::EndpointEntry& endpoint = endpoints->entries[found[i].entry];
      if (is_wanted(endpoint) && !visit(endpoint)) return;
    }
    return;
  }
  const std::optional<IpAddress> address = parse_dashed_address(labels.endpoint);
  const bool pod_names = view.settings().endpoint_pod_names;
  for (const registry::EndpointEntry& endpoint : endpoints->entries)
    if (endpoint.ready && is_wanted(endpoint) &&
        is_endpoint_named(endpoint, labels.endpoint, address, pod_names) && !visit(endpoint))
      return;
}

template <typename Visit>
void for_each_endpoint_named(const registry::View& view, const registry::ServiceRecord& service,
                             const ServiceLabels& labels, Visit&& visit) {
  for_each_endpoint_where(
      view, service, labels,
      [&](const registry::EndpointEntry& endpoint) { return view.reaches(endpoint); }, visit);
}

template <typename Visit>
void ServicePorts::for_each_subset(const Visit& visit) const {
  // A reply has no room for more ports.
  constexpr std::size_t kMost = 1024;
  const registry::EndpointList& endpoints = *service_.endpoints();
  if (!endpoints.index.is_made()) {
    for (const registry::EndpointEntry& endpoint : endpoints.entries)
      if (endpoint.ready && view_.reaches(endpoint)) visit(endpoint.subset);
    return;
  }
  const auto kinds = endpoints.index.kinds();
  for (const auto& kind : kinds.first(std::min(kinds.size(), kMost)))
    if (view_.reaches(kind.network)) visit(kind.subset);
}

template <typename Visit>
void ServicePorts::for_each_port(const ServiceLabels& labels, const Visit& visit) const {
  if (has_endpoint_addresses())
    return for_each_subset([&](std::uint16_t subset) { for_each_port(subset, labels, visit); });
  for (const registry::ServicePort& port : ports())
    if (is_wanted(port, labels)) visit(port.number);
}

template <typename Visit>
void ServicePorts::for_each_port(std::uint16_t subset, const ServiceLabels& labels,
                                 const Visit& visit) const {
  for (const registry::ServicePort& port : ports_of(subset))
    if (is_wanted(port, labels)) visit(port.number);
}

}  // namespace meshdns::dnsd
