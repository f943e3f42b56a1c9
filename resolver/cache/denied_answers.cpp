// SPDX-License-Identifier: Apache-2.0
#include "resolver/cache/denied_answers.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "resolver/cache/asked_servers.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd {

std::array<std::size_t, 4> embedded_octets(unsigned length) {
  // Octet 8 stays zero.
  constexpr std::size_t kUnusedOctet = 8;
  std::array<std::size_t, 4> octets;
  std::size_t next = length / 8U;
  for (std::size_t& octet : octets) {
    if (next == kUnusedOctet) ++next;
    octet = next++;
  }
  return octets;
}

IpAddress embedded_ipv4(const IpAddress& address, const std::array<std::size_t, 4>& octets) {
  std::array<std::uint8_t, 4> v4;
  for (std::size_t i = 0; i < v4.size(); ++i) v4[i] = address.octets()[octets[i]];
  return IpAddress::v4(v4);
}

namespace {

using wire::Type;
using Octets = std::array<std::uint8_t, 16>;
using Places = std::array<std::size_t, 4>;

constexpr Places kLast = {12, 13, 14, 15};
constexpr Places kBehind16Bits = {2, 3, 4, 5};
constexpr Places kBehind32Bits = {4, 5, 6, 7};

bool begins_with(const Octets& octets, std::initializer_list<std::uint8_t> prefix) {
  return std::equal(prefix.begin(), prefix.end(), octets.begin());
}

// The address that is hidden in the last four octets of a Teredo address, each bit inverted.
IpAddress teredo_client(const Octets& octets) {
  std::array<std::uint8_t, 4> v4;
  for (std::size_t i = 0; i < 4; ++i) v4[i] = static_cast<std::uint8_t>(~octets[12 + i]);
  return IpAddress::v4(v4);
}

bool is_isatap(const Octets& octets) {
  return (octets[8] & 0xfd) == 0 && octets[9] == 0 && octets[10] == 0x5e && octets[11] == 0xfe;
}

// Octets 0 to 11 of addresses whose last four are an IPv4 address.
bool ends_with_ipv4(const Octets& octets) {
  return begins_with(octets, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) ||
         begins_with(octets, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}) ||
         begins_with(octets, {0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0}) ||
         begins_with(octets, {0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0}) || is_isatap(octets);
}

bool is_this_network(const IpAddress& v4) { return v4.octets()[12] == 0; }

// Calls `visit` for each IPv4 address that an IPv6 address may lead to.
template <typename Visit>
void for_each_embedded(const IpAddress& address, const std::optional<IpPrefix>& nat64,
                       const Visit& visit) {
  const Octets& octets = address.octets();
  if (ends_with_ipv4(octets)) visit(embedded_ipv4(address, kLast));
  if (begins_with(octets, {0x20, 0x02})) visit(embedded_ipv4(address, kBehind16Bits));
  if (begins_with(octets, {0x20, 0x01, 0, 0})) {
    visit(embedded_ipv4(address, kBehind32Bits));  // the Teredo server
    visit(teredo_client(octets));
  }
  if (nat64 && nat64->contains(address))
    visit(embedded_ipv4(address, embedded_octets(nat64->length)));
  // RFC 8215: networks divide this prefix as they like.  The zeros of a longer prefix look like
  // 0.0.0.0/8 to a shorter one, which leads nowhere.
  if (begins_with(octets, {0, 0x64, 0xff, 0x9b, 0, 1})) {
    visit(embedded_ipv4(address, kLast));
    for (const unsigned length : {48U, 56U, 64U}) {
      const IpAddress v4 = embedded_ipv4(address, embedded_octets(length));
      if (!is_this_network(v4)) visit(v4);
    }
  }
}

IpAddress address_at(std::string_view octets) {
  if (octets.size() == 4) {
    std::array<std::uint8_t, 4> v4;
    std::ranges::copy(octets, v4.begin());
    return IpAddress::v4(v4);
  }
  Octets v6;
  std::ranges::copy(octets, v6.begin());
  return IpAddress::v6(v6);
}

std::uint16_t load_first_u16(std::string_view octets) {
  return wire::load_u16(reinterpret_cast<const std::uint8_t*>(octets.data()));
}

std::string_view without_front(std::string_view octets, std::size_t size) {
  return octets.substr(std::min(size, octets.size()));
}

}  // namespace

bool DeniedAddresses::is_in_prefix(const IpAddress& address) const {
  return std::ranges::any_of(prefixes_,
                             [&](const IpPrefix& prefix) { return prefix.contains(address); });
}

bool DeniedAddresses::contains(const IpAddress& address) const {
  if (empty()) return false;
  if (is_in_prefix(address)) return true;
  if (address.is_v4()) return false;
  bool found = false;
  for_each_embedded(address, nat64_, [&](const IpAddress& v4) { found |= is_in_prefix(v4); });
  return found;
}

bool DeniedAddresses::has_record(Type type, std::string_view rdata) const {
  if (empty()) return false;
  switch (type) {
    case Type::A:
      return rdata.size() == 4 && contains(address_at(rdata));
    case Type::Aaaa:
      return rdata.size() == 16 && contains(address_at(rdata));
    case Type::Svcb:
    case Type::Https:
      return has_hint(rdata);
    default:
      return false;
  }
}

bool DeniedAddresses::has_hint(std::string_view rdata) const {
  constexpr std::uint16_t kIpv4Hint = 4;
  constexpr std::uint16_t kIpv6Hint = 6;
  std::string_view rest = without_front(rdata, 2);  // the priority
  while (!rest.empty() && rest[0] != 0)
    rest = without_front(rest, 1u + static_cast<unsigned char>(rest[0]));
  rest = without_front(rest, 1);
  while (rest.size() >= 4) {
    const std::uint16_t key = load_first_u16(rest);
    std::string_view value = rest.substr(4, load_first_u16(rest.substr(2)));
    rest.remove_prefix(4 + value.size());
    const std::size_t size = key == kIpv4Hint ? 4 : key == kIpv6Hint ? 16 : value.size() + 1;
    for (; value.size() >= size; value.remove_prefix(size))
      if (contains(address_at(value.substr(0, size)))) return true;
  }
  return false;
}

DeniedAnswers::DeniedAnswers(const UpstreamConfig& upstream)
    : addresses_(upstream.deny_answers, upstream.nat64) {
  if (empty()) return;
  for (const auto& [zone, servers] : upstream.zones)
    zones_.emplace(wire::wire_from_host(zone), !upstream.link_zones.contains(zone));
}

bool DeniedAnswers::is_exempt(std::string_view wire_name) const {
  const bool* const exempt = find_zone(zones_, wire_name);
  return exempt != nullptr && *exempt;
}

}  // namespace meshdns::dnsd
