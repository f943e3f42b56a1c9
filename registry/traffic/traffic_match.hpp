// SPDX-License-Identifier: Apache-2.0
// The service that the mesh selects for a connection, and its endpoints, by the rules of Istio's
// outbound listeners, and the VirtualServices that route it (traffic_routes.cpp).  For explanations
// only: it walks all hosts and allocates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/view/view.hpp"

namespace meshdns::registry {

// The facts about a connection when its routes are looked for.
struct RouteQuestion {
  RouteLayer layer = RouteLayer::Tcp;
  IpAddress address;
  std::uint16_t port = 0;
  std::string service;    // the host of the service that was matched; empty = none
  std::string requested;  // canonical: the Host header or the server name; empty = none
};

// A route that applies, or that applies on conditions that the connection alone does not show.
struct RouteMatched {
  StoredRef virtual_service;
  std::string text;  // `http route 2 "v2": to reviews.shop.svc.cluster.local subset v2, if ...`
  // A sentence for each destination that is an alias, or of which the proxy has no cluster.
  std::vector<std::string> notes;
};

// In the order in which the proxy tries them, up to the first without conditions, and at most
// kMaxRoutesNamed.  A VirtualService of which no route applies is in the list, too.
inline constexpr std::size_t kMaxRoutesNamed = 16;
std::vector<RouteMatched> match_routes(const View& view, const RouteQuestion& question);

// A connection as its first octets show it.  `server_name`: of its TLS handshake; `http_host`: its
// Host header, a port behind it is ignored.  Both in any case; empty = not known.
struct Connection {
  IpAddress address;
  std::uint16_t port = 0;
  std::string server_name;
  std::string http_host;
};

struct TrafficMatch {
  enum class Rule : std::uint8_t {
    Passthrough,       // no service of the client's view: to the address itself
    Dropped,           // no service, and outboundTrafficPolicy is REGISTRY_ONLY
    Address,           // a VIP and port of the service
    AddressRange,      // the longest of the services' address ranges
    HeadlessEndpoint,  // an endpoint of a headless Service
    ServerName,        // TLS: the server name
    HttpHost,          // HTTP: the Host header, whatever the address
    Port,              // an entry without addresses owns the port
  };
  Rule rule = Rule::Passthrough;
  std::string host;                        // of the service; "*.suffix" for a wildcard
  const ServiceRecord* service = nullptr;  // lives as long as the view's snapshot
  ServicePort port;                        // of the service
  std::vector<std::string> endpoints;      // "10.0.0.1:8080", "api.example.org:443, not ready"
  std::vector<RouteMatched> routes;        // of VirtualServices
  std::vector<std::string> notes;          // what else had to do with the choice, a sentence each
};
std::string_view to_string(TrafficMatch::Rule rule);

// Returns the service that the client of `view` would reach.
TrafficMatch match_traffic(const View& view, const Connection& connection);

}  // namespace meshdns::registry
