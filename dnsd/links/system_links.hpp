// SPDX-License-Identifier: Apache-2.0
// Follows the DNS settings of this machine's links, from systemd-resolved or else NetworkManager.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>

#include "dnsd/links/link_dns.hpp"

namespace meshdns::dnsd {

// The loop's thread only.  Without a system bus, or with neither service, there are no routes.
class SystemLinks {
 public:
  SystemLinks();
  ~SystemLinks();

  // Calls `on_change` a moment after the routes have changed.
  void start(uv_loop_t* loop, std::function<void()> on_change);
  // For a change that the services may not tell of: a resolv.conf has changed.
  void ask_again();
  // Nothing is called after this, and there are no routes.
  void stop();

  bool is_running() const { return services_ != nullptr; }
  const LinkRoutes& routes() const { return routes_; }

 private:
  struct Services;  // keeps sd-bus out of this header

  void update();

  std::unique_ptr<Services> services_;
  LinkRoutes routes_;
};

}  // namespace meshdns::dnsd
