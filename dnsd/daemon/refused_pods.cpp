// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/refused_pods.hpp"

#include <algorithm>
#include <bit>

#include "dnsd/answer/query_settings.hpp"

namespace meshdns::dnsd {
namespace {

// So many take no time.
constexpr std::size_t kFew = 1'000;
// The largest range that is named: more than one Pod network has little in common.
constexpr std::uint8_t kShortest = 8;
// The range of one Pod: what a node usually has.
constexpr std::uint8_t kOfOneIpv4 = 24;
constexpr std::uint8_t kOfOneIpv6 = 64;

std::uint8_t common_length(const IpAddress& a, const IpAddress& b) {
  int bits = 0;
  for (std::size_t i = 0; i < a.octets().size(); ++i) {
    const int same = std::countl_zero(static_cast<std::uint8_t>(a.octets()[i] ^ b.octets()[i]));
    bits += same;
    if (same < 8) break;
  }
  return static_cast<std::uint8_t>(a.is_v4() ? bits - 96 : bits);
}

void widen(IpPrefix& range, const IpAddress& address) {
  if (range.address.is_v4() != address.is_v4()) return;
  const std::uint8_t length = std::min(range.length, common_length(range.address, address));
  if (length >= kShortest) range.length = length;
}

}  // namespace

RefusedPods::Found RefusedPods::find(const registry::Snapshot& snapshot,
                                     const std::vector<IpPrefix>& allow) {
  const AccessList allowed(allow);
  Found found;
  snapshot.clients.for_each([&](const registry::ClientEntry& entry) {
    if (!entry.client || allowed.contains(entry.address)) return;
    const std::string& description = entry.client->identity.description;
    if (!description.starts_with("Pod ")) return;
    if (found.count++ == 0) {
      found.first = description + " at " + entry.address.to_string();
      found.range = {entry.address, entry.address.is_v4() ? kOfOneIpv4 : kOfOneIpv6};
    }
    widen(found.range, entry.address);
  });
  found.range = found.range.network();
  return found;
}

std::string RefusedPods::describe(const Found& found) {
  if (found.count == 0) return {};
  return "server.allow: refuses the queries of " + std::to_string(found.count) +
         (found.count == 1 ? " Pod: " : " Pods; one of them: ") + found.first + "; add " +
         found.range.to_string() + ", or the range of the Pods";
}

void RefusedPods::observe(const registry::Snapshot& snapshot, const std::vector<IpPrefix>& allow,
                          Time now) {
  if (allow == allow_ && (snapshot.generation == generation_ || now < look_again_at_)) return;
  generation_ = snapshot.generation;
  allow_ = allow;
  if (snapshot.clients.size() > kFew) look_again_at_ = now + kPause;
  trouble_ = describe(find(snapshot, allow));
}

}  // namespace meshdns::dnsd
