// SPDX-License-Identifier: Apache-2.0
// The accounts of server.rate_limit that the workers and the program in the kernel count on
// together (dnsd/kernel/program/answer_maps.h).
#pragma once

#include <cstdint>
#include <span>

namespace meshdns::dnsd {

// Any thread.
class RateAccounts {
 public:
  // REQUIRES: `accounts` are MESHDNS_ACCOUNTS, and outlive it.
  explicit RateAccounts(std::span<std::uint64_t> accounts) : accounts_(accounts) {}

  // The price of one answer in microseconds, rounded up.  0: no limit.
  static std::uint64_t price_us(std::uint32_t responses_per_second);

  // The place of a client's account, and the tag that tells the client from others there.
  struct Place {
    std::uint16_t account = 0;
    std::uint16_t tag = 0;
  };
  static Place place_of(std::uint64_t hash_of_client);

  enum class Outcome : std::uint8_t {
    Paid,
    Over,   // the client is over its limit
    Taken,  // another client has the account
  };
  // Lets a client pay for one answer.  `now_ns`: CLOCK_MONOTONIC.
  Outcome pay(std::uint64_t hash_of_client, std::uint64_t price_us, std::uint64_t now_ns) const;

 private:
  std::span<std::uint64_t> accounts_;
};

}  // namespace meshdns::dnsd
