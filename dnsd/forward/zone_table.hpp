// SPDX-License-Identifier: Apache-2.0
// Finds the zone of the configuration for a name: the longest suffix wins.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "registry/base/hash.hpp"

namespace meshdns::dnsd {

template <typename Value>
class ZoneTable {
 public:
  // `wire_zone`: lower-case wire form.
  void add(std::string wire_zone, Value value) { zones_[std::move(wire_zone)] = std::move(value); }

  // The value of the longest zone that `wire_name` (lower-case wire form) is at or below; nullptr:
  // none.
  const Value* find(std::string_view wire_name) const {
    if (zones_.empty()) return nullptr;
    while (true) {
      if (const auto found = zones_.find(wire_name); found != zones_.end()) return &found->second;
      if (wire_name.size() <= 1) return nullptr;
      wire_name.remove_prefix(1u + static_cast<unsigned char>(wire_name[0]));
    }
  }

  auto begin() const { return zones_.begin(); }
  auto end() const { return zones_.end(); }

 private:
  TextMap<Value> zones_;
};

}  // namespace meshdns::dnsd
