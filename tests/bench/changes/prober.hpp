// SPDX-License-Identifier: Apache-2.0
// Asks a server for names that change, and judges every answer.
#pragma once

#include <netinet/in.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "tests/bench/changes/cluster.hpp"
#include "tests/bench/load/histogram.hpp"

namespace meshdns::bench {

// The observed behaviour of the server.
struct Report {
  Histogram delay;  // from the event's being written until every worker has shown it
  std::uint64_t longest_ns = 0;
  std::uint64_t late = 0;  // above 10 ms
  std::uint64_t asked = 0;
  std::uint64_t lost = 0;    // no answer within a second
  std::uint64_t wrong = 0;   // another Service's address, too few or too many, or an error
  std::uint64_t stale = 0;   // an address that answers of every worker had shown to be gone
  std::uint64_t unseen = 0;  // changes that no answer has shown
};

class Prober {
 public:
  Prober(const Cluster& cluster, const sockaddr_in& server);
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;
  ~Prober();

  // Any thread.
  void note(const Change& change);
  // Besides changed names asks for `rate` names a second, half of them of those that changed
  // lately. Until `is_over`, and what is open then has been seen, or 2 s later.
  void run(double rate, const std::atomic<bool>& is_over);

  const Report& report() const { return report_; }

 private:
  // Each query is drawn a worker of its own.  With two workers, so many answers that all show a
  // change come from one of them alone once in 30,000 times.
  static constexpr unsigned kAnswersOfAll = 16;
  static constexpr auto kLostAfter = std::chrono::seconds(1);
  static constexpr auto kAskAgainAfter = std::chrono::microseconds(300);

  struct Question {
    std::uint32_t service = 0;
    std::uint32_t change = 0;     // 0: none is waited for
    std::uint32_t confirmed = 0;  // the latest change that all had shown when this was asked
    Clock::time_point sent_at;
    bool is_open = false;
  };
  struct Awaited {
    Change change;
    Clock::time_point ask_at;
    bool is_asked = false;
    unsigned shown = 0;  // by the last so many answers
  };

  void take_changes();
  void ask_awaited();
  void ask(std::uint32_t service, std::uint32_t change);
  std::uint32_t some_service();
  bool receive();
  void judge(const std::uint8_t* message, std::size_t size, Clock::time_point now);
  void give_up_old(Clock::time_point now);
  bool is_idle() const;

  const Cluster& cluster_;
  int socket_;
  Report report_;
  std::uint16_t last_id_ = 0;
  std::vector<Question> questions_{65536};                        // by ID
  std::deque<std::pair<std::uint16_t, Clock::time_point>> sent_;  // in order
  std::map<std::uint32_t, Awaited> awaited_;                      // by change
  std::vector<std::uint32_t> confirmed_;                          // by Service
  std::vector<std::uint32_t> lately_;                             // Services, a ring
  std::size_t next_lately_ = 0;
  std::minstd_rand random_{1};
  std::mutex mutex_;             // guards what is below
  std::vector<Change> changes_;  // not taken yet
};

}  // namespace meshdns::bench
