// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/first_steps.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "dnsd/config/admin_address.hpp"
#include "registry/view/view.hpp"

namespace meshdns::dnsd {
namespace {

using registry::AnswerKind;

constexpr std::uint16_t kDnsPort = 53;
constexpr std::string_view kForwardedName = "example.org";

bool has_addresses(const registry::ServiceRecord& service) {
  return service.answer == AnswerKind::Vips || service.answer == AnswerKind::Endpoints;
}

bool may_have_addresses(const registry::HostEntry& entry) {
  return std::ranges::any_of(entry.records(), [](const auto* r) { return has_addresses(*r); });
}

// Empty: the client sees none.
std::string_view shortest_name(const registry::View& view) {
  std::string_view best;
  view.snapshot().hosts.for_each([&](const registry::HostEntry& entry) {
    const std::string_view host = entry.host();
    if (!best.empty() && std::tuple(host.size(), host) >= std::tuple(best.size(), best)) return;
    if (!may_have_addresses(entry)) return;
    const auto match = view.lookup(host);
    if (match.service == nullptr || !has_addresses(*match.service)) return;
    if (!view.addresses(*match.service).v4.empty()) best = host;
  });
  return best;
}

// The address that programs of this machine use for a wildcard.
SocketAddress reachable(SocketAddress address) {
  if (!address.ip.is_unspecified()) return address;
  address.ip = *IpAddress::parse(address.ip.is_v6() ? "::1" : "127.0.0.1");
  return address;
}

std::string question(const registry::Snapshot& snapshot, const SocketAddress& server) {
  std::string text = "dig @" + server.ip.to_string();
  if (!server.zone.empty()) text += "%" + server.zone;
  if (server.port != kDnsPort) text += " -p " + std::to_string(server.port);
  const registry::Client* client = snapshot.client_at(server.ip);
  const std::string_view name =
      client == nullptr ? std::string_view() : shortest_name({snapshot, *client});
  return text + " " + std::string(name.empty() ? kForwardedName : name);
}

std::string page(std::string_view admin) {
  const auto address = parse_admin_address(admin);
  if (!address) return "off (admin.listen)";
  if (const auto* path = std::get_if<UnixAddress>(&*address))
    return "curl --unix-socket " + path->path + " http://localhost/";
  return "http://" + reachable(std::get<SocketAddress>(*address)).to_string() + "/";
}

}  // namespace

std::string first_steps(const registry::Snapshot& snapshot, std::span<const SocketAddress> listen,
                        std::string_view admin) {
  return "To ask:          " + question(snapshot, reachable(listen.front())) +
         "\nThe status page: " + page(admin) + "\nTo stop:         Ctrl+C\n";
}

bool is_at_terminal() { return ::isatty(STDERR_FILENO) == 1; }

void show_at_terminal(std::string_view text) {
  pollfd waited{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&waited, 1, 0) != 1 || (waited.revents & POLLOUT) == 0) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace meshdns::dnsd
