// SPDX-License-Identifier: Apache-2.0
// The DNS settings of links as systemd-resolved has them (org.freedesktop.resolve1(5)).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "dnsd/links/bus_properties.hpp"
#include "dnsd/links/link_dns.hpp"

namespace meshdns::dnsd {

// The loop's thread only.
class ResolvedDns {
 public:
  // nullopt: systemd-resolved does not run.
  using Callback = std::function<void(std::optional<std::vector<LinkDns>>)>;

  explicit ResolvedDns(Callback on_links);

  void follow(sd_bus* bus);
  void ask() { manager_.ask(); }
  // REQUIRES: called before the bus is closed.
  void forget();

 private:
  struct Link {
    ResolvedDns* owner = nullptr;
    LinkDns dns;
    BusSlot call;  // for DefaultRoute; null: answered
  };

  void on_manager(sd_bus_message* message);
  int read_servers(sd_bus_message* message);
  int read_domains(sd_bus_message* message);
  void ask_default_routes();
  static int on_default_route(sd_bus_message* message, void* link, sd_bus_error* error);
  void tell_when_complete();

  const Callback on_links_;
  BusProperties manager_;
  sd_bus* bus_ = nullptr;
  std::map<int, Link> links_;  // by interface
};

}  // namespace meshdns::dnsd
