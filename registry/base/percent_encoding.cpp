// SPDX-License-Identifier: Apache-2.0
#include "registry/base/percent_encoding.hpp"

namespace meshdns {
namespace {

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-._~").contains(c);
}

}  // namespace

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view upper_digits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto octet = static_cast<unsigned char>(c);
    if (is_unreserved(c))
      encoded += c;
    else
      encoded += {'%', upper_digits[octet >> 4], upper_digits[octet & 15]};
  }
  return encoded;
}

}  // namespace meshdns
