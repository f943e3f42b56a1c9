// SPDX-License-Identifier: Apache-2.0
// Addresses that no answer from outside may have (upstream.deny_answers): protection from DNS
// rebinding, in which an outside name leads a client to an address inside.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "resolver/settings.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {

// IPv4 addresses inside of IPv6 ones.
// The positions of the four bytes of an IPv4 address in an IPv6 address with a translation prefix
// of `length` bits (RFC 6052, section 2.2).  REQUIRES: 32, 40, 48, 56, 64 or 96.
std::array<std::size_t, 4> embedded_octets(unsigned length);

// The IPv4 address that `address` carries in these octets.
IpAddress embedded_ipv4(const IpAddress& address, const std::array<std::size_t, 4>& octets);

// A value; any thread may read it.
class DeniedAddresses {
 public:
  DeniedAddresses() = default;
  // `nat64`: the prefix that a NAT64 of this network translates (RFC 6052); nullopt = none.
  explicit DeniedAddresses(std::vector<IpPrefix> prefixes,
                           std::optional<IpPrefix> nat64 = std::nullopt)
      : prefixes_(std::move(prefixes)), nat64_(nat64) {}

  bool empty() const { return prefixes_.empty(); }
  // Returns whether `address` is in one of the prefixes, or leads to an IPv4 address that is:
  // IPv4-mapped and IPv4-compatible addresses (RFC 4291), IPv4-translated ones (RFC 2765), NAT64
  // (RFC 6052, RFC 8215 and our own prefix), 6to4 (RFC 3056), Teredo (RFC 4380), ISATAP (RFC 5214).
  bool contains(const IpAddress& address) const;
  // Returns whether a record has such an address: A, AAAA, and the hints of SVCB and HTTPS (RFC
  // 9460, section 7.3: a client may connect to them before it asks for any address).  Any rdata is
  // safe.
  bool has_record(wire::Type type, std::string_view rdata) const;

  friend bool operator==(const DeniedAddresses&, const DeniedAddresses&) = default;

 private:
  bool is_in_prefix(const IpAddress& address) const;
  bool has_hint(std::string_view rdata) const;

  std::vector<IpPrefix> prefixes_;
  std::optional<IpPrefix> nat64_;
};

// The rule for all names: the addresses, and the zones that are exempt.  A value.
class DeniedAnswers {
 public:
  DeniedAnswers() = default;
  // A zone of `upstream.zones` is known to the operator: its private addresses are meant.  That of
  // a link is not, since any network may announce it.
  explicit DeniedAnswers(const UpstreamConfig& upstream);

  bool empty() const { return addresses_.empty(); }
  const DeniedAddresses& addresses() const { return addresses_; }
  // As the longest zone that `wire_name` (lower case) is in says.
  bool is_exempt(std::string_view wire_name) const;

  friend bool operator==(const DeniedAnswers&, const DeniedAnswers&) = default;

 private:
  DeniedAddresses addresses_;
  std::map<std::string, bool, std::less<>> zones_;  // lower-case wire form -> exempt
};

}  // namespace meshdns::dnsd
