// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/admin_endpoint.hpp"

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

}  // namespace meshdns::dnsd
