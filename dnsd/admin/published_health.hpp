// SPDX-License-Identifier: Apache-2.0
// The answers to health checks, for the admin server's thread: the control thread publishes them,
// so that a check is answered at once while the control thread is busy for seconds.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/admin/http_message.hpp"

namespace meshdns::dnsd {

struct Problem {
  std::string reason;
  std::string
      effect;  // what is lost meanwhile, as a sentence: "changes of files:shop may be missing"
};

struct Readiness {
  std::vector<Problem> not_ready;  // clients should wait, or ask another daemon
  std::vector<Problem> degraded;   // names of the mesh are answered; the worst first

  bool is_ready() const { return not_ready.empty(); }
  // The reason that matters most; empty: there is none.
  std::string_view first_reason() const;
  // Returns what is lost now, the worst first, each once; empty: nothing is.
  std::vector<std::string> effects() const;
};

class PublishedHealth {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Time for which the control thread may be silent before health() fails.
  static constexpr std::chrono::seconds kSilentAfter{30};
  // A silence counts only once a later check, at least this much later, finds the same silence:
  // after the whole process was stopped (a suspended machine), a check may run before the control
  // thread gets its turn.
  static constexpr std::chrono::seconds kConfirmAfter{1};

  explicit PublishedHealth(Time now) : beat_(now) {}

  // Control thread, every second.
  void beat(Time now) { beat_.store(now, std::memory_order_relaxed); }
  // Control thread, when the state changes. `complaint`: about workers that hang; empty = none.
  void publish(std::string complaint, Readiness readiness);

  // Any thread.
  HttpResponse health(Time now);
  Readiness readiness() const;

 private:
  // Returns whether the control thread is silent, as `now` and an earlier check found.
  bool is_silent(Time now);

  std::atomic<Time> beat_;
  static_assert(std::atomic<Time>::is_always_lock_free);

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::string complaint_;
  Readiness readiness_{.not_ready = {{"starting", "names of the mesh may be missing"}},
                       .degraded = {}};
  Time suspect_;       // the last beat that a check found too old
  Time suspected_at_;  // when it first did
};

}  // namespace meshdns::dnsd
