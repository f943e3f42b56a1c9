// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/vip_allocator.hpp"

#include <array>
#include <cstdio>

#include "registry/base/durable_file.hpp"
#include "registry/base/hash.hpp"

namespace meshdns::registry {
namespace {

constexpr std::uint32_t kSlots = 256 * 254;
constexpr std::uint32_t kPrime = 65011;  // the largest prime below kSlots

// The octets without padding, the third left out when it is zero: two pairs of octets may give one
// text.  That is Istio's, and agreement is the point.
IpAddress v6_of(std::uint32_t third, std::uint32_t fourth) {
  std::array<char, 32> text{};
  if (third == 0)
    std::snprintf(text.data(), text.size(), "2001:2::f0f0:%x", fourth);
  else
    std::snprintf(text.data(), text.size(), "2001:2::f0f0:%x%x", third, fourth);
  return *IpAddress::parse(text.data());
}

}  // namespace

std::vector<const VipRequest*> HashVips::granted(const std::vector<VipRequest>& requests) {
  std::vector<const VipRequest*> result;
  TextMap<std::uint32_t> counts;
  std::string over_quota;  // a namespace
  for (const VipRequest& request : requests) {
    if (namespace_quota_ != 0 && ++counts[request.ns] > namespace_quota_)
      over_quota = request.ns;
    else
      result.push_back(&request);
  }
  const bool is_full = result.size() > kSlots - 1;
  if (is_full) result.resize(kSlots - 1);
  if (report_ && is_full && !said_full_)
    report_(
        "the range of mesh.auto_allocate: hash is full: hosts have no VIP; use persistent and "
        "a wider range");
  if (report_ && !over_quota.empty() && !said_over_quota_)
    report_("namespace " + over_quota + " has reached its quota of " +
            std::to_string(namespace_quota_) +
            " VIPs: further hosts have none; raise mesh.vip_namespace_quota");
  said_full_ = is_full;
  said_over_quota_ = !over_quota.empty();
  return result;
}

std::vector<VipAssignment> HashVips::assign(const std::vector<VipRequest>& requests,
                                            const std::vector<IpAddress>&) {
  if (requests.empty()) return {};
  std::vector<const VipRequest*> slots(kSlots, nullptr);
  for (const VipRequest* const request : granted(requests)) {
    const std::uint32_t s = stable_hash32(request->ns + "/" + request->host);
    std::uint32_t slot = s % kSlots;
    // The probe's modulus differs from the first step's by one, and the arithmetic wraps at 32
    // bits.
    for (std::uint32_t i = 1; slots[slot] != nullptr && i < 4 * kSlots; ++i)
      slot = (s + i * (kPrime - (s % kPrime))) % (kSlots - 1);
    if (slots[slot] == nullptr) slots[slot] = request;
  }
  std::vector<VipAssignment> assigned;
  // A host of two entries holds two slots; its address is that of the first one on the walk.
  TextSet seen;
  std::uint32_t x = 0;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    ++x;
    if (slots[slot] == nullptr) continue;
    if (x % 255 == 0) ++x;  // kept: every later address moves by one
    if (!seen.insert(slots[slot]->ns + "/" + slots[slot]->host).second) continue;
    const std::uint32_t third = x / 255;
    const std::uint32_t fourth = x % 255;
    assigned.push_back({slots[slot]->ns, slots[slot]->host,
                        IpAddress::v4({240, 240, static_cast<std::uint8_t>(third),
                                       static_cast<std::uint8_t>(fourth)}),
                        v6_of(third, fourth)});
  }
  return assigned;
}

}  // namespace meshdns::registry
