// SPDX-License-Identifier: Apache-2.0
#include "registry/base/host_name.hpp"

namespace meshdns {

std::string_view special_zone_of(std::string_view name) {
  constexpr std::array<std::string_view, 4> zones = {"localhost", "invalid", "onion", "alt"};
  for (const std::string_view zone : zones)
    if (is_at_or_below(name, zone)) return zone;
  return {};
}

namespace {

constexpr std::size_t kMaxLabelLength = 63;
// Istio counts the text, final dot included (govalidator's limit), not the octets on the wire.
constexpr std::size_t kMaxFqdnText = 255;

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter_or_digit(char c) {
  return is_digit(c) || (to_lower(c) >= 'a' && to_lower(c) <= 'z');
}

bool is_all_digits(std::string_view text) { return std::ranges::all_of(text, is_digit); }

// Each reply of an upstream server is compared with its question, letter by letter.
constexpr std::size_t kWord = 8;

// to_lower() of eight octets at once: in each octet, a sum sets the high bit if the octet is a
// letter from 'A' on, and another sum if it is behind 'Z'.
std::uint64_t lower_word(const char* text) {
  constexpr std::uint64_t kEach = 0x0101'0101'0101'0101;
  std::uint64_t word = 0;
  std::memcpy(&word, text, kWord);
  const std::uint64_t low = word & (0x7f * kEach);
  const std::uint64_t from_a = low + (0x80 - 'A') * kEach;
  const std::uint64_t behind_z = low + (0x7f - 'Z') * kEach;
  const std::uint64_t upper = from_a & ~behind_z & ~word & (0x80 * kEach);
  return word | upper >> 2;
}

// Every label of `name` from the given position on; `name` may end in one dot.
bool are_labels(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  for (;;) {
    const std::size_t dot = name.find('.');
    const std::string_view label = name.substr(0, dot);
    if (!is_label(label)) return false;
    if (dot == std::string_view::npos) return !is_all_digits(label);
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

std::string to_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = to_lower(c);
  return out;
}

std::string canonical_host(std::string_view host) {
  if (host.ends_with('.')) host.remove_suffix(1);
  return to_lower(host);
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  std::size_t at = 0;
  for (; a.size() - at >= kWord; at += kWord)
    if (lower_word(a.data() + at) != lower_word(b.data() + at)) return false;
  for (; at < a.size(); ++at)
    if (to_lower(a[at]) != to_lower(b[at])) return false;
  return true;
}

std::size_t count_labels(std::string_view name) {
  if (name.empty()) return 0;
  return 1 + static_cast<std::size_t>(std::ranges::count(name, '.'));
}

bool is_label(std::string_view label) {
  if (label.empty() || label.size() > kMaxLabelLength) return false;
  if (label.front() == '-' || label.back() == '-') return false;
  return std::ranges::all_of(label, [](char c) { return is_letter_or_digit(c) || c == '-'; });
}

bool is_fqdn(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFqdnText && are_labels(name);
}

bool is_wildcard_domain(std::string_view name) {
  if (!name.starts_with('*')) return is_fqdn(name);
  if (name.size() > kMaxFqdnText) return false;
  const std::size_t dot = name.find('.');
  std::string_view first = name.substr(1, dot == std::string_view::npos ? dot : dot - 1);
  if (first.starts_with('-')) first.remove_prefix(1);
  if (!first.empty() && !is_label(first)) return false;
  if (name.substr(0, dot) == "*-") return false;
  if (dot == std::string_view::npos) return true;
  const std::string_view rest = name.substr(dot + 1);
  return !rest.empty() && are_labels(rest);
}

}  // namespace meshdns
