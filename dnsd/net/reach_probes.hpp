// SPDX-License-Identifier: Apache-2.0
// Messages that this process sends to its own addresses, to find out whether queries to them reach
// it.  A probe is a DNS response, which every server drops, with a number that nobody can guess.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {

class ReachProbes {
 public:
  // Addresses beyond these are not probed.
  static constexpr std::size_t kMaxAddresses = 64;

  ReachProbes();

  // Any thread: notes `datagram` if it is a probe of ours.
  void note(std::span<const std::uint8_t> datagram);

  // One thread.

  // Sends one probe to `address`, from a new port.  `number` is below kMaxAddresses.
  void send(const SocketAddress& address, std::size_t number) const;
  // Returns the numbers of the probes that have arrived since the last call, as bits.
  std::uint64_t take_arrived() { return arrived_.exchange(0, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kHeader = 12;
  static constexpr std::size_t kToken = 16;
  static constexpr std::size_t kSize = kHeader + kToken + 1;

  std::array<std::uint8_t, kSize> probe_{};  // but for the number, its last octet
  std::atomic<std::uint64_t> arrived_{0};
};

}  // namespace meshdns::dnsd
