// SPDX-License-Identifier: Apache-2.0
#include "registry/base/printable.hpp"

#include <cstdint>

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

namespace meshdns::registry {

namespace {

bool is_printable(char c) { return c >= ' ' && c <= '~'; }

void append_decimal(std::string& out, char c) {
  const auto octet = static_cast<unsigned char>(c);
  out += '\\';
  for (const int digit : {octet / 100, octet / 10 % 10, octet % 10})
    out += static_cast<char>('0' + digit);
}

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

std::string printable(std::string_view text, std::size_t max) {
  std::string out;
  for (const char c : text.substr(0, max)) {
    if (is_printable(c))
      out += c;
    else
      append_decimal(out, c);
  }
  if (text.size() > max) out += "...";
  return out;
}

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (is_printable(c) && c != '\\')
      out += c;
    else
      append_decimal(out, c);
  }
  return out;
}

std::string as_utf8(std::string_view text) {
  if (is_utf8(text)) return std::string(text);
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80)
      out += c;
    else
      append_decimal(out, c);
  }
  return out;
}

std::string in_quotes(std::string_view text, std::size_t max) {
  return '"' + printable(text, max) + '"';
}

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
