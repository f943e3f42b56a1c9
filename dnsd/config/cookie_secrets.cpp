// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/cookie_secrets.hpp"

#include <algorithm>
#include <charconv>

#include "dnsd/config/values.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::string_view kBlank = " \t\r";

std::string_view without_comment_and_blanks(std::string_view line) {
  line = line.substr(0, line.find('#'));
  line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
  return line.substr(0, line.find_last_not_of(kBlank) + 1);
}

std::optional<CookieSecret> parse_secret(std::string_view digits) {
  CookieSecret secret;
  if (digits.size() != 2 * secret.size()) return std::nullopt;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const char* const at = digits.data() + 2 * i;
    if (std::from_chars(at, at + 2, secret[i], 16).ptr != at + 2) return std::nullopt;
  }
  return secret;
}

}  // namespace

Result<CookieSecrets> parse_cookie_secrets(std::string_view text) {
  std::optional<CookieSecret> current;
  std::optional<CookieSecret> other;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = without_comment_and_blanks(take_line(text));
    if (line.empty()) continue;
    const auto secret = parse_secret(line);
    if (!secret) return fail(std::to_string(number) + ": not a secret of 32 hexadecimal digits");
    if (other) return fail(std::to_string(number) + ": more than two secrets");
    (current ? other : current) = secret;
  }
  if (!current) return fail("1: no secret; write 32 hexadecimal digits");
  return CookieSecrets{*current, other};
}

Result<CookieSecrets> read_cookie_secrets(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text) return std::unexpected(text.error());
  auto secrets = parse_cookie_secrets(*text);
  if (!secrets) return fail(path + ":" + secrets.error().message);
  return secrets;
}

}  // namespace meshdns::dnsd
