// SPDX-License-Identifier: Apache-2.0
#include "registry/base/special_names.hpp"

#include <array>

#include "registry/base/host_name.hpp"

namespace meshdns {

std::string_view special_zone_of(std::string_view name) {
  constexpr std::array<std::string_view, 4> zones = {"localhost", "invalid", "onion", "alt"};
  for (const std::string_view zone : zones)
    if (is_at_or_below(name, zone)) return zone;
  return {};
}

}  // namespace meshdns
