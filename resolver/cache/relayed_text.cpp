// SPDX-License-Identifier: Apache-2.0
#include "resolver/cache/relayed_text.hpp"

#include <algorithm>
#include <cstdint>

#include "registry/base/ip_address.hpp"
#include "registry/base/utf8.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kMaxText = 255;
constexpr std::string_view kAddress = "[address]";
// The longest text of an address: IPv6 with IPv4 at its end.
constexpr std::size_t kMaxAddressText = 45;

std::uint8_t octet(char c) { return static_cast<std::uint8_t>(c); }

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
// Returns whether an address can contain the character.
bool is_of_address(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '.' ||
         c == ':';
}
bool is_control(char c) { return octet(c) < 0x20 || c == 0x7f; }

// Returns whether an address may end where `rest` begins.
bool is_border(std::string_view rest) { return rest.empty() || !is_letter_or_digit(rest[0]); }

// The octets of the zone at the front of `text`, "%eth0"; 0 = none is there.
std::size_t zone_size(std::string_view text) {
  if (!text.starts_with('%')) return 0;
  const auto end = std::ranges::find_if_not(
      text.substr(1), [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_'; });
  return static_cast<std::size_t>(end - text.begin());
}

// The octets of the address at the front of `text`, with its zone.  A port or a full stop may
// follow.  0 = none is there.
std::size_t bare_address_size(std::string_view text) {
  const auto run =
      static_cast<std::size_t>(std::ranges::find_if_not(text, is_of_address) - text.begin());
  // The longest first: "10.0.0.1:53." is an address, then what belongs to the sentence.
  for (std::size_t size = std::min(run, kMaxAddressText); size >= 2; --size)
    if (is_border(text.substr(size)) && IpAddress::parse(text.substr(0, size)))
      return size + zone_size(text.substr(size));
  return 0;
}

// The same, and the brackets around an address before a port: "[2001:db8::53]:853".
std::size_t address_size(std::string_view text) {
  if (!text.starts_with('[')) return bare_address_size(text);
  const std::size_t bare = bare_address_size(text.substr(1));
  return bare != 0 && text.substr(1 + bare).starts_with(']') ? bare + 2 : 0;
}

// Stops when the result has kMaxText octets or more.
std::string without_addresses(std::string_view text) {
  std::string out;
  bool inside_word = false;
  while (!text.empty() && out.size() <= kMaxText) {
    const std::size_t address = inside_word ? 0 : address_size(text);
    if (address != 0) {
      out += kAddress;
      text.remove_prefix(address);
      inside_word = false;
      continue;
    }
    const char c = text[0];
    inside_word = is_letter_or_digit(c) || c == '.';
    out += is_control(c) ? ' ' : c;
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace

std::string relayed_text(std::string_view text) {
  if (!registry::is_utf8(text)) return {};
  std::string out = without_addresses(text);
  std::size_t size = std::min(out.size(), kMaxText);
  while (size > 0 && size < out.size() && (octet(out[size]) & 0xc0) == 0x80) --size;
  out.resize(size);
  return out;
}

}  // namespace meshdns::dnsd
