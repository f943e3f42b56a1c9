// SPDX-License-Identifier: Apache-2.0
#include "registry/base/hash.hpp"

#include <random>

namespace meshdns::hash_detail {

const std::uint64_t seed = [] {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}();

}  // namespace meshdns::hash_detail
