// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/origin_table.hpp"

#include <algorithm>

namespace meshdns::registry {

OriginId OriginTable::id_of(std::string_view name) {
  const auto [it, is_new] = ids_.emplace(name, static_cast<OriginId>(names_.size()));
  if (is_new) names_.emplace_back(name);
  return it->second;
}

void OriginTable::take_names(const OriginTable& other) {
  names_ = other.names_;
  ids_ = other.ids_;
}

template <typename HasKey>
StoredRef OriginTable::winner(std::uint64_t key_hash, const HasKey& has_key) const {
  const StoredResource* best = nullptr;
  resources_.for_each_candidate(key_hash, [&](const StoredResource& candidate) {
    if (!has_key(candidate)) return;
    if (best == nullptr || names_[candidate.origin()] < names_[best->origin()]) best = &candidate;
  });
  return StoredRef(best);
}

std::size_t OriginTable::upsert(const StoredRef& resource, const Exchange& exchange) {
  const std::uint64_t hash = resource->key_hash();
  const auto has_key = [&](const StoredResource& other) { return other.has_key_of(*resource); };
  const auto same = [&](const StoredResource& other) {
    return other.origin() == resource->origin() && has_key(other);
  };
  const StoredResource* existing = resources_.find(hash, same);
  if (existing != nullptr && existing->encoded() == resource->encoded()) {
    existing->set_line(resource->line());
    return 0;
  }
  const StoredRef before = winner(hash, has_key);
  list(*resource, existing);
  resources_.put(hash, resource, same);
  const StoredRef after = before ? winner(hash, has_key) : resource;
  if (before != after) exchange(before, after);
  return 1;
}

std::size_t OriginTable::remove(const ResourceKey& key, OriginId origin, const Exchange& exchange) {
  const std::uint64_t hash = hash_of(key);
  const auto has_key = [&](const StoredResource& other) { return other.has_key(key); };
  const auto same = [&](const StoredResource& other) {
    return other.origin() == origin && has_key(other);
  };
  const StoredResource* existing = resources_.find(hash, same);
  if (existing == nullptr) return 0;
  const StoredRef before = winner(hash, has_key);
  unlist(*existing);
  resources_.erase(hash, same);
  const StoredRef after = winner(hash, has_key);
  if (before != after) exchange(before, after);
  return 1;
}

std::size_t OriginTable::retain(OriginId origin, const std::vector<std::uint64_t>& retained,
                                const Exchange& exchange) {
  std::vector<ResourceKey> gone;
  for (const StoredResource* resource : by_origin_[origin])
    if (!std::ranges::binary_search(retained, resource->key_hash()))
      gone.push_back(resource->key());
  for (const auto& key : gone) remove(key, origin, exchange);
  return gone.size();
}

void OriginTable::list(const StoredResource& resource, const StoredResource* in_place_of) {
  auto& list = by_origin_[resource.origin()];
  if (in_place_of != nullptr) {
    resource.set_slot(in_place_of->slot());
    list[resource.slot()] = &resource;
    return;
  }
  resource.set_slot(static_cast<std::uint32_t>(list.size()));
  list.push_back(&resource);
}

void OriginTable::unlist(const StoredResource& resource) {
  auto& list = by_origin_[resource.origin()];
  list[resource.slot()] = list.back();
  list.back()->set_slot(resource.slot());
  list.pop_back();
}

void OriginTable::publish_to(Snapshot& snapshot) {
  if (!published_names_ || published_names_->names.size() != names_.size()) {
    auto* names = new OriginNames;
    published_names_ = Ref<const OriginNames>(names);
    names->names = names_;
  }
  snapshot.origins = published_names_;
  snapshot.resources = resources_;
}

}  // namespace meshdns::registry
