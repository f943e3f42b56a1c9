// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/rate_limiter.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "registry/base/hash.hpp"

namespace meshdns::dnsd {
namespace {

// The first `bits` of the octets; the rest become 0.
void cut(std::array<std::uint8_t, 16>& octets, unsigned bits) {
  for (unsigned i = 0; i < octets.size(); ++i) {
    const unsigned left = bits > 8 * i ? std::min(bits - 8 * i, 8U) : 0;
    octets[i] &= static_cast<std::uint8_t>(0xff00U >> left);
  }
}

}  // namespace

void RateLimiter::configure(const RateLimitConfig& config) {
  if (config == config_) return;
  config_ = config;
  const std::uint32_t rate = config.responses_per_second;
  interval_ns_ = rate == 0 ? 0 : 1'000'000'000 / rate;
  sets_.clear();
  sets_.resize(is_on() ? kSets : 0);
  if (!is_on()) sets_.shrink_to_fit();
}

std::uint64_t RateLimiter::hash_of_network(const IpAddress& client) const {
  auto octets = client.octets();  // IPv4 is held as IPv4-mapped
  cut(octets, client.is_v4() ? 96U + config_.ipv4_prefix : config_.ipv6_prefix);
  return hash_bytes({reinterpret_cast<const char*>(octets.data()), octets.size()});
}

RateLimiter::Account& RateLimiter::account_of(std::uint64_t hash) {
  auto& accounts = sets_[hash % kSets].accounts;
  const auto tag = static_cast<std::uint32_t>(hash >> 32) | 1U;
  if (const auto known = std::ranges::find(accounts, tag, &Account::tag); known != accounts.end())
    return *known;
  Account& least = *std::ranges::min_element(accounts, {}, &Account::due_ns);
  least = {.tag = tag, .denied = 0, .due_ns = 0};
  return least;
}

bool RateLimiter::pay(Account& account, std::uint64_t hash, std::uint64_t now) const {
  if (shared_) {
    const auto outcome =
        shared_->pay(hash, RateAccounts::price_us(config_.responses_per_second), now);
    if (outcome == RateAccounts::Outcome::Paid)  // it is not one of those to be forgotten first
      account.due_ns = std::max(account.due_ns, now);
    if (outcome != RateAccounts::Outcome::Taken) return outcome == RateAccounts::Outcome::Paid;
  }
  const std::uint64_t due = std::max(account.due_ns, now) + interval_ns_;
  if (due > now + kBurstNs) return false;
  account.due_ns = due;
  return true;
}

RateLimiter::Verdict RateLimiter::judge(const IpAddress& client, std::uint64_t now) {
  const std::uint64_t hash = hash_of_network(client);
  Account& account = account_of(hash);
  if (pay(account, hash, now)) return Verdict::Answer;
  ++account.denied;
  if (now >= note_again_at_) note(client, now);
  return config_.slip != 0 && account.denied % config_.slip == 0 ? Verdict::Truncate
                                                                 : Verdict::Drop;
}

// Once a second: a lock for each would be paid for by those that stay below the limit.
void RateLimiter::note(const IpAddress& client, std::uint64_t now) {
  note_again_at_ = now + 1'000'000'000;
  const std::lock_guard lock(mutex_);
  limited_ = client;
}

std::optional<IpAddress> RateLimiter::take_limited() {
  const std::lock_guard lock(mutex_);
  return std::exchange(limited_, std::nullopt);
}

}  // namespace meshdns::dnsd
