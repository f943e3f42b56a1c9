// SPDX-License-Identifier: Apache-2.0
// Limits how many lookups begin per second.
#pragma once

#include <chrono>
#include <cstdint>

#include "resolver/names/refresh_schedule.hpp"

namespace meshdns::resolver {

// So many lookups per second, and `burst` of them at once after a pause. Counts in whole clock
// ticks, so that a lookup that ready_at() promises is allowed at exactly that time.
class LookupBudget {
 public:
  // REQUIRES: `per_second` and `burst` > 0.
  LookupBudget(std::uint32_t per_second, std::uint32_t burst)
      : per_second_(per_second), burst_(burst) {}

  // The time when the next lookup may begin.
  TimePoint ready_at() const { return full_at_ - interval() * (burst_ - 1); }
  // Returns whether the whole burst is allowed: nothing is lost with the object.
  bool is_whole(TimePoint now) const { return full_at_ <= now; }
  // REQUIRES: ready_at() <= now.
  void take(TimePoint now) { full_at_ = (full_at_ > now ? full_at_ : now) + interval(); }

 private:
  Duration interval() const {
    return std::chrono::duration_cast<Duration>(std::chrono::seconds(1)) / per_second_;
  }

  std::uint32_t per_second_;
  std::uint32_t burst_;
  TimePoint full_at_{};  // when the whole burst is allowed again
};

}  // namespace meshdns::resolver
