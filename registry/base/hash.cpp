// SPDX-License-Identifier: Apache-2.0
#include "registry/base/hash.hpp"

#include <random>

namespace meshdns::hash_detail {

const Key kKey = [] {
  std::random_device device;
  const auto draw = [&] { return static_cast<std::uint64_t>(device()) << 32 | device(); };
  return Key{draw(), draw()};
}();

}  // namespace meshdns::hash_detail
