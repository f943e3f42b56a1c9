// SPDX-License-Identifier: Apache-2.0
// The objects of each origin (a file, a collection of the API).  If several origins have a version
// of an object, the version of the origin with the smallest name is used.
//
// Control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/snapshot/hash_trie.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "registry/snapshot/stored_resource.hpp"

namespace meshdns::registry {

class OriginTable {
 public:
  // Called when the used version of an object changes from `before` to `after`; null = none.
  using Exchange = std::function<void(const StoredRef& before, const StoredRef& after)>;

  // Returns the id of the origin `name`; equal names have equal ids.
  OriginId id_of(std::string_view name);
  // Forgets the name of an origin without objects; its id becomes another origin's.  Otherwise
  // does nothing.
  void forget(OriginId id);
  // Takes over the names of another table with their ids.  REQUIRES: this one is empty.
  void take_names(const OriginTable& other);

  // Each returns the number of changed objects, including versions that are not used.  An object
  // that its origin already has in the same form is no change; only its line is updated.
  std::size_t upsert(const StoredRef& resource, const Exchange& exchange);
  std::size_t remove(const ResourceKey& key, OriginId origin, const Exchange& exchange);
  // Removes the objects of `origin` with this hash_of(key).
  std::size_t remove(std::uint64_t key_hash, OriginId origin, const Exchange& exchange);
  // Removes the objects of `origin` whose hash_of(key) is not in `retained`.  REQUIRES: sorted.
  std::size_t retain(OriginId origin, const std::vector<std::uint64_t>& retained,
                     const Exchange& exchange);

  // The version of an object that is used; null: there is none.
  StoredRef used(const ResourceKey& key) const;
  // All versions of all origins.
  const HashTrie<StoredResource>& resources() const { return resources_; }
  void publish_to(Snapshot& snapshot);

 private:
  // The version of an object that is used.  `has_key` distinguishes objects with equal hashes.
  template <typename HasKey>
  StoredRef winner(std::uint64_t key_hash, const HasKey& has_key) const;
  void set_name(OriginId id, std::string_view name);
  void list(const StoredResource& resource, const StoredResource* in_place_of);
  void unlist(const StoredResource& resource);

  HashTrie<StoredResource> resources_;
  OriginNames names_;
  // The blocks that no snapshot has yet, by position, to be changed in place.
  std::unordered_map<std::size_t, std::shared_ptr<OriginNames::Block>> own_blocks_;
  TextMap<OriginId> ids_;
  std::vector<OriginId> free_;  // ids of forgotten names
  OriginId next_ = 1;           // 0 is no origin
  std::unordered_map<OriginId, std::vector<const StoredResource*>> by_origin_;  // each at its slot
  Ref<const OriginNames> published_names_;
};

}  // namespace meshdns::registry
