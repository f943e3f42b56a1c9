// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/datagram_sockets.hpp"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>

#include "registry/base/file_descriptor.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint32_t kReserve = 32;

}  // namespace

bool is_shortage(int error) {
  switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EAGAIN:      // no port to bind to
    case EADDRINUSE:  // the same
    case ENOSPC:      // fs.epoll.max_user_watches
      return true;
    default:
      return false;
  }
}

SocketError socket_error(std::string_view what, int error) {
  return {std::string(what) + ": " + std::strerror(error), is_shortage(error)};
}

int highest_upstream_descriptor() {
  const std::uint32_t limit = descriptor_limit();
  return static_cast<int>(limit - std::min(kReserve, limit / 8)) - 1;
}

SocketError too_many_sockets() {
  return {"no socket: the remaining file descriptors are reserved", true};
}

namespace {

// Source ports: 32768 of them, above where services usually listen.
constexpr std::uint32_t kFirstPort = 32768;
constexpr std::uint32_t kPorts = 32768;
constexpr int kPortTries = 8;
// The time that idle sockets outlive the load that they were kept for.
constexpr Millis kIdleTime = 1'000;

// Binds to a port drawn from the kernel's random generator, so that a forger cannot guess it
// (RFC 5452, section 9.2).  The kernel's own choice would do, except on hosts where an operator has
// narrowed ip_local_port_range.
bool bind_random_port(int fd, sa_family_t family, RandomPool& random) {
  for (int left = kPortTries; left >= 0; --left) {
    const std::uint16_t port = left == 0
                                   ? std::uint16_t{0}
                                   : static_cast<std::uint16_t>(kFirstPort + random.below(kPorts));
    sockaddr_storage any{};
    any.ss_family = family;
    socklen_t size = sizeof(sockaddr_in);
    if (family == AF_INET6) {
      reinterpret_cast<sockaddr_in6&>(any).sin6_port = htons(port);
      size = sizeof(sockaddr_in6);
    } else {
      reinterpret_cast<sockaddr_in&>(any).sin_port = htons(port);
    }
    if (bind(fd, reinterpret_cast<const sockaddr*>(&any), size) == 0) return true;
    if (errno != EADDRINUSE) return false;
  }
  return false;
}

// RFC 9715: never fragmented, and no path MTU believed that an ICMP message may have forged.  And
// every ICMP error is reported, not only "port unreachable", so that nobody waits for a time-out.
void set_datagram_options(int fd, sa_family_t family) {
  const int on = 1;
  if (family == AF_INET6) {
    const int probe = IPV6_PMTUDISC_PROBE;
    setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof probe);
    setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof on);
  } else {
    const int probe = IP_PMTUDISC_PROBE;
    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe);
    setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on);
  }
}

}  // namespace

std::size_t DatagramSockets::idle_limit() {
  const std::size_t workers = std::max(std::thread::hardware_concurrency(), 1u);
  return std::min<std::size_t>(descriptor_limit() / 16 / workers, kMaxIdle);
}

DatagramSockets::DatagramSockets(Reactor& reactor, RandomPool& random, const SocketAddress& peer,
                                 std::size_t max_idle)
    : reactor_(reactor), random_(random), peer_(peer), max_idle_(max_idle), timer_(reactor, [this] {
        close_unused();
      }) {}

bool DatagramSockets::may_be_fresh() {
  const Millis now = reactor_.now();
  const std::size_t more = (now - counted_at_) * kFreshPerSecond / 1'000;
  fresh_left_ = std::min(fresh_left_ + more, kFreshAtOnce);
  counted_at_ = now;
  if (fresh_left_ == 0) return false;
  --fresh_left_;
  return true;
}

SocketResult<SocketWatch> DatagramSockets::take(SocketListener& listener) {
  const bool has_choice = idle_.size() >= kMinChoice;
  if (may_be_fresh() || !has_choice) {
    auto opened = open(listener);
    if (opened || !opened.error().is_shortage || !has_choice) return opened;
  }
  std::swap(idle_[random_.below(static_cast<std::uint32_t>(idle_.size()))], idle_.back());
  SocketWatch socket = std::move(idle_.back());
  idle_.pop_back();
  socket.set_listener(listener);
  used_again_ = true;
  return socket;
}

void DatagramSockets::give_back(SocketWatch socket) {
  if (max_idle_ < kMinChoice || fresh_left_ > kFreshAtOnce / 2) return;
  socket.set_listener(*this);
  if (idle_.size() < max_idle_) {
    idle_.push_back(std::move(socket));
  } else {
    idle_[random_.below(static_cast<std::uint32_t>(idle_.size()))] = std::move(socket);
  }
  if (!timer_.is_running()) timer_.start(reactor_.now() + kIdleTime);
}

SocketResult<SocketWatch> DatagramSockets::open(SocketListener& listener) {
  sockaddr_storage address{};
  const auto address_size = peer_.to_sockaddr(address);
  if (!address_size) return std::unexpected(SocketError{address_size.error().message});
  const int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::unexpected(socket_error("no socket", errno));
  SocketWatch opened(reactor_, fd, EPOLLIN, listener);
  if (!opened) return std::unexpected(socket_error("no socket", errno));
  if (fd > highest_descriptor_) return std::unexpected(too_many_sockets());
  set_datagram_options(fd, address.ss_family);
  if (!bind_random_port(fd, address.ss_family, random_))
    return std::unexpected(socket_error("no source port", errno));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), *address_size) != 0)
    return std::unexpected(socket_error("UDP", errno));
  return opened;
}

// Nothing is asked there: a forger is at work, and the ports that he has found are given up.
void DatagramSockets::on_socket(std::uint32_t) { idle_.clear(); }

void DatagramSockets::close_unused() {
  if (!std::exchange(used_again_, false)) return idle_.clear();
  timer_.start(reactor_.now() + kIdleTime);
}

}  // namespace meshdns::dnsd
