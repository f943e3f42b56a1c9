// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/local_names.hpp"

#include <algorithm>
#include <array>

#include "dnsd/answer/dns64.hpp"
#include "dnsd/answer/reverse_zone.hpp"
#include "registry/base/each_once.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::string_view kLocalhost = "localhost";

Decision decide_localhost(wire::Type type) {
  Decision decision{
      .verdict = Verdict::NoData, .zone = kLocalhost, .why = "localhost is this host (RFC 6761)"};
  if (type == wire::Type::Any) {
    decision.verdict = Verdict::Minimal;
  } else if (type == wire::Type::A) {
    decision.verdict = Verdict::Address;
    decision.address = IpAddress::v4({127, 0, 0, 1});
  } else if (type == wire::Type::Aaaa) {
    std::array<std::uint8_t, 16> octets{};
    octets[15] = 1;
    decision.verdict = Verdict::Address;
    decision.address = IpAddress::v6(octets);
  }
  return decision;
}

}  // namespace

bool is_special_name(std::string_view name) {
  // Nearly all names are dismissed by their last two letters.
  if (name.size() < 3) return false;
  const std::string_view end = name.substr(name.size() - 2);
  if (end != "st" && end != "id" && end != "on" && end != "lt") return false;
  return !special_zone_of(name).empty();
}

Decision decide_special(const Asked& asked) {
  const std::string_view zone = special_zone_of(asked.name);
  if (zone == kLocalhost) return decide_localhost(asked.type);
  return {.verdict = Verdict::NxDomain,
          .zone = zone,
          .why = "special-use name, never forwarded (RFC 6761, 7686, 9476)"};
}

namespace {

using wire::Type;

constexpr std::string_view kHosts = "the hosts file (hosts.file)";
constexpr std::string_view kIpv4Only = "ipv4only.arpa";
constexpr std::string_view kWhyIpv4Only = "the name that tells the prefix of DNS64 (RFC 8880)";
constexpr std::string_view kOverride = "overridden by the configuration (overrides)";

template <typename Value>
void add_once(std::vector<Value>& values, const Value& value) {
  if (std::ranges::find(values, value) == values.end()) values.push_back(value);
}

bool has_family(const LocalEntry& entry, Type type) {
  return std::ranges::any_of(entry.addresses, [&](const IpAddress& address) {
    return address.is_v4() == (type == Type::A);
  });
}

// The addresses of a name as an answer to `type`.  `zone`: whose SOA says that there are none.
Decision decide_entry(const LocalEntry& entry, Type type, std::string_view zone,
                      std::string_view why) {
  Decision decision{.verdict = Verdict::NoData, .zone = zone, .why = why, .local = &entry};
  if (type == Type::Any) decision.verdict = Verdict::Minimal;
  if ((type == Type::A || type == Type::Aaaa) && has_family(entry, type))
    decision.verdict = Verdict::LocalAddresses;
  return decision;
}

// Types that say where the name's addresses are, or might.
bool concerns_addresses(Type type) {
  return type == Type::A || type == Type::Aaaa || type == Type::Any || type == Type::Cname ||
         type == Type::Https || type == Type::Svcb;
}

}  // namespace

LocalNames::LocalNames(const HostsFile& hosts, const std::map<std::string, Override>& overrides,
                       const std::optional<IpPrefix>& dns64) {
  if (dns64) add_ipv4only(*dns64);
  for (const HostsFile::Entry& line : hosts.entries)
    for (const std::string& name : line.names) {
      add_once(by_name_[name].addresses, line.address);
      // Lists of blocked names have the unspecified address a hundred thousand times.
      if (!line.address.is_unspecified()) add_once(by_address_[line.address].names, name);
    }
  for (const auto& [suffix, value] : overrides)
    overrides_.emplace(suffix, Overriding{value.action, {value.addresses, {}}});
  for (const auto& [name, entry] : by_name_) note_ancestors(name);
  for (const auto& [address, entry] : by_address_) note_ancestors(reverse_name(address));
  for (const auto& [suffix, overriding] : overrides_)
    if (overriding.action == OverrideAction::Addresses) note_ancestors(suffix);
  sort_each_once(ancestors_);
  ancestors_.shrink_to_fit();
}

// RFC 8880, section 7: clients learn the prefix from this name, so the answers are those of our
// prefix, whatever an upstream translates.
void LocalNames::add_ipv4only(const IpPrefix& dns64) {
  ipv4only_.emplace();
  for (const auto& well_known :
       {IpAddress::v4({192, 0, 0, 170}), IpAddress::v4({192, 0, 0, 171})}) {
    ipv4only_->addresses.push_back(well_known);
    ipv4only_->addresses.push_back(translate(dns64, well_known));
    by_address_[well_known].names.emplace_back(kIpv4Only);
  }
}

void LocalNames::note_ancestors(std::string_view name) {
  for (name = parent_of(name); !name.empty(); name = parent_of(name))
    ancestors_.push_back(hash_bytes(name));
}

bool LocalNames::has_name_below(std::string_view name) const {
  return std::ranges::binary_search(ancestors_, hash_bytes(name));
}

std::optional<Decision> LocalNames::decide(const Asked& asked) const {
  if (auto host = decide_host(asked)) return host;
  if (auto pointer = decide_pointer(asked)) return pointer;
  if (auto overriding = decide_override(asked)) return overriding;
  return decide_ipv4only(asked);
}

std::optional<Decision> LocalNames::decide_ipv4only(const Asked& asked) const {
  if (!ipv4only_ || !is_at_or_below(asked.name, kIpv4Only)) return {};
  if (asked.name == kIpv4Only) return decide_entry(*ipv4only_, asked.type, kIpv4Only, kWhyIpv4Only);
  return Decision{.verdict = Verdict::NxDomain, .zone = kIpv4Only, .why = kWhyIpv4Only};
}

std::optional<Decision> LocalNames::decide_host(const Asked& asked) const {
  if (by_name_.empty() || !concerns_addresses(asked.type)) return {};
  const auto found = by_name_.find(asked.name);
  if (found == by_name_.end()) return {};
  return decide_entry(found->second, asked.type, {}, kHosts);
}

std::optional<Decision> LocalNames::decide_pointer(const Asked& asked) const {
  if (by_address_.empty()) return {};
  const auto address = parse_reverse_name(asked.name);
  if (!address || address->missing != 0) return {};
  const auto found = by_address_.find(address->address);
  if (found == by_address_.end()) return {};
  const Verdict verdict = asked.type == Type::Ptr   ? Verdict::LocalPointers
                          : asked.type == Type::Any ? Verdict::Minimal
                                                    : Verdict::NoData;
  return Decision{.verdict = verdict, .why = kHosts, .local = &found->second};
}

// The longest suffix wins.
std::optional<Decision> LocalNames::decide_override(const Asked& asked) const {
  if (overrides_.empty()) return {};
  for (std::string_view name = asked.name; !name.empty(); name = parent_of(name)) {
    const auto found = overrides_.find(name);
    if (found == overrides_.end()) continue;
    const Overriding& overriding = found->second;
    if (overriding.action == OverrideAction::Addresses)
      return decide_entry(overriding.entry, asked.type, found->first, kOverride);
    return Decision{.verdict = overriding.action == OverrideAction::NxDomain ? Verdict::Denied
                                                                             : Verdict::Refused,
                    .zone = found->first,
                    .why = kOverride};
  }
  return {};
}

}  // namespace meshdns::dnsd
