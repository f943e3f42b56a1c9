// SPDX-License-Identifier: Apache-2.0
// The settings of a run of the load generator, and its results.
#pragma once

#include <netinet/in.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/load/histogram.hpp"
#include "tests/bench/load/stalls.hpp"

namespace meshdns::bench {

using Clock = std::chrono::steady_clock;

struct Options {
  const Clock::time_point began = Clock::now();  // times of samples and stalls count from here
  sockaddr_in server{};
  std::string queries;
  double seconds = 2;
  double warm_up_seconds = 0.3;
  double rate = 0;                 // queries per second; 0 = as many as are answered
  unsigned burst = 1;              // at a rate: so many at once, and the core is left to others
  unsigned window = 192;           // unanswered queries, of all sockets together
  unsigned sockets = 4;            // or TCP connections
  std::uint32_t first_source = 0;  // host byte order; 0 = the kernel chooses
  unsigned sources = 1;            // client addresses from first_source on
  unsigned skip = 0;               // queries at the beginning of the file
  bool tcp = false;
  bool sleeps = false;  // until replies come, as a client does
  std::vector<int> server_processes;
  std::string samples;    // a file for each latency of a UDP run at a rate; "" = none
  int watched_core = -1;  // the server's, for stalls; -1 = none
};

// One reply, as it is written to the file of samples.
struct Sample {
  std::uint32_t due_us = 0;  // since Options::began
  std::uint32_t latency_ns = 0;
};

// Replies are judged as far as a header shows: that each asked ID comes back once, with QR set.
struct Seen {
  std::uint64_t sent = 0;
  std::uint64_t answered = 0;
  std::uint64_t lost = 0;
  std::uint64_t unexpected = 0;  // no response, or to nothing that is asked
  std::uint64_t rcodes[16] = {};
  std::uint64_t with_answers = 0;  // ANCOUNT above 0
  std::uint64_t truncated = 0;
  Histogram latency;
  std::vector<Sample> samples;

  // Keeps the memory of the samples.
  void clear() {
    std::vector<Sample> memory = std::move(samples);
    memory.clear();
    *this = {};
    samples = std::move(memory);
  }
  void count(const std::uint8_t* message) {
    ++answered;
    ++rcodes[message[3] & 15];
    with_answers += (message[6] | message[7]) != 0 ? 1U : 0U;
    truncated += (message[2] & 0x02) != 0 ? 1U : 0U;
  }
};

// The time to stop, and the time when the warm-up ends.
class Schedule {
 public:
  explicit Schedule(const Options& options)
      : begin_(Clock::now()),
        warm_(begin_ + to_clock(options.warm_up_seconds)),
        end_(warm_ + to_clock(options.seconds)) {}
  Clock::time_point begin() const { return begin_; }
  bool is_over(Clock::time_point now) const { return now >= end_; }
  // True once: from now on it counts.
  bool is_warm(Clock::time_point now) {
    if (warmed_up_ || now < warm_) return false;
    return warmed_up_ = true;
  }

 private:
  static Clock::duration to_clock(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  Clock::time_point begin_;
  Clock::time_point warm_;
  Clock::time_point end_;
  bool warmed_up_ = false;
};

// The interval that counts: wall clock, the server's CPU time and that of the whole machine.
class Meter {
 public:
  explicit Meter(std::vector<int> processes) : processes_(std::move(processes)) {}
  void start();
  void stop();
  double seconds() const { return seconds_; }
  double cpu_seconds() const { return cpu_seconds_; }
  double machine_cpu_seconds() const { return machine_cpu_seconds_; }

 private:
  // User and system time of all threads.
  double cpu_now() const;
  // Time in which a core of the machine was not idle, of all cores.
  static double machine_cpu_now();

  std::vector<int> processes_;
  Clock::time_point started_;
  double seconds_ = 0;
  double cpu_seconds_ = 0;
  double machine_cpu_seconds_ = 0;
};

// `stalls`: of the generator's own core, on which it never sleeps.
void run_udp(const Options& options, Seen& seen, Meter& meter, std::vector<Stall>& stalls);
void run_tcp(const Options& options, Seen& seen, Meter& meter);

}  // namespace meshdns::bench
