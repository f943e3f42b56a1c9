// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/flight_table.hpp"

#include <algorithm>

#include "registry/base/hash.hpp"
#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {
namespace {

// One client may take a quarter of all places, and one zone a half.
constexpr std::size_t kClientPart = 4;
constexpr std::size_t kZonePart = 2;

// The last two labels: "example.org" for all names below it.
std::string_view second_level_zone(std::string_view wire_name) {
  std::string_view zone = wire_name;
  std::string_view parent = wire_name;
  for (std::string_view rest = wire_name; rest.size() > 1;) {
    zone = parent;
    parent = rest;
    rest.remove_prefix(
        std::min(rest.size(), 1u + static_cast<std::size_t>(static_cast<unsigned char>(rest[0]))));
  }
  return zone;
}

template <typename Counts, typename Key>
void take_one(Counts& counts, const Key& key) {
  const auto at = counts.find(key);
  if (at != counts.end() && --at->second == 0) counts.erase(at);
}

template <typename Counts, typename Key>
std::size_t count_of(const Counts& counts, const Key& key) {
  const auto at = counts.find(key);
  return at == counts.end() ? 0 : at->second;
}

}  // namespace

FlightTable::Admission FlightTable::enter(std::string_view key, std::string_view wire_name,
                                          const IpAddress& client, const FlightDelivery& deliver) {
  const std::uint64_t zone = hash_bytes(second_level_zone(wire_name));
  const IpAddress limit_key = limit_key_of(client);
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(key); found != entries_.end()) {
    found->second.joined.push_back(deliver);
    return Admission::Join;
  }
  if (entries_.size() >= limit_) return Admission::FullTable;
  if (count_of(by_client_, limit_key) >= std::max<std::size_t>(limit_ / kClientPart, 1))
    return Admission::FullClient;
  if (count_of(by_zone_, zone) >= std::max<std::size_t>(limit_ / kZonePart, 1))
    return Admission::FullZone;
  entries_.emplace(std::string(key), Entry{limit_key, zone, {}});
  ++by_client_[limit_key];
  ++by_zone_[zone];
  return Admission::Lead;
}

void FlightTable::finish(std::string_view key, const FlightResult& result) {
  Entries::node_type node;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    leave(found->second);
    node = entries_.extract(found);
  }
  for (const FlightDelivery& deliver : node.mapped().joined) deliver(node.key(), result);
}

void FlightTable::leave(const Entry& entry) {
  take_one(by_client_, entry.client);
  take_one(by_zone_, entry.zone);
}

void FlightTable::set_limit(std::size_t limit) {
  const std::lock_guard lock(mutex_);
  limit_ = std::max<std::size_t>(limit, 1);
}

std::size_t FlightTable::in_flight() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace meshdns::dnsd
