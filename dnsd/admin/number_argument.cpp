// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/number_argument.hpp"

#include <charconv>
#include <string>

#include "registry/base/in_quotes.hpp"

namespace meshdns::dnsd {

Result<std::uint64_t> number_argument(const HttpRequest& request, std::string_view name,
                                      std::uint64_t otherwise) {
  const std::string_view text = request.argument(name);
  if (text.empty()) return otherwise;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    return fail(std::string(name) + "=: " + in_quotes(text) + " is not a number");
  return number;
}

}  // namespace meshdns::dnsd
