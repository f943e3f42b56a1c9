// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/reverse_zone.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

#include "registry/base/host_name.hpp"
#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {
namespace {

using registry::View;

constexpr std::string_view kInAddrArpa = "in-addr.arpa";
constexpr std::string_view kIp6Arpa = "ip6.arpa";
// Addresses below a partial name that are looked up one by one to learn whether it exists.
constexpr unsigned kMaxProbes = 256;

// The labels in front of `zone`, without the dot between.
std::string_view in_front_of(std::string_view name, std::string_view zone) {
  if (name.size() == zone.size()) return {};
  return name.substr(0, name.size() - zone.size() - 1);
}

// Takes the last label off `labels`.
std::string_view take_last(std::string_view& labels) {
  const std::size_t dot = labels.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? labels : labels.substr(dot + 1);
  labels = dot == std::string_view::npos ? std::string_view{} : labels.substr(0, dot);
  return last;
}

std::optional<std::uint8_t> parse_octet(std::string_view label) {
  if (label.empty() || label.size() > 3 || (label.size() > 1 && label[0] == '0')) return {};
  unsigned value = 0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value);
  if (error != std::errc() || end != label.data() + label.size() || value > 255) return {};
  return static_cast<std::uint8_t>(value);
}

std::optional<std::uint8_t> parse_nibble(std::string_view label) {
  if (label.size() != 1) return {};
  const char c = label[0];
  if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
  return {};
}

std::optional<ReverseAddress> parse_v4(std::string_view labels) {
  std::array<std::uint8_t, 4> octets{};
  unsigned count = 0;
  while (!labels.empty()) {
    const auto octet = parse_octet(take_last(labels));
    if (!octet || count == octets.size()) return {};
    octets[count++] = *octet;
  }
  return ReverseAddress{IpAddress::v4(octets), static_cast<unsigned>(octets.size()) - count};
}

std::optional<ReverseAddress> parse_v6(std::string_view labels) {
  std::array<std::uint8_t, 16> octets{};
  unsigned count = 0;
  while (!labels.empty()) {
    const auto nibble = parse_nibble(take_last(labels));
    if (!nibble || count == 32) return {};
    octets[count / 2] |= static_cast<std::uint8_t>(count % 2 == 0 ? *nibble << 4 : *nibble);
    ++count;
  }
  return ReverseAddress{IpAddress::v6(octets), 32 - count};
}

// A name above too many addresses to look at each.  The registry counts those of IPv4 by their
// first 16 bits, and those of IPv6 by some prefixes: of the others, the names below are tried.
bool has_prefix_below(const View& view, std::string_view name, std::string_view zone,
                      const ReverseAddress& partial, bool is_v4) {
  if (zone.empty() || !is_below(name, zone)) return true;  // nobody counts there
  const unsigned nibbles = is_v4 ? 0 : 32 - partial.missing;
  unsigned more = 0;
  while (!is_counted_prefix(nibbles + more)) ++more;
  std::string below(std::size_t{2} * more, '.');
  below += name;
  for (unsigned i = 0; i < 1U << (4 * more); ++i) {
    for (unsigned label = 0; label < more; ++label)
      below[std::size_t{2} * label] = "0123456789abcdef"[i >> (4 * label) & 0xf];
    if (view.is_counted(below)) return true;
  }
  return false;
}

// Returns whether any address that the client may see begins like `partial`.  Where that would take
// more than kMaxProbes look-ups, or a look at too many hosts, the answer may be yes by mistake:
// NODATA instead of NXDOMAIN denies nothing that exists.
bool has_address_below(const View& view, std::string_view name, std::string_view zone,
                       const ReverseAddress& partial, bool is_v4) {
  const bool countable = is_v4 ? partial.missing == 1 : partial.missing <= 2;
  if (!countable) return has_prefix_below(view, name, zone, partial, is_v4);
  const unsigned probes = is_v4 || partial.missing == 2 ? kMaxProbes : 16;
  View::ReverseLooks looks;
  std::array<std::uint8_t, 16> octets = partial.address.octets();
  for (unsigned i = 0; i < probes; ++i) {
    const std::uint8_t front = partial.missing == 1 && !is_v4 ? octets[15] & 0xf0 : 0;
    octets[15] = static_cast<std::uint8_t>(front | i);
    if (view.has_reverse(IpAddress::v6(octets), looks) || looks.are_spent()) return true;
    octets[15] = front;
  }
  return false;
}

