// SPDX-License-Identifier: Apache-2.0
#include "registry/base/utf8.hpp"

#include <cstdint>

namespace meshdns::registry {

namespace {

std::uint8_t byte(char c) { return static_cast<std::uint8_t>(c); }

// The bytes of the character at the front of `text`; 0 if it is not valid.
std::size_t character_size(std::string_view text) {
  const std::uint8_t first = byte(text[0]);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xc2 && first <= 0xdf   ? 2
                           : first >= 0xe0 && first <= 0xef ? 3
                           : first >= 0xf0 && first <= 0xf4 ? 4
                                                            : 0;
  if (size == 0 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(text[i]) & 0xc0) != 0x80) return 0;
  const std::uint8_t second = byte(text[1]);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool beyond = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : size;
}

bool is_forbidden_control(char c) {
  return (byte(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::optional<UnreadableByte> find_unreadable(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character_size(text.substr(at));
    if (size == 0) return UnreadableByte{at, "not UTF-8 text: invalid sequence"};
    if (text[at] == '\0') return UnreadableByte{at, "NUL octets are not allowed"};
    if (is_forbidden_control(text[at]))
      return UnreadableByte{at, "control characters are not allowed"};
    at += size;
  }
  return std::nullopt;
}

}  // namespace meshdns::registry
