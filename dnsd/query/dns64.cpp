#include "dnsd/query/dns64.hpp"

#include <algorithm>
#include <array>

#include "dnsd/query/reverse_zone.hpp"
#include "dnsd/wire/octets.hpp"

namespace meshdns::dnsd {
namespace {

using wire::ResponseRecord;
using wire::Type;

// RFC 6147, section 5.1.7: where no SOA says anything.
constexpr std::uint32_t kTtlWithoutSoa = 600;

// Octet 8 stays zero (RFC 6052, section 2.2).
constexpr std::size_t kUnusedOctet = 8;

// Where in an IPv6 address the four octets lie.
std::array<std::size_t, 4> places(const IpPrefix& prefix) {
  std::array<std::size_t, 4> at;
  std::size_t next = prefix.length / 8U;
  for (std::size_t& place : at) {
    if (next == kUnusedOctet) ++next;
    place = next++;
  }
  return at;
}

bool is_signature_of_a(const ResponseRecord& record) {
  return record.type == Type::Rrsig && record.rdata.size() >= 2 &&
         wire::load_u16(reinterpret_cast<const std::uint8_t*>(record.rdata.data())) ==
             static_cast<std::uint16_t>(Type::A);
}

// ::ffff:0:0/96 is no address to connect to (RFC 6147, section 5.1.4).
bool is_mapped(const ResponseRecord& record) {
  static constexpr std::string_view kMapped("\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
  return record.rdata.size() == 16 && record.rdata.starts_with(kMapped);
}

}  // namespace

IpAddress translate(const IpPrefix& prefix, const IpAddress& address) {
  std::array<std::uint8_t, 16> octets{};
  std::copy_n(prefix.address.octets().begin(), prefix.length / 8U, octets.begin());
  const std::array<std::size_t, 4> at = places(prefix);
  for (std::size_t i = 0; i < at.size(); ++i) octets[at[i]] = address.octets()[12 + i];
  return IpAddress::v6(octets);
}

std::optional<IpAddress> translate_back(const IpPrefix& prefix, const IpAddress& address) {
  if (!prefix.contains(address)) return std::nullopt;
  std::array<std::uint8_t, 4> octets;
  const std::array<std::size_t, 4> at = places(prefix);
  for (std::size_t i = 0; i < at.size(); ++i) octets[i] = address.octets()[at[i]];
  const IpAddress v4 = IpAddress::v4(octets);
  if (translate(prefix, v4) != address) return std::nullopt;
  return v4;
}

bool wants_translation(const wire::QueryMessage& query) {
  const bool validates = query.has_edns && query.edns.dnssec_ok && query.checking_disabled;
  return query.qtype == Type::Aaaa && !validates;
}

bool lacks_ipv6(const CachedMessage& message, Millis now) {
  if (message.kind() == MessageKind::Failure) return !message.is_unreachable();
  if (message.kind() == MessageKind::Negative) return message.is_nodata();
  const auto records = message.expand(now, Freshness::Fresh).answer;
  return std::ranges::none_of(records, [](const ResponseRecord& record) {
    return record.type == Type::Aaaa && !is_mapped(record);
  });
}

std::uint32_t translated_ttl(const CachedMessage& denial, Millis now) {
  if (denial.kind() == MessageKind::Failure) return kTtlWithoutSoa;
  for (const ResponseRecord& record : denial.expand(now, Freshness::Fresh).authority)
    if (record.type == Type::Soa) return record.ttl;
  return kTtlWithoutSoa;
}

void translate_answer(const IpPrefix& prefix, std::uint32_t max_ttl,
                      wire::ResponseMessage& message) {
  std::erase_if(message.answer, is_signature_of_a);
  for (ResponseRecord& record : message.answer) {
    if (record.type != Type::A || record.rdata.size() != 4) continue;
    std::array<std::uint8_t, 4> octets;
    std::ranges::copy(record.rdata, octets.begin());
    const IpAddress address = translate(prefix, IpAddress::v4(octets));
    record.type = Type::Aaaa;
    record.ttl = std::min(record.ttl, max_ttl);
    record.rdata.assign(address.octets().begin(), address.octets().end());
  }
}

std::string translated_pointer(const IpPrefix& prefix, std::string_view name) {
  if (!name.ends_with("ip6.arpa")) return {};
  const auto reverse = parse_reverse_name(name);
  if (!reverse || reverse->missing != 0) return {};
  const auto v4 = translate_back(prefix, reverse->address);
  if (!v4) return {};
  std::string text;
  for (std::size_t i = 4; i > 0; --i) text += std::to_string(v4->octets()[11 + i]) + ".";
  return text + "in-addr.arpa";
}

}  // namespace meshdns::dnsd
