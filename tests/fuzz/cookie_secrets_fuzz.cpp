// SPDX-License-Identifier: Apache-2.0
// Any text as a file of cookie secrets: what is taken is taken again when it is written out, and
// an error repeats nothing of the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dnsd/config/cookie_secrets.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace meshdns::dnsd;
using meshdns::fuzz::require;

std::string written(const CookieSecret& secret) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t octet : secret) {
    text += kDigits[octet >> 4];
    text += kDigits[octet & 15];
  }
  return text + "\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto secrets = parse_cookie_secrets({reinterpret_cast<const char*>(data), size});
  if (!secrets) {
    const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
    require(secrets.error().message.size() < 200);
    require(std::ranges::all_of(secrets.error().message, is_plain));
    return 0;
  }
  std::string text = written(secrets->current);
  if (secrets->other) text += written(*secrets->other);
  const auto again = parse_cookie_secrets(text);
  require(again.has_value() && *again == *secrets);
  return 0;
}
