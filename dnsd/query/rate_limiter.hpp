// SPDX-License-Identifier: Apache-2.0
// Limits the answers that a client gets over UDP in a second (server.rate_limit).  Queries with a
// forged source address make us send to that address.  Beyond the limit we do not, except for every
// n-th answer, which says "truncated": a client that really sent the query asks again over TCP.
//
// Clients are networks of a configured size.  The table never grows: where many are counted, those
// that have asked least are forgotten first, which lets them have more, never less.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/kernel/rate_accounts.hpp"
#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

// One worker's thread, unless said otherwise.
class RateLimiter {
 public:
  enum class Verdict : std::uint8_t { Answer, Truncate, Drop };

  // Resets all counts if the limit changes.  The only place that allocates.
  void configure(const RateLimitConfig& config);
  bool is_on() const { return interval_ns_ != 0; }
  // From now on clients are counted together with the kernel and the other workers; nullopt: alone.
  // Those that have no account there are counted alone.
  void share(std::optional<RateAccounts> accounts) { shared_ = accounts; }

  // Counts one query over UDP.  `now`: nanoseconds of a monotonic clock, never going back.
  // REQUIRES: is_on().
  Verdict judge(const IpAddress& client, std::uint64_t now);
  // Clients that are counted as one have the same.
  std::uint64_t hash_of_network(const IpAddress& client) const;

  // Any thread: one of the clients that have been over the limit since the last call.
  std::optional<IpAddress> take_limited();

 private:
  // A client may be this much ahead of its rate: one second's answers at once.
  static constexpr std::uint64_t kBurstNs = 1'000'000'000;
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kSets = 4096;

  // The generic cell rate algorithm: one time stands for the whole bucket.
  struct Account {
    std::uint32_t tag = 0;     // 0 = free
    std::uint32_t denied = 0;  // for the slip
    std::uint64_t due_ns = 0;  // when the client has paid for all that it got
  };
  // One cache line.
  struct alignas(64) Set {
    std::array<Account, kWays> accounts;
  };

  Account& account_of(std::uint64_t hash);
  bool pay(Account& account, std::uint64_t hash, std::uint64_t now) const;
  void note(const IpAddress& client, std::uint64_t now);

  RateLimitConfig config_;
  std::uint64_t interval_ns_ = 0;  // between two answers; 0 = off
  std::vector<Set> sets_;
  std::optional<RateAccounts> shared_;
  std::uint64_t note_again_at_ = 0;
  std::mutex mutex_;
  std::optional<IpAddress> limited_;  // guarded by mutex_
};

}  // namespace meshdns::dnsd
