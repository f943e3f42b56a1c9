#include <array>
#include <cstdint>
#include <cstdio>
#include <unordered_map>

#include "registry/vip/vip_allocator.hpp"

namespace meshdns::registry {
namespace {

constexpr std::uint32_t kSlots = 256 * 254;
constexpr std::uint32_t kPrime = 65011;  // the largest prime below kSlots

std::uint32_t fnv1a(std::string_view bytes) {
  std::uint32_t hash = 2166136261U;
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 16777619U;
  }
  return hash;
}

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

std::vector<VipAssignment> HashVips::assign(const std::vector<VipRequest>& requests,
                                            const std::vector<IpAddress>&) {
  if (requests.empty()) return {};
  std::vector<const VipRequest*> slots(kSlots, nullptr);
  std::unordered_map<std::string, bool> placed;
  for (const auto& request : requests) {
    const std::string key = request.ns + "/" + request.host;
    if (placed.size() >= kSlots - 1) break;  // full: the rest stays without, as in Istio
    if (!placed.emplace(key, true).second) continue;
    const std::uint32_t s = fnv1a(key);
    std::uint32_t slot = s % kSlots;
    // The probe's modulus differs from the first step's by one, and the arithmetic wraps at 32
    // bits.
    for (std::uint32_t i = 1; slots[slot] != nullptr && i < 4 * kSlots; ++i)
      slot = (s + i * (kPrime - (s % kPrime))) % (kSlots - 1);
    if (slots[slot] == nullptr) slots[slot] = &request;
  }
  std::vector<VipAssignment> assigned;
  assigned.reserve(placed.size());
  std::uint32_t x = 0;
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
    ++x;
    if (slots[slot] == nullptr) continue;
    if (x % 255 == 0) ++x;  // kept: every later address moves by one
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
