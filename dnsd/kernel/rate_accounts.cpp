// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/rate_accounts.hpp"

#include <algorithm>
#include <atomic>

#include "dnsd/kernel/program/answer_maps.h"

namespace meshdns::dnsd {
namespace {

constexpr std::uint64_t kSecondUs = 1'000'000;
constexpr std::uint64_t kTimeMask = (std::uint64_t{1} << MESHDNS_ACCOUNT_TIME_BITS) - 1;

}  // namespace

std::uint64_t RateAccounts::price_us(std::uint32_t responses_per_second) {
  if (responses_per_second == 0) return 0;
  return (kSecondUs + responses_per_second - 1) / responses_per_second;
}

RateAccounts::Place RateAccounts::place_of(std::uint64_t hash_of_client) {
  static_assert(MESHDNS_ACCOUNTS == 1 << 16);
  return {.account = static_cast<std::uint16_t>(hash_of_client),
          .tag = static_cast<std::uint16_t>(hash_of_client >> MESHDNS_ACCOUNT_TIME_BITS)};
}

RateAccounts::Outcome RateAccounts::pay(std::uint64_t hash_of_client, std::uint64_t price_us,
                                        std::uint64_t now_ns) const {
  const Place place = place_of(hash_of_client);
  const std::atomic_ref<std::uint64_t> account(accounts_[place.account]);
  const std::uint64_t now = now_ns / 1000;
  std::uint64_t before = account.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t paid_until = before & kTimeMask;
    if (paid_until > now && before >> MESHDNS_ACCOUNT_TIME_BITS != place.tag) return Outcome::Taken;
    const std::uint64_t due = std::max(paid_until, now) + price_us;
    if (due > now + MESHDNS_ACCOUNT_BURST_US) return Outcome::Over;
    const std::uint64_t after = std::uint64_t{place.tag} << MESHDNS_ACCOUNT_TIME_BITS | due;
    if (account.compare_exchange_weak(before, after, std::memory_order_relaxed))
      return Outcome::Paid;
  }
}

}  // namespace meshdns::dnsd
