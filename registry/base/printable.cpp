// SPDX-License-Identifier: Apache-2.0
#include "registry/base/printable.hpp"

#include "registry/base/utf8.hpp"

namespace meshdns::registry {

namespace {

bool is_printable(char c) { return c >= ' ' && c <= '~'; }

void append_decimal(std::string& out, char c) {
  const auto octet = static_cast<unsigned char>(c);
  out += '\\';
  for (const int digit : {octet / 100, octet / 10 % 10, octet % 10})
    out += static_cast<char>('0' + digit);
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

}  // namespace meshdns::registry
