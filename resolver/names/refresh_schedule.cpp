// SPDX-License-Identifier: Apache-2.0
#include "resolver/names/refresh_schedule.hpp"

#include <algorithm>

namespace meshdns::resolver {
namespace {

constexpr double kEarliestRefresh = 0.80;  // of the TTL
constexpr double kRefreshSpread = 0.15;
constexpr std::chrono::milliseconds kAfterRemainder{250};
constexpr std::uint32_t kMaxDoublings = 16;

Duration scaled(Duration duration, double factor) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(duration.count()) * factor));
}

}  // namespace

void RefreshSchedule::on_answer(TimePoint now, std::chrono::seconds ttl,
                                const RefreshPolicy& policy, double chance) {
  ttl = std::clamp(ttl, policy.min_ttl, policy.max_ttl);
  const bool is_remainder = ttl * 4 < reference_ttl_;
  next_ = is_remainder ? now + ttl + scaled(kAfterRemainder, chance)
                       : now + scaled(ttl, kEarliestRefresh + kRefreshSpread * chance);
  expires_ = now + ttl;
  // After a remainder any TTL is accepted as it is, so that a TTL lowered for good is soon normal.
  reference_ttl_ = is_remainder ? std::chrono::seconds{0} : ttl;
  failures_ = 0;
}

void RefreshSchedule::on_negative(TimePoint now, std::optional<std::chrono::seconds> ttl,
                                  const RefreshPolicy& policy, double chance) {
  const auto upper = std::max(policy.min_ttl, policy.negative_max_ttl);
  const auto used =
      std::clamp(ttl.value_or(policy.negative_ttl_without_soa), policy.min_ttl, upper);
  next_ = now + scaled(used, kEarliestRefresh + kRefreshSpread * chance);
  expires_ = now + used;
  reference_ttl_ = std::chrono::seconds{0};
  failures_ = 0;
}

void RefreshSchedule::on_failure(TimePoint now, const RefreshPolicy& policy, double chance) {
  const auto doublings = std::min(failures_, kMaxDoublings);
  const auto backoff = std::min(policy.min_backoff * (1 << doublings), policy.max_backoff);
  next_ = now + scaled(backoff, 0.75 + 0.5 * chance);
  ++failures_;
}

bool RefreshSchedule::hasten(TimePoint when) {
  if (failures_ == 0 || next_ <= when) return false;
  next_ = when;
  return true;
}

std::optional<TimePoint> RefreshSchedule::unusable(const RefreshPolicy& policy) const {
  if (!expires_ || failures_ == 0) return std::nullopt;
  return *expires_ + policy.serve_stale;
}

}  // namespace meshdns::resolver
