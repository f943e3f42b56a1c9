// SPDX-License-Identifier: Apache-2.0
// An IPv4 or IPv6 address, a prefix of them, and their names in the reverse zones.  Values; any
// thread.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "registry/base/hash.hpp"

struct sockaddr;

namespace meshdns {

// Held as 16 octets; IPv4 is the IPv4-mapped form (RFC 4291, section 2.5.5.2), so that a client
// seen through a dual-stack socket and the same client seen through an IPv4 one compare equal.
class IpAddress {
 public:
  using Octets = std::array<std::uint8_t, 16>;

  constexpr IpAddress() = default;  // "::"

  // `octets` in network order.
  static constexpr IpAddress v4(std::array<std::uint8_t, 4> octets) {
    IpAddress a;
    a.octets_[10] = a.octets_[11] = 0xff;
    for (std::size_t i = 0; i < 4; ++i) a.octets_[12 + i] = octets[i];
    return a;
  }
  static constexpr IpAddress v6(Octets octets) {
    IpAddress a;
    a.octets_ = octets;
    return a;
  }
  // Dotted quad or RFC 4291 text, no brackets, no zone, no port; nothing else.  Leading zeros in
  // an IPv4 octet are refused as inet_pton does.
  static std::optional<IpAddress> parse(std::string_view text);
  // nullopt for families other than AF_INET and AF_INET6.
  static std::optional<IpAddress> from_sockaddr(const sockaddr* address);

  // Compares words, not octets: every query asks several times.
  constexpr bool is_v4() const {
    using Words = std::array<std::uint32_t, 4>;
    constexpr Octets kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0};
    constexpr std::uint32_t kMark = std::bit_cast<Words>(kMapped)[2];
    const Words words = std::bit_cast<Words>(octets_);
    return (words[0] | words[1] | (words[2] ^ kMark)) == 0;
  }
  constexpr bool is_v6() const { return !is_v4(); }
  bool is_unspecified() const;  // 0.0.0.0 or ::
  bool is_loopback() const;

  // All 16 octets; the last 4 are the IPv4 address when is_v4().
  constexpr const Octets& octets() const { return octets_; }

  std::string to_string() const;  // RFC 5952; IPv4 as dotted quad

  friend constexpr auto operator<=>(const IpAddress&, const IpAddress&) = default;

 private:
  Octets octets_{};
};

// An address and a prefix length.  Host bits may be set (Istio accepts them); they are ignored by
// contains().
struct IpPrefix {
  IpAddress address;
  std::uint8_t length = 128;  // counted in the family's own bits: 0..32 for IPv4, 0..128 for IPv6

  // "10.0.0.0/8", "2001:db8::/32"; a bare address is its full-length prefix.
  static std::optional<IpPrefix> parse(std::string_view text);
  bool contains(const IpAddress& address) const;  // false across families
  bool is_single() const { return length == (address.is_v4() ? 32 : 128); }
  // The same prefix without host bits: "10.9.200.200/16" gives "10.9.0.0/16".
  IpPrefix network() const;
  std::string to_string() const;

  friend auto operator<=>(const IpPrefix&, const IpPrefix&) = default;
};

// Names of addresses in the reverse zones have a label for each octet in decimal under in-addr.arpa
// (RFC 1035, section 3.5), and for each four bits in hexadecimal under ip6.arpa (RFC 3596, section
// 2.5).

// Returns the number of bits of a label: 8 or 4.
unsigned bits_of_reverse_label(const IpAddress& address);
// Returns the value of label `index` of the reverse name, counted from the address's front.
unsigned reverse_label_value(const IpAddress& address, std::size_t index);
// The label of that value in the address's family: "10", or "f".
std::string reverse_label(const IpAddress& address, unsigned value);

// Returns the reverse name of the first `labels` labels: "4.10.in-addr.arpa" for two, the root of
// the tree for none.
std::string reverse_name(const IpAddress& address, std::size_t labels);
// Returns the reverse name of the whole address.
std::string reverse_name(const IpAddress& address);

// The prefixes of IPv6 addresses, in nibbles, whose names the registry counts in the declared
// reverse zones: all of the first 64 bits, then every third, so that a name between two of them has
// at most 256 counted names below it.
constexpr bool is_counted_prefix(std::size_t nibbles) {
  return nibbles <= 16 || (nibbles <= 30 && nibbles % 3 == 0);
}

// Returns the address under which limits per client count `client`: an IPv4 address itself, of an
// IPv6 address its /64.  One host can send from every address of its /64 (RFC 7217, RFC 8981), so
// that a limit per address would be none.
constexpr IpAddress limit_key_of(const IpAddress& client) {
  if (client.is_v4()) return client;
  constexpr std::size_t kNetworkOctets = 8;
  std::array<std::uint8_t, 16> network{};
  for (std::size_t i = 0; i < kNetworkOctets; ++i) network[i] = client.octets()[i];
  return IpAddress::v6(network);
}

}  // namespace meshdns

template <>
struct std::hash<meshdns::IpAddress> {
  std::size_t operator()(const meshdns::IpAddress& a) const noexcept {
    std::uint64_t hi;
    std::uint64_t lo;
    std::memcpy(&hi, a.octets().data(), 8);
    std::memcpy(&lo, a.octets().data() + 8, 8);
    using namespace meshdns::hash_detail;
    return mix(hi ^ kKey.mask, lo ^ kKey.seed);
  }
};
