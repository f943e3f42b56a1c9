// SPDX-License-Identifier: Apache-2.0
// The DNS settings of links as NetworkManager has them (org.freedesktop.NetworkManager.DnsManager).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "dnsd/links/bus_properties.hpp"
#include "dnsd/links/link_dns.hpp"

namespace meshdns::dnsd {

// The loop's thread only.
class NetworkManagerDns {
 public:
  // nullopt: NetworkManager does not run.
  using Callback = std::function<void(std::optional<std::vector<LinkDns>>)>;

  explicit NetworkManagerDns(Callback on_links);

  void follow(sd_bus* bus) { manager_.follow(bus); }
  void ask() { manager_.ask(); }
  // REQUIRES: called before the bus is closed.
  void forget() { manager_.forget(); }

 private:
  void on_manager(sd_bus_message* message);

  const Callback on_links_;
  BusProperties manager_;
};

}  // namespace meshdns::dnsd
