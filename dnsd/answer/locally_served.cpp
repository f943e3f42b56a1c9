// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/locally_served.hpp"

#include <algorithm>
#include <array>

#include "dnsd/answer/known_names.hpp"
#include "dnsd/config/values.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

using wire::Type;

constexpr std::string_view kResolverArpa = "resolver.arpa";

// home.arpa (RFC 8375) and service.arpa (RFC 9665) are not among them: the upstream of a host is
// often the home's own resolver, which has these names.
constexpr auto kServed = std::to_array<std::string_view>({
    "0.0.0.0/8",           // RFC 1122
    "10.0.0.0/8",          // RFC 1918
    "100.64.0.0/10",       // RFC 6598, RFC 7793
    "127.0.0.0/8",         // loopback
    "169.254.0.0/16",      // link-local
    "172.16.0.0/12",       // RFC 1918
    "192.0.2.0/24",        // documentation (RFC 5737)
    "192.168.0.0/16",      // RFC 1918
    "198.51.100.0/24",     // documentation
    "203.0.113.0/24",      // documentation
    "255.255.255.255/32",  // broadcast
    "::/128",              // unspecified
    "::1/128",             // loopback
    "2001:db8::/32",       // documentation (RFC 3849)
    "3fff::/20",           // documentation (RFC 9637)
    "fd00::/8",            // unique local, locally assigned (RFC 4193)
    "fe80::/10",           // link-local
    kResolverArpa,
});

}  // namespace

std::vector<std::string> locally_served_zones() {
  std::vector<std::string> zones;
  for (const std::string_view served : kServed) {
    const auto names = parse_zones(served);
    zones.insert(zones.end(), names->begin(), names->end());
  }
  std::ranges::sort(zones);
  return zones;
}

LocallyServedZones::LocallyServedZones(const UpstreamConfig& config) {
  if (config.locally_served_zones == LocallyServed::Answer) zones_ = locally_served_zones();
  for (const auto& [zone, servers] : config.zones)
    if (is_at_or_below(zone, "arpa")) forwarded_.push_back(zone);
}

std::string_view LocallyServedZones::zone_of(std::string_view name) const {
  std::string_view zone;
  for (; !name.empty(); name = parent_of(name)) {
    if (std::ranges::find(forwarded_, name) != forwarded_.end()) return {};
    const auto found = std::ranges::lower_bound(zones_, name);
    if (found != zones_.end() && *found == name) zone = *found;
  }
  return zone;
}

bool LocallyServedZones::is_above_forwarded(std::string_view name) const {
  return std::ranges::any_of(forwarded_,
                             [&](const std::string& zone) { return is_below(zone, name); });
}

std::optional<Decision> LocallyServedZones::decide_arpa(const registry::View& view,
                                                        const Asked& asked) const {
  const std::string_view zone = zone_of(asked.name);
  if (zone.empty()) return {};
  Decision decision{.verdict = Verdict::NxDomain,
                    .is_empty_zone = true,
                    .zone = zone,
                    .why =
                        "a reverse name of private or special addresses, never forwarded "
                        "(RFC 6303; upstream.locally_served_zones)"};
  const bool is_apex = asked.name == zone;
  // RFC 9462, section 4: NODATA says that there is no designated resolver.
  const bool is_resolver = zone == kResolverArpa;
  if (is_resolver) decision.why = "resolver.arpa is never forwarded (RFC 9462)";
  if (is_apex || is_resolver || is_above_forwarded(asked.name) || has_known_name_below(view, asked))
    decision.verdict = Verdict::NoData;
  if (asked.type == Type::Any && decision.verdict == Verdict::NoData)
    decision.verdict = Verdict::Minimal;
  if (is_apex && asked.type == Type::Soa) decision.verdict = Verdict::ZoneSoa;
  if (is_apex && asked.type == Type::Ns) decision.verdict = Verdict::ZoneNs;
  return decision;
}

}  // namespace meshdns::dnsd
