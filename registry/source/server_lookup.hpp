// SPDX-License-Identifier: Apache-2.0
// The addresses of the servers that sources connect to by host names.  The libraries that make the
// connections get addresses: they would ask the resolver of this machine, which may be the program
// that waits for the source.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "registry/base/ip_address.hpp"

namespace meshdns::registry {

struct ServerAddresses {
  std::vector<IpAddress> addresses;  // the last good ones; empty: none is known
  std::string reason;                // why the last lookup brought none; empty: it did
  // The first lookup has not ended.
  bool is_awaited() const { return addresses.empty() && reason.empty(); }
  friend bool operator==(const ServerAddresses&, const ServerAddresses&) = default;
};

// A name that is kept looked up while this lives.
class NamedServer {
 public:
  virtual ~NamedServer() = default;
  virtual ServerAddresses find() const = 0;
};

// Control thread.
class ServerLookup {
 public:
  virtual ~ServerLookup() = default;
  // `host` is a canonical host name.  `on_change` is called when find() says something else, from
  // the loop; it may use and end names.  REQUIRES: outlives the result.
  [[nodiscard]] virtual std::unique_ptr<NamedServer> use(const std::string& host,
                                                         std::function<void()> on_change) = 0;
};

}  // namespace meshdns::registry
