// How messages show what the user wrote.
#pragma once

#include <string>
#include <string_view>

namespace meshdns::dnsd {

inline std::string quoted(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  out += '"';
  out += text;
  out += '"';
  return out;
}

}  // namespace meshdns::dnsd
