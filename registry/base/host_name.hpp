// SPDX-License-Identifier: Apache-2.0
// Host names as the registry holds them: lower case, dotted, no trailing dot, at most 253 octets.
// Free functions on text rather than a wrapper type: a query's name is compared where it lies.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

namespace meshdns {

inline constexpr std::size_t kMaxHostLength = 253;

// ASCII only (RFC 4343); other octets are untouched.
constexpr char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
std::string to_lower(std::string_view text);

// Lower case and without the final dot.
std::string canonical_host(std::string_view host);

bool equals_ignoring_case(std::string_view a, std::string_view b);

// Returns whether `name` lies below `suffix`, label-wise, and is not the suffix itself.  REQUIRES:
// both canonical.
constexpr bool is_below(std::string_view name, std::string_view suffix) {
  if (suffix.empty()) return !name.empty();
  // The dot comes first: it spares most names the comparison.
  return name.size() > suffix.size() + 1 && name[name.size() - suffix.size() - 1] == '.' &&
         name.ends_with(suffix);
}
// Returns whether `name` is `suffix` or lies below it.  REQUIRES: both canonical.
constexpr bool is_at_or_below(std::string_view name, std::string_view suffix) {
  return name.size() == suffix.size() ? name == suffix : is_below(name, suffix);
}

// The name without its first label; empty for a single label.
inline std::string_view parent_of(std::string_view name) {
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
}
std::size_t count_labels(std::string_view name);

// Joins parts into a buffer of the longest name; empty when they are longer.
class JoinedName {
 public:
  JoinedName(std::initializer_list<std::string_view> parts) {
    for (const auto part : parts) {
      if (size_ + part.size() > buffer_.size()) {
        size_ = 0;
        return;
      }
      std::memcpy(buffer_.data() + size_, part.data(), part.size());
      size_ += part.size();
    }
  }
  std::string_view text() const { return {buffer_.data(), size_}; }

 private:
  std::array<char, 320> buffer_;
  std::size_t size_ = 0;
};

// Letters, digits and inner hyphens, 1..63 (Istio's label; RFC 1123).
bool is_label(std::string_view label);
// Dot-separated labels, at most 255 octets, last one may be empty and must not be all digits.
bool is_fqdn(std::string_view name);
// As is_fqdn, but the first label may be "*", "*x" or "*-x".
bool is_wildcard_domain(std::string_view name);

// Returns the zone at or below which `name` lies, of those whose names never leave this host and
// that no resource may claim: localhost and invalid (RFC 6761), onion (RFC 7686), alt (RFC 9476).
// Empty when there is none.  `name` is canonical, or a wildcard such as "*.onion".
std::string_view special_zone_of(std::string_view name);

}  // namespace meshdns
