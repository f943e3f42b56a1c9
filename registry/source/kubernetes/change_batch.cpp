// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/change_batch.hpp"

#include <algorithm>
#include <utility>

namespace meshdns::registry::kubernetes {

void ChangeBatch::upsert(const std::string& origin, Resource&& resource) {
  OriginChange& update = updates_[origin];
  if (!update.removed.empty()) std::erase(update.removed, key_of(resource));
  update.resources.push_back({std::move(resource), 0});
  ++size_;
}

// Removes also an object that the batch itself has added: removals come last when it is applied.
void ChangeBatch::remove(const std::string& origin, ResourceKey&& key) {
  OriginChange& update = updates_[origin];
  update.removed.push_back(std::move(key));
  ++size_;
}

void ChangeBatch::retain(const std::string& origin, std::vector<std::uint64_t>&& retained) {
  OriginChange end;
  end.origin = origin;
  end.effect = OriginChange::Effect::Retain;
  end.retained = std::move(retained);
  ends_.push_back(std::move(end));
}

void ChangeBatch::drop(const std::string& origin) {
  updates_.erase(origin);
  std::erase_if(ends_, [&](const OriginChange& end) { return end.origin == origin; });
  OriginChange end;
  end.origin = origin;
  end.effect = OriginChange::Effect::Remove;
  ends_.push_back(std::move(end));
}

std::vector<OriginChange> ChangeBatch::take() {
  std::vector<OriginChange> changes;
  for (auto& [origin, update] : updates_) {
    update.origin = origin;
    update.effect = OriginChange::Effect::Update;
    changes.push_back(std::move(update));
  }
  for (auto& end : ends_) changes.push_back(std::move(end));
  updates_.clear();
  ends_.clear();
  size_ = 0;
  return changes;
}

}  // namespace meshdns::registry::kubernetes
