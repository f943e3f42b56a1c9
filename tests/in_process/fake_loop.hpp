// SPDX-License-Identifier: Apache-2.0
// The event loop of the scenarios that run inside the test process.
#pragma once

#include <uv.h>

#include <chrono>
#include <functional>

#include "resolver/cache/cached_message.hpp"
#include "tests/in_process/fake_time.hpp"
#include "tests/upstream/scripted_upstream.hpp"

namespace meshdns::dnsd::test {

// A loop on fake time.  Time moves only when nothing else is left to do, and then at once to the
// next timer, so that waiting for a timeout takes no real time.
class FakeLoop {
 public:
  FakeLoop();
  ~FakeLoop();
  FakeLoop(const FakeLoop&) = delete;
  FakeLoop& operator=(const FakeLoop&) = delete;

  uv_loop_t* get() { return &loop_; }
  Millis now() const { return uv_now(&loop_); }
  // Runs until `done` or for `limit` of fake time.  Returns whether it is done.
  bool run_until(const std::function<bool()>& done, std::chrono::milliseconds limit);
  void run_for(std::chrono::milliseconds time);
  // Moves the clock on without running anything: for work that takes time.
  void move_clock(std::chrono::milliseconds by) { time_.advance(by); }
  // For upstreams: a server whose replies take no time at all looks as if it had not been asked.
  ScriptedUpstream::QueryListener round_trip() {
    return [this](const Received&) {
      move_clock(std::chrono::milliseconds(1));
      return true;
    };
  }

 private:
  bool is_ready() const;
  void await_deliveries() const;

  FakeTime time_;
  uv_loop_t loop_;
  int echo_;  // a UDP socket that is connected to itself
};

}  // namespace meshdns::dnsd::test
