// SPDX-License-Identifier: Apache-2.0
// How long changes of the cluster take until they are applied.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "registry/source/source.hpp"

namespace meshdns::registry::kubernetes {

class ChangeDelays {
 public:
  // A change has arrived.  `trigger_time_ms`: when it happened, by the cluster's clock (Unix time);
  // 0 = not known.
  void note_arrival(std::int64_t trigger_time_ms);

  // Returns the changes that are about to be applied, for note_applied() afterwards.
  struct Arrival {
    std::chrono::steady_clock::time_point at;
    std::int64_t trigger_time_ms = 0;
  };
  std::vector<Arrival> take_arrivals() { return std::exchange(arrivals_, {}); }
  void note_applied(const std::vector<Arrival>& arrivals);

  const DelayHistogram& from_arrival() const { return from_arrival_; }
  const DelayHistogram& from_trigger() const { return from_trigger_; }

 private:
  std::vector<Arrival> arrivals_;
  DelayHistogram from_arrival_;
  DelayHistogram from_trigger_;
};

}  // namespace meshdns::registry::kubernetes
