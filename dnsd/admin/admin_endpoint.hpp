// SPDX-License-Identifier: Apache-2.0
// The admin endpoint where the configuration wants it, through reloads.
#pragma once

#include <sys/types.h>
#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "dnsd/admin/http_server.hpp"
#include "dnsd/log/log.hpp"

namespace meshdns::dnsd {

// The loop's thread.
class AdminEndpoint {
 public:
  // `key`: the setting with the addresses, for messages.  A literal.
  AdminEndpoint(uv_loop_t* loop, const char* key, std::function<HttpRoutes()> make_routes,
                const HttpDeadlines& deadlines = {})
      : loop_(loop), key_(key), make_routes_(std::move(make_routes)), deadlines_(deadlines) {}

  // Serves at all of `wanted` from now on, and nowhere else; none = off.  A Unix socket whose path
  // leads elsewhere by now is opened anew.  An Error names the addresses that cannot be bound, to
  // be tried again: all others are served then, those from before included.
  Result<void> serve_at(const std::vector<AdminAddress>& wanted, const HttpAccess& access = {});
  // Closes the addresses that `others` need, which have another use from now on.
  void leave(const std::vector<AdminAddress>& others);
  // From now on, serve_at() may take over the paths of that process.
  void replace(pid_t leaving) { leaving_ = leaving; }
  void close() { servers_.clear(); }
  // Leaves the ports to another process, which may also take over the paths of Unix sockets.
  void close_ports();
  // Logs what has befallen clients since the last call.  To be called every second.
  void log_troubles(Log& log);
  // Since the start, through all reloads.
  const HttpCounters& counters() const { return counters_; }
  // The addresses that it serves, with the ports that the kernel chose.
  std::vector<AdminAddress> addresses() const;

 private:
  // A server, and the address that it was opened for.
  struct Served {
    AdminAddress requested;
    std::unique_ptr<HttpServer> server;
  };
  using Servers = std::vector<Served>;

  Result<void> open(const AdminAddress& address);
  Result<void> open_among(const AdminAddress& address, const std::vector<AdminAddress>& wanted);
  void use(const HttpAccess& access);
  bool serves(const AdminAddress& address) const;

  uv_loop_t* loop_;
  const char* key_;
  std::function<HttpRoutes()> make_routes_;
  const HttpDeadlines deadlines_;
  HttpCounters counters_;
  // The counts that log_troubles() has logged.
  struct Logged {
    std::uint64_t accept_failures = 0;
    std::uint64_t overdue = 0;
    std::uint64_t evicted = 0;
    std::uint64_t denied = 0;
  } logged_;
  std::optional<pid_t> leaving_;
  HttpAccess access_;
  Servers servers_;
};

}  // namespace meshdns::dnsd
