// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/origin_table.hpp"

#include <algorithm>

namespace meshdns::registry {

OriginId OriginTable::id_of(std::string_view name) {
  const auto [it, is_new] = ids_.try_emplace(std::string(name));
  if (!is_new) return it->second;
  if (free_.empty()) {
    it->second = next_++;
  } else {
    it->second = free_.back();
    free_.pop_back();
  }
  set_name(it->second, name);
  return it->second;
}

void OriginTable::forget(OriginId id) {
  const auto listed = by_origin_.find(id);
  if (listed != by_origin_.end() && !listed->second.empty()) return;
  const auto known = ids_.find(std::string(names_.of(id)));
  if (known == ids_.end()) return;
  ids_.erase(known);
  if (listed != by_origin_.end()) by_origin_.erase(listed);
  set_name(id, {});
  free_.push_back(id);
}

void OriginTable::set_name(OriginId id, std::string_view name) {
  const std::size_t position = id / OriginNames::kBlockSize;
  if (position >= names_.blocks.size()) names_.blocks.resize(position + 1);
  auto& own = own_blocks_[position];
  if (!own) {
    const auto& shared = names_.blocks[position];
    own = shared ? std::make_shared<OriginNames::Block>(*shared)
                 : std::make_shared<OriginNames::Block>();
    names_.blocks[position] = own;
  }
  (*own)[id % OriginNames::kBlockSize] = name;
}

void OriginTable::take_names(const OriginTable& other) {
  names_.blocks = other.names_.blocks;
  ids_ = other.ids_;
  free_ = other.free_;
  next_ = other.next_;
}

template <typename HasKey>
StoredRef OriginTable::winner(std::uint64_t key_hash, const HasKey& has_key) const {
  const StoredResource* best = nullptr;
  resources_.for_each_candidate(key_hash, [&](const StoredResource& candidate) {
    if (!has_key(candidate)) return;
    if (best == nullptr || names_.of(candidate.origin()) < names_.of(best->origin()))
      best = &candidate;
  });
  return StoredRef(best);
}

StoredRef OriginTable::used(const ResourceKey& key) const {
  return winner(hash_of(key), [&](const StoredResource& other) { return other.has_key(key); });
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

std::size_t OriginTable::remove(std::uint64_t key_hash, OriginId origin, const Exchange& exchange) {
  std::vector<ResourceKey> gone;
  resources_.for_each_candidate(key_hash, [&](const StoredResource& candidate) {
    if (candidate.origin() == origin && candidate.key_hash() == key_hash)
      gone.push_back(candidate.key());
  });
  for (const auto& key : gone) remove(key, origin, exchange);
  return gone.size();
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
  if (!published_names_ || !own_blocks_.empty()) {
    own_blocks_.clear();
    auto* names = new OriginNames;
    published_names_ = Ref<const OriginNames>(names);
    names->blocks = names_.blocks;
  }
  snapshot.origins = published_names_;
  snapshot.resources = resources_;
}

}  // namespace meshdns::registry
