// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/announcement.hpp"

#include <poll.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "registry/base/printable.hpp"
#include "registry/view/view.hpp"

namespace meshdns::dnsd {
namespace {

std::uint64_t monotonic_usec() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
}

std::optional<std::chrono::microseconds> watchdog_time() {
  std::uint64_t usec = 0;
  if (::sd_watchdog_enabled(0, &usec) <= 0) return std::nullopt;
  return std::chrono::microseconds(usec);
}

constexpr std::size_t kMaxReason = 1'000;
constexpr std::chrono::milliseconds kShortestFeed{10};
constexpr std::chrono::milliseconds kLongestFeed{1'000};

}  // namespace

void Supervisor::ready(const std::string& status) {
  is_ready_ = true;
  status_ = status;
  ::sd_notify(0, ("READY=1\nSTATUS=" + status).c_str());
}

void Supervisor::reloading() {
  if (!is_ready_) return;
  // The time is what Type=notify-reload recognises the reload by.
  ::sd_notify(0, ("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(monotonic_usec())).c_str());
}

void Supervisor::reloaded() {
  if (is_ready_) ::sd_notify(0, "READY=1");
}

void Supervisor::stopping() { ::sd_notify(0, "STOPPING=1\nSTATUS=answering queries in flight"); }

void Supervisor::failed(const std::string& reason) {
  ::sd_notify(0, ("STATUS=" + registry::printable(reason, kMaxReason)).c_str());
}

void Supervisor::set_status(const std::string& status) {
  if (!is_ready_ || status == status_) return;
  status_ = status;
  ::sd_notify(0, ("STATUS=" + status).c_str());
}

// A call that comes a little late must not make a gap that is too long.
std::optional<std::chrono::milliseconds> Supervisor::watchdog_interval() {
  const auto time = watchdog_time();
  if (!time) return std::nullopt;
  return std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(*time / 8), kShortestFeed,
                    kLongestFeed);
}

void Supervisor::feed_watchdog() {
  const auto time = watchdog_time();
  if (!time) return;
  const auto now = Clock::now();
  // Half of the time at most, as sd_watchdog_enabled(3) advises.
  if (now - fed_ < *time / 3) return;
  fed_ = now;
  ::sd_notify(0, "WATCHDOG=1");
}

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

std::string page(std::span<const AdminAddress> admin) {
  if (admin.empty()) return "off (admin.listen)";
  const auto with_port = std::ranges::find_if_not(admin, is_unix);
  if (with_port == admin.end())
    return "curl --unix-socket " + std::get<UnixAddress>(admin.front()).path + " http://localhost/";
  return "http://" + reachable(std::get<SocketAddress>(*with_port)).to_string() + "/";
}

}  // namespace

std::string first_steps(const registry::Snapshot& snapshot, std::span<const SocketAddress> listen,
                        std::span<const AdminAddress> admin) {
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
