// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/admin_endpoint.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace meshdns::dnsd {

Result<void> AdminEndpoint::open(const AdminAddress& address) {
  auto server =
      HttpServer::open(loop_, address, make_routes_(), counters_, deadlines_, access_, leaving_);
  if (!server) return fail(std::string(key_) + ": " + server.error().message);
  servers_.push_back({address, std::move(*server)});
  return {};
}

// Addresses that nobody wants any more make room, and come back if that was of no use.
Result<void> AdminEndpoint::open_among(const AdminAddress& address,
                                       const std::vector<AdminAddress>& wanted) {
  auto opened = open(address);
  if (opened) return opened;
  std::vector<AdminAddress> before;
  std::erase_if(servers_, [&](const Served& served) {
    const bool makes_room = need_one_place(served.server->address(), address) &&
                            std::ranges::find(wanted, served.requested) == wanted.end();
    if (makes_room) before.push_back(served.requested);
    return makes_room;
  });
  if (before.empty()) return opened;
  opened = open(address);
  if (opened) return opened;
  std::string failures = opened.error().message;
  for (const AdminAddress& old : before)
    if (const auto restored = open(old); !restored) failures += "; and " + restored.error().message;
  return fail(std::move(failures));
}

void AdminEndpoint::use(const HttpAccess& access) {
  const bool had_tls = access_.certificate != nullptr;
  access_ = access;
  if (had_tls != (access.certificate != nullptr)) servers_.clear();
  for (const Served& served : servers_) served.server->set_access(access);
}

bool AdminEndpoint::serves(const AdminAddress& address) const {
  return std::ranges::find(servers_, address, &Served::requested) != servers_.end();
}

Result<void> AdminEndpoint::serve_at(const std::vector<AdminAddress>& wanted,
                                     const HttpAccess& access) {
  use(access);
  std::erase_if(servers_, [](const Served& served) { return !served.server->has_its_path(); });
  std::string failures;
  for (const AdminAddress& address : wanted) {
    if (serves(address)) continue;
    if (const auto opened = open_among(address, wanted); !opened)
      failures += (failures.empty() ? "" : "; and ") + opened.error().message;
  }
  if (!failures.empty()) return fail(std::move(failures));
  std::erase_if(servers_, [&](const Served& served) {
    return std::ranges::find(wanted, served.requested) == wanted.end();
  });
  return {};
}

void AdminEndpoint::leave(const std::vector<AdminAddress>& others) {
  std::erase_if(servers_, [&](const Served& served) {
    return std::ranges::any_of(others, [&](const AdminAddress& other) {
      return need_one_place(served.server->address(), other);
    });
  });
}

void AdminEndpoint::close_ports() {
  std::erase_if(servers_, [](const Served& served) { return !is_unix(served.requested); });
}

std::vector<AdminAddress> AdminEndpoint::addresses() const {
  std::vector<AdminAddress> addresses;
  for (const Served& served : servers_) addresses.push_back(served.server->address());
  return addresses;
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
