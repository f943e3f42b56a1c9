// SPDX-License-Identifier: Apache-2.0
// The admin endpoint where the configuration wants it, through reloads.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dnsd/admin/http_server.hpp"
#include "dnsd/log/log.hpp"

namespace meshdns::dnsd {

// The loop's thread.
class AdminEndpoint {
 public:
  // `key`: the setting with the address, for messages.  A literal.
  AdminEndpoint(uv_loop_t* loop, const char* key, std::function<HttpRoutes()> make_routes,
                const HttpDeadlines& deadlines = {})
      : loop_(loop), key_(key), make_routes_(std::move(make_routes)), deadlines_(deadlines) {}

  // Serves at `wanted` from now on; nullopt = off.  An Error, and what was served before stays, if
  // the new address cannot be bound; to be tried again with the next reload.
  Result<void> serve_at(const std::optional<AdminAddress>& wanted, const HttpAccess& access = {});
  void close() { server_.reset(); }
  // Logs what has befallen clients since the last call.  To be called every second.
  void log_troubles(Log& log);
  // Since the start, through all reloads.
  const HttpCounters& counters() const { return counters_; }
  std::string address() const { return server_ ? to_string(server_->address()) : "off"; }

 private:
  Result<void> open(const AdminAddress& address);
  bool stands_in_the_way_of(const AdminAddress& wanted) const;

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
  std::optional<AdminAddress> requested_;  // what server_ was opened for
  HttpAccess access_;
  std::unique_ptr<HttpServer> server_;  // null: off, or never bound
};

}  // namespace meshdns::dnsd
