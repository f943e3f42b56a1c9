// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/admin_endpoint.hpp"

#include <utility>

namespace meshdns::dnsd {

Result<void> AdminEndpoint::open(const AdminAddress& address) {
  auto server = HttpServer::open(loop_, address, make_routes_(), counters_, deadlines_, access_);
  if (!server) return fail(std::string(key_) + ": " + server.error().message);
  server_ = std::move(*server);
  requested_ = address;
  return {};
}

// From 127.0.0.1:15054 to 0.0.0.0:15054, say: both cannot be bound at a time.
bool AdminEndpoint::stands_in_the_way_of(const AdminAddress& wanted) const {
  if (!server_) return false;
  const auto* old_ip = std::get_if<SocketAddress>(&server_->address());
  const auto* new_ip = std::get_if<SocketAddress>(&wanted);
  return old_ip != nullptr && new_ip != nullptr && old_ip->port == new_ip->port;
}

Result<void> AdminEndpoint::serve_at(const std::optional<AdminAddress>& wanted,
                                     const HttpAccess& access) {
  if (!wanted) {
    server_.reset();
    return {};
  }
  const bool has_tls = access_.certificate != nullptr;
  access_ = access;
  if (server_ && has_tls != (access.certificate != nullptr)) server_.reset();
  if (server_) server_->set_access(access);
  if (server_ && requested_ == wanted) return {};
  auto opened = open(*wanted);
  if (opened || !stands_in_the_way_of(*wanted)) return opened;
  const AdminAddress before = *requested_;
  server_.reset();
  opened = open(*wanted);
  if (opened) return opened;
  if (const auto restored = open(before); !restored)
    return fail(opened.error().message + "; and " + restored.error().message);
  return opened;
}

void AdminEndpoint::log_troubles(Log& log) {
  const auto log_new = [&](std::uint64_t count, std::uint64_t& logged, const char* what) {
    if (std::exchange(logged, count) != count)
      log.write_folded(LogLevel::Warn, std::string(key_) + ": " + what);
  };
  log_new(counters_.accept_failures, logged_.accept_failures,
          "cannot accept a connection for lack of file descriptors or memory");
  log_new(counters_.overdue, logged_.overdue, "closed a connection that took too long");
  log_new(counters_.evicted, logged_.evicted, "too many connections; closed the oldest one");
  log_new(counters_.denied, logged_.denied, "refused a wrong user name or password");
}

}  // namespace meshdns::dnsd
