// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/special_names.hpp"

#include <array>

#include "registry/base/special_names.hpp"

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

}  // namespace meshdns::dnsd
