// SPDX-License-Identifier: Apache-2.0
#include "dnsd/log/printable.hpp"

namespace meshdns::dnsd {

void append_printable(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto octet = static_cast<unsigned char>(c);
    if (octet >= 0x20 && octet < 0x7f && c != '\\') {
      out += c;
      continue;
    }
    out += '\\';
    out += static_cast<char>('0' + octet / 100);
    out += static_cast<char>('0' + octet / 10 % 10);
    out += static_cast<char>('0' + octet % 10);
  }
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  append_printable(out, text);
  return out;
}

}  // namespace meshdns::dnsd
