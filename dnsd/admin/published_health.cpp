// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/published_health.hpp"

#include <algorithm>
#include <utility>

namespace meshdns::dnsd {

std::string_view Readiness::first_reason() const {
  for (const auto* problems : {&not_ready, &degraded})
    if (!problems->empty()) return problems->front().reason;
  return {};
}

std::vector<std::string> Readiness::effects() const {
  std::vector<std::string> effects;
  for (const auto* problems : {&not_ready, &degraded})
    for (const Problem& problem : *problems)
      if (std::ranges::find(effects, problem.effect) == effects.end())
        effects.push_back(problem.effect);
  return effects;
}

void PublishedHealth::publish(std::string complaint, Readiness readiness) {
  const std::lock_guard lock(mutex_);
  complaint_ = std::move(complaint);
  readiness_ = std::move(readiness);
}

bool PublishedHealth::is_silent(Time now) {
  const Time beat = beat_.load(std::memory_order_relaxed);
  if (now - beat < kSilentAfter) return false;
  const std::lock_guard lock(mutex_);
  if (suspect_ != beat) {
    suspect_ = beat;
    suspected_at_ = now;
  }
  return now - suspected_at_ >= kConfirmAfter;
}

HttpResponse PublishedHealth::health(Time now) {
  if (is_silent(now))
    return {.status = 503,
            .body = "the control thread has been silent for " +
                    std::to_string(std::chrono::duration_cast<std::chrono::seconds>(
                                       now - beat_.load(std::memory_order_relaxed))
                                       .count()) +
                    " s\n"};
  const std::lock_guard lock(mutex_);
  if (complaint_.empty()) return {.body = "ok\n"};
  return {.status = 503, .body = complaint_ + "\n"};
}

Readiness PublishedHealth::readiness() const {
  const std::lock_guard lock(mutex_);
  return readiness_;
}

}  // namespace meshdns::dnsd
