// SPDX-License-Identifier: Apache-2.0
#include "registry/source/backoff.hpp"

#include <algorithm>
#include <memory>
#include <random>

namespace meshdns::registry {

Milliseconds Backoff::next(Milliseconds limit) {
  step_ = std::min(limit, step_.count() == 0 ? first_ : 2 * step_);
  const auto half = step_ / 2;
  return half + Milliseconds(static_cast<Milliseconds::rep>(
                    random_() * static_cast<double>((step_ - half).count())));
}

Backoff::Random make_random() {
  // Copies of the function draw from one and the same sequence.
  const auto engine = std::make_shared<std::minstd_rand>(std::random_device()());
  return [engine] { return std::uniform_real_distribution<>(0.0, 1.0)(*engine); };
}

}  // namespace meshdns::registry
