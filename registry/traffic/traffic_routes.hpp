// SPDX-License-Identifier: Apache-2.0
// The VirtualServices that route a connection.  For explanations only: it walks all resources and
// allocates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
};

// In the order in which the proxy tries them, up to the first without conditions, and at most
// kMaxRoutesNamed.  A VirtualService of which no route applies is in the list, too.
inline constexpr std::size_t kMaxRoutesNamed = 16;
std::vector<RouteMatched> match_routes(const View& view, const RouteQuestion& question);

}  // namespace meshdns::registry