Decision decide_apex(const Asked& asked, Decision decision) {
  const bool soa = asked.type == wire::Type::Soa || asked.type == wire::Type::Any;
  decision.verdict = soa                            ? Verdict::ZoneSoa
                     : asked.type == wire::Type::Ns ? Verdict::ZoneNs
                                                    : Verdict::NoData;
  decision.why = "the apex of a declared reverse zone";
  return decision;
}

// The target of the apex's NS record, and the name above it.
std::optional<Decision> decide_server_name(const Asked& asked, Decision decision) {
  if (decision.zone.empty()) return {};
  const std::string_view labels = in_front_of(asked.name, decision.zone);
  if (labels != "ns.dns" && labels != "dns") return {};
  const bool found = labels == "ns.dns" &&
                     std::ranges::any_of(asked.server_addresses, [&](const IpAddress& address) {
                       return asked.type == (address.is_v4() ? wire::Type::A : wire::Type::Aaaa);
                     });
  decision.verdict = found ? Verdict::ServerAddresses : Verdict::NoData;
  decision.why = "the name server of a declared reverse zone";
  return decision;
}

Decision decide_known_address(const Asked& asked, Decision decision) {
  const bool pointer = asked.type == wire::Type::Ptr || asked.type == wire::Type::Any;
  decision.verdict = pointer ? Verdict::Pointers : Verdict::NoData;
  decision.why = pointer ? "the address is that of a known name"
                         : "a known address has PTR records and nothing else";
  return decision;
}

// A walk over so many hosts that the client sees that it ended before all were looked at, without a
// name.  Outside the mesh somebody else may know the address: objects that only claim it do not
// keep it from him.
Decision decide_cut_short(const View& view, Decision decision) {
  if (decision.zone.empty() && !view.is_assigned_address(decision.address)) return decision;
  decision.verdict = Verdict::Overworked;
  decision.why = "too many objects have the address";
  return decision;
}

}  // namespace

bool is_reverse_name(std::string_view name) {
  return name.ends_with(".arpa") &&
         (is_at_or_below(name, kInAddrArpa) || is_at_or_below(name, kIp6Arpa));
}

std::optional<ReverseAddress> parse_reverse_name(std::string_view name) {
  if (is_at_or_below(name, kInAddrArpa)) return parse_v4(in_front_of(name, kInAddrArpa));
  if (is_at_or_below(name, kIp6Arpa)) return parse_v6(in_front_of(name, kIp6Arpa));
  return {};
}

std::string_view reverse_zone_of(const View& view, std::string_view name) {
  std::string_view longest;
  for (const std::string& zone : view.settings().reverse_zones)
    if (zone.size() > longest.size() && is_at_or_below(name, zone)) longest = zone;
  return longest;
}

bool has_known_address_below(const View& view, std::string_view name) {
  const auto reverse = parse_reverse_name(name);
  return reverse && reverse->missing > 0 &&
         has_address_below(view, name, reverse_zone_of(view, name), *reverse,
                           is_at_or_below(name, kInAddrArpa));
}

Decision decide_reverse(const View& view, const Asked& asked) {
  Decision decision{.verdict = Verdict::NxDomain,
                    .zone = reverse_zone_of(view, asked.name),
                    .why = "no known address has this name"};
  if (asked.name == decision.zone) return decide_apex(asked, decision);
  if (const auto server = decide_server_name(asked, decision)) return *server;
  const auto reverse = parse_reverse_name(asked.name);
  if (!reverse) return decision;
  decision.address = reverse->address;
  if (reverse->missing == 0) {
    View::ReverseLooks looks;
    if (view.has_reverse(reverse->address, looks)) return decide_known_address(asked, decision);
    // The number of hidden ones has no say, or a tenant could make an address SERVFAIL.
    return looks.seen == 0 ? decide_cut_short(view, decision) : decision;
  }
  if (decision.zone.empty()) return decision;
  if (!has_address_below(view, asked.name, decision.zone, *reverse,
                         is_at_or_below(asked.name, kInAddrArpa)))
    return decision;
  decision.verdict = Verdict::NoData;
  decision.why = "known addresses lie below this name";
  return decision;
}

}  // namespace meshdns::dnsd
