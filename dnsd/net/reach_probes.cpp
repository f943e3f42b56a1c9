// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/reach_probes.hpp"

#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace meshdns::dnsd {

ReachProbes::ReachProbes() {
  constexpr std::uint8_t kResponse = 0x80;  // QR, in the third octet (RFC 1035, section 4.1.1)
  probe_[2] = kResponse;
  // Without random numbers the process has none for queries either, and has not started.
  [[maybe_unused]] const ssize_t size = ::getrandom(probe_.data() + kHeader, kToken, 0);
}

void ReachProbes::note(std::span<const std::uint8_t> datagram) {
  if (datagram.size() != kSize || datagram.back() >= kMaxAddresses) return;
  if (!std::equal(datagram.begin(), datagram.end() - 1, probe_.begin())) return;
  arrived_.fetch_or(std::uint64_t{1} << datagram.back(), std::memory_order_relaxed);
}

void ReachProbes::send(const SocketAddress& address, std::size_t number) const {
  sockaddr_storage to{};
  const auto length = address.to_sockaddr(to);
  if (!length) return;
  const int fd = ::socket(to.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  auto probe = probe_;
  probe.back() = static_cast<std::uint8_t>(number);
  // One that cannot leave does not arrive: that is what the caller finds out.
  [[maybe_unused]] const ssize_t sent = ::sendto(fd, probe.data(), probe.size(), MSG_NOSIGNAL,
                                                 reinterpret_cast<const sockaddr*>(&to), *length);
  ::close(fd);
}

}  // namespace meshdns::dnsd
