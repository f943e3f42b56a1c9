// SPDX-License-Identifier: Apache-2.0
// The time to ask for one name and family again, and the time that its last good answer may be
// used.  Pure: time and chance are arguments.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace meshdns::resolver {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

struct RefreshPolicy {
  std::chrono::seconds min_ttl{1};
  std::chrono::seconds max_ttl{3600};
  std::chrono::seconds negative_max_ttl{30};
  std::chrono::seconds negative_ttl_without_soa{5};
  std::chrono::milliseconds min_backoff{1'000};  // after the first failure; doubles with each
  std::chrono::milliseconds max_backoff{30'000};
  std::chrono::seconds serve_stale{3600};  // how long a good answer is used after its TTL
  friend bool operator==(const RefreshPolicy&, const RefreshPolicy&) = default;
};

class RefreshSchedule {
 public:
  // `chance` is uniform in [0, 1) in all calls.  The first look-up is due at once.
  explicit RefreshSchedule(TimePoint now) : next_(now) {}

  // A good answer: due again at 80..95% of the clamped TTL.  An answer whose TTL is less than a
  // quarter of the one before it is a cache's remainder: asking before its end would only bring a
  // smaller remainder, so that one is due just after its end (and a name costs a caching upstream
  // two queries per TTL, not five).
  void on_answer(TimePoint now, std::chrono::seconds ttl, const RefreshPolicy& policy,
                 double chance);
  // The name or its addresses do not exist: as good an answer as any other, and displaces the last
  // (RFC 8767, section 6).
  void on_negative(TimePoint now, std::optional<std::chrono::seconds> ttl,
                   const RefreshPolicy& policy, double chance);
  // Nobody answered: the last good answer stays, the next try waits min_backoff * 2^n (75..125%).
  void on_failure(TimePoint now, const RefreshPolicy& policy, double chance);
  // Not later than `when`, if the last try failed; whether that changed anything.
  bool hasten(TimePoint when);

  // Not later than `when`: the last answer may not hold any more.
  void advance(TimePoint when) { next_ = next_ < when ? next_ : when; }

  TimePoint next() const { return next_; }
  // The end of the TTL of the last good answer; nullopt without one.
  std::optional<TimePoint> expires() const { return expires_; }
  // From here on the last good answer must not be used any more; nullopt without one, and as long
  // as no lookup has failed since.
  std::optional<TimePoint> unusable(const RefreshPolicy& policy) const;

 private:
  TimePoint next_;
  std::optional<TimePoint> expires_;
  std::chrono::seconds reference_ttl_{0};  // of the last answer that was no remainder
  std::uint32_t failures_ = 0;
};

}  // namespace meshdns::resolver
