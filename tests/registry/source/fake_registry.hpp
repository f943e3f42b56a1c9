// SPDX-License-Identifier: Apache-2.0
// A registry that holds what its sources deliver, each object as a text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "registry/snapshot/stored_resource.hpp"
#include "registry/source/source.hpp"

namespace meshdns::registry {

class FakeRegistry : public SourceSink {
 public:
  using Texts = std::set<std::string>;
  using Describe = std::string (*)(const StoredResource&);

  explicit FakeRegistry(Describe describe =
                            [](const StoredResource& object) { return object.label(); })
      : describe_(describe) {}

  void apply(SourceBatch&& batch) override {
    ++batches;
    complete = batch.complete;
    apply(batch.changes);
    for (const auto& notice : batch.notices) notices.push_back(notice.text);
    if (!batch.origins) return;
    all_origins = *batch.origins;
    std::erase_if(origins, [&](const auto& item) {
      return std::ranges::find(all_origins, item.first) == all_origins.end();
    });
  }
  void apply(std::span<const OriginChange> changes) {
    Texts seen;
    for (const OriginChange& change : changes) {
      EXPECT_TRUE(seen.insert(change.origin).second ||
                  change.effect == OriginChange::Effect::Retain)
          << change.origin << " twice in a batch";
      apply(change);
    }
  }
  void hold(const std::string& origin, const ResourceKey& key, std::string text) {
    origins[origin][hash_of(key)] = std::move(text);
  }

  Texts texts_of(const std::string& origin) const {
    Texts texts;
    if (const auto held = origins.find(origin); held != origins.end())
      for (const auto& [key, text] : held->second) texts.insert(text);
    return texts;
  }
  // The texts of all origins together.
  Texts texts() const {
    Texts texts;
    for (const auto& [origin, held] : origins) texts.merge(texts_of(origin));
    return texts;
  }
  std::string print(std::string_view separator) const {
    std::string line;
    for (const std::string& text : texts()) line.append(line.empty() ? "" : separator).append(text);
    return line;
  }

  int batches = 0;
  bool complete = false;
  std::map<std::string, std::map<std::uint64_t, std::string>> origins;  // by hash_of(key)
  std::map<std::string, std::vector<Finding>> findings;
  std::vector<std::string> notices;
  std::vector<std::string> all_origins;

 private:
  void apply(const OriginChange& change) {
    using Effect = OriginChange::Effect;
    findings[change.origin] = change.findings;
    if (change.effect == Effect::Keep) {
      EXPECT_TRUE(change.resources.empty());
      return;
    }
    if (change.effect == Effect::Remove) {
      origins.erase(change.origin);
      return;
    }
    auto& held = origins[change.origin];
    const std::set<std::uint64_t> kept(change.kept.begin(), change.kept.end());
    const auto drop_others = [&] {
      std::erase_if(held, [&](const auto& item) { return !kept.contains(item.first); });
    };
    if (change.effect == Effect::Replace) drop_others();
    change.resources.for_each([&](std::string_view encoded, std::uint32_t line) {
      const auto stored = StoredResource::of_encoded(encoded, 0, line);
      held[stored->key_hash()] = describe_(*stored);
    });
    for (const std::uint64_t key : change.removed) held.erase(key);
    if (change.effect == Effect::Retain) drop_others();
  }

  Describe describe_;
};

}  // namespace meshdns::registry
