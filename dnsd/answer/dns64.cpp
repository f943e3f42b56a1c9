// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/dns64.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "dnsd/answer/reverse_zone.hpp"
#include "resolver/cache/denied_answers.hpp"
#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd {
namespace {

using wire::Type;

// RFC 6147, section 5.1.7: where no SOA says anything.
constexpr std::uint32_t kTtlWithoutSoa = 600;

// ::ffff:0:0/96 is no address to connect to (RFC 6147, section 5.1.4).
bool is_mapped(std::string_view rdata) {
  static constexpr std::string_view kMapped("\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
  return rdata.size() == 16 && rdata.starts_with(kMapped);
}

}  // namespace

IpAddress translate(const IpPrefix& prefix, const IpAddress& address) {
  std::array<std::uint8_t, 16> octets{};
  std::copy_n(prefix.address.octets().begin(), prefix.length / 8U, octets.begin());
  const std::array<std::size_t, 4> at = embedded_octets(prefix.length);
  for (std::size_t i = 0; i < at.size(); ++i) octets[at[i]] = address.octets()[12 + i];
  return IpAddress::v6(octets);
}

bool may_translate(const IpPrefix& prefix, const IpAddress& address) {
  static const IpPrefix kWellKnown = *IpPrefix::parse("64:ff9b::/96");
  // Prefixes of documentation are not in the list: no host has such an address, and the standards'
  // examples do.
  static const auto kNotGlobal = [] {
    std::vector<IpPrefix> prefixes;
    for (const std::string_view text :
         {"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
          "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"})
      prefixes.push_back(*IpPrefix::parse(text));
    return prefixes;
  }();
  if (prefix != kWellKnown) return true;
  return std::ranges::none_of(kNotGlobal,
                              [&](const IpPrefix& local) { return local.contains(address); });
}

std::optional<IpAddress> translate_back(const IpPrefix& prefix, const IpAddress& address) {
  const IpAddress v4 = embedded_ipv4(address, embedded_octets(prefix.length));
  if (translate(prefix, v4) != address) return std::nullopt;
  return v4;
}

bool wants_translation(const wire::QueryMessage& query) {
  const bool validates = query.has_edns && query.edns.dnssec_ok && query.checking_disabled;
  return query.qtype == Type::Aaaa && !validates;
}

bool lacks_ipv6(const CachedMessage& message) {
  if (message.kind() == MessageKind::Failure) return !message.is_unreachable();
  if (message.kind() == MessageKind::Negative) return message.is_nodata();
  for (std::size_t i = 0; i < message.answer_count(); ++i)
    if (message.record_type(i) == Type::Aaaa && !is_mapped(message.record_data(i))) return false;
  return true;
}

std::uint32_t translated_ttl(const CachedMessage& denial, Millis now) {
  for (std::size_t i = denial.answer_count(); i < denial.record_count(); ++i)
    if (denial.record_type(i) == Type::Soa) return denial.record_ttl(i, now, Freshness::Fresh);
  return kTtlWithoutSoa;
}

bool is_signature_of_a(Type type, std::string_view rdata) {
  return type == Type::Rrsig && rdata.size() >= 2 &&
         wire::load_u16(reinterpret_cast<const std::uint8_t*>(rdata.data())) ==
             static_cast<std::uint16_t>(Type::A);
}

std::string translated_pointer(const IpPrefix& prefix, std::string_view name) {
  const auto reverse = parse_reverse_name(name);
  if (!reverse || reverse->missing != 0) return {};
  const auto v4 = translate_back(prefix, reverse->address);
  if (!v4) return {};
  std::string text;
  for (std::size_t i = 4; i > 0; --i) text += std::to_string(v4->octets()[11 + i]) + ".";
  return text + "in-addr.arpa";
}

bool is_translated_or_above(const IpPrefix& prefix, std::string_view name) {
  const auto reverse = parse_reverse_name(name);
  if (!reverse) return false;
  if (reverse->missing == 0) return translate_back(prefix, reverse->address).has_value();
  const auto bits = static_cast<std::uint8_t>(4 * (32 - reverse->missing));
  return IpPrefix{prefix.address, std::min(bits, prefix.length)}.contains(reverse->address);
}

}  // namespace meshdns::dnsd
