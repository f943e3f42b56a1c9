// SPDX-License-Identifier: Apache-2.0
#include "registry/base/counted.hpp"

namespace meshdns::registry {
namespace {

std::string plural_of(std::string_view noun) {
  std::string text(noun);
  const auto ends_with_any = [&](auto... ends) { return (noun.ends_with(ends) || ...); };
  const bool ends_with_consonant_and_y =
      noun.ends_with('y') && !ends_with_any("ay", "ey", "oy", "uy");
  if (ends_with_consonant_and_y) {
    text.pop_back();
    return text + "ies";
  }
  return text + (ends_with_any("s", "x", "z", "ch", "sh") ? "es" : "s");
}

}  // namespace

std::string counted(std::uint64_t number, std::string_view noun) {
  return std::to_string(number) + " " + (number == 1 ? std::string(noun) : plural_of(noun));
}

}  // namespace meshdns::registry
