// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/failing_names.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "registry/base/hash.hpp"

namespace meshdns::dnsd {

void FailingNames::note(std::string_view name, wire::Rcode rcode) {
  const std::uint64_t key = hash_bytes(name) + static_cast<std::uint64_t>(rcode);
  const std::scoped_lock lock(mutex_);
  const auto group = std::span(places_).subspan(key % kGroups * kGroupSize, kGroupSize);
  Place* rarest = group.data();
  for (Place& place : group) {
    if (place.key == key && place.count > 0) {
      ++place.count;
      return;
    }
    if (place.count < rarest->count) rarest = &place;
  }
  rarest->key = key;
  rarest->rcode = rcode;
  ++rarest->count;
  rarest->size = static_cast<std::uint8_t>(std::min(name.size(), rarest->name.size()));
  std::memcpy(rarest->name.data(), name.data(), rarest->size);
}

std::vector<FailingNames::Entry> FailingNames::list() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Entry> entries;
  for (const Place& place : places_)
    if (place.count > 0)
      entries.push_back({{place.name.data(), place.size}, place.rcode, place.count});
  return entries;
}

void FailingNames::fade() {
  const std::scoped_lock lock(mutex_);
  for (Place& place : places_) place.count /= 2;
}

}  // namespace meshdns::dnsd
