// SPDX-License-Identifier: Apache-2.0
#include "registry/base/printable.hpp"

namespace meshdns::registry {

std::string printable(std::string_view text, std::size_t max) {
  std::string out;
  for (const char c : text.substr(0, max)) {
    if (c >= ' ' && c <= '~') {
      out += c;
      continue;
    }
    const auto octet = static_cast<unsigned char>(c);
    out += '\\';
    for (const int digit : {octet / 100, octet / 10 % 10, octet % 10})
      out += static_cast<char>('0' + digit);
  }
  if (text.size() > max) out += "...";
  return out;
}

std::string quoted(std::string_view text, std::size_t max) {
  return '"' + printable(text, max) + '"';
}

}  // namespace meshdns::registry
