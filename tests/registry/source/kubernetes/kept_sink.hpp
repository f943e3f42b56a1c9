// SPDX-License-Identifier: Apache-2.0
// The resources that a registry would hold of a cluster.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "registry/snapshot/stored_resource.hpp"
#include "registry/source/source.hpp"

namespace meshdns::registry::kubernetes {

using Labels = std::set<std::string>;

class KeptSink final : public SourceSink {
 public:
  void apply(SourceBatch&& batch) override {
    ++batches;
    complete = batch.complete;
    for (auto& change : batch.changes) {
      if (change.effect == OriginChange::Effect::Remove) {
        origins.erase(change.origin);
        continue;
      }
      auto& held = origins[change.origin];
      change.resources.for_each([&](std::string_view encoded, std::uint32_t) {
        const auto stored = StoredResource::of_encoded(encoded, 0, 0);
        held[stored->key_hash()] = stored->label();
      });
      for (const std::uint64_t key : change.removed) held.erase(key);
      if (change.effect == OriginChange::Effect::Retain)
        std::erase_if(held, [&](const auto& item) {
          return !std::ranges::binary_search(change.kept, item.first);
        });
      findings[change.origin] = change.findings;
    }
    for (const auto& notice : batch.notices) notices.push_back(notice.text);
    if (!batch.origins) return;
    all_origins = *batch.origins;
    std::erase_if(origins, [&](const auto& item) {
      return std::ranges::find(all_origins, item.first) == all_origins.end();
    });
  }
  Labels labels() const {
    Labels all;
    for (const auto& [origin, held] : origins)
      for (const auto& [hash, label] : held) all.insert(label);
    return all;
  }
  // The names of the origins, without that of the source.
  std::set<std::string> known() const {
    std::set<std::string> names;
    for (const auto& [origin, held] : origins) names.insert(origin.substr(origin.find('/') + 1));
    return names;
  }

  int batches = 0;
  bool complete = false;
  std::map<std::string, std::map<std::uint64_t, std::string>> origins;
  std::map<std::string, std::vector<Finding>> findings;
  std::vector<std::string> notices;
  std::vector<std::string> all_origins;
};

}  // namespace meshdns::registry::kubernetes
