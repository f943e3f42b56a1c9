// SPDX-License-Identifier: Apache-2.0
// The wait before the next try.  It doubles, with jitter, so that the nodes of a cluster do not all
// come back to an API server at once.
#pragma once

#include <functional>

#include "registry/source/scheduler.hpp"

namespace meshdns::registry {

class Backoff {
 public:
  // In [0, 1).
  using Random = std::function<double()>;

  Backoff(Milliseconds first, Random random) : first_(first), random_(std::move(random)) {}

  // Between half of the current step and all of it; the step doubles, up to `limit`.
  Milliseconds next(Milliseconds limit);
  void reset() { step_ = Milliseconds(0); }

 private:
  Milliseconds first_;
  Milliseconds step_{0};
  Random random_;
};

// Seeded by the system.
Backoff::Random make_random();

}  // namespace meshdns::registry
