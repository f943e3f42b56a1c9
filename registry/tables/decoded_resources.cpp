// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/decoded_resources.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace meshdns::registry {
namespace {

// More than Istio gives one host: an address of each family.
constexpr std::size_t kFewStatusAddresses = 4;

bool is_used_often(const Resource& resource) {
  if (const auto* entry = std::get_if<ServiceEntry>(&resource))
    return entry->hosts.size() > 1 || entry->status_addresses.size() > kFewStatusAddresses;
  return std::holds_alternative<WorkloadEntry>(resource) || std::holds_alternative<Pod>(resource);
}

// Strings and vectors take about as much again as their text.
std::size_t octets_of(const StoredResource& stored) {
  return sizeof(DecodedResource) + 2 * stored.encoded().size();
}

}  // namespace

const std::vector<StatusAddress>& DecodedResource::statuses() const {
  return std::get<ServiceEntry>(resource_).status_addresses;
}

void DecodedResource::make_index() const {
  const auto& all = statuses();
  if (by_host_.size() == all.size()) return;
  const auto& hosts = std::get<ServiceEntry>(resource_).hosts;
  hosts_.assign(hosts.begin(), hosts.end());
  std::ranges::sort(hosts_);
  by_host_.resize(all.size());
  std::iota(by_host_.begin(), by_host_.end(), 0);
  by_address_ = by_host_;
  std::ranges::stable_sort(by_host_, {},
                           [&](std::uint32_t i) -> const auto& { return all[i].host; });
  std::ranges::sort(by_address_, {},
                    [&](std::uint32_t i) { return std::tie(all[i].value, all[i].host); });
}

std::vector<std::uint32_t> DecodedResource::statuses_of(std::string_view host) const {
  make_index();
  std::vector<std::uint32_t> found;
  for (const std::string_view each : {std::string_view(), host}) {
    const auto range = std::ranges::equal_range(
        by_host_, each, {}, [&](std::uint32_t i) { return std::string_view(statuses()[i].host); });
    found.insert(found.end(), range.begin(), range.end());
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::string_view> DecodedResource::hosts_with(const IpAddress& address) const {
  make_index();
  std::vector<std::string_view> hosts;
  for (const std::uint32_t i : std::ranges::equal_range(
           by_address_, address, {}, [&](std::uint32_t at) { return statuses()[at].value; }))
    hosts.emplace_back(statuses()[i].host);
  return hosts;
}

bool DecodedResource::gives(const IpAddress& address, std::string_view host) const {
  make_index();
  const auto has = [&](std::string_view of) {
    return std::ranges::binary_search(
        by_address_, std::pair(address, of), {}, [&](std::uint32_t i) {
          return std::pair(statuses()[i].value, std::string_view(statuses()[i].host));
        });
  };
  return has(host) || (has("") && std::ranges::binary_search(hosts_, host));
}

DecodedRef DecodedResources::of(const StoredRef& stored) {
  if (const auto kept = kept_.find(stored.get()); kept != kept_.end()) return kept->second;
  auto decoded = std::make_shared<const DecodedResource>(stored);
  if (!is_used_often(decoded->resource())) return decoded;
  octets_ += octets_of(*stored);
  if (octets_ > kMaxOctets) {
    kept_.clear();
    octets_ = octets_of(*stored);
  }
  kept_.emplace(stored.get(), decoded);
  return decoded;
}

void DecodedResources::clear() {
  kept_.clear();
  octets_ = 0;
}

}  // namespace meshdns::registry
