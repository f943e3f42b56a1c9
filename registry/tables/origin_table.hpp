// SPDX-License-Identifier: Apache-2.0
// The objects that each origin (a file, a collection of the API) holds.  Several origins may hold a
// version of one object: that of the origin with the least name counts.
//
// Control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "registry/snapshot/hash_trie.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "registry/snapshot/stored_resource.hpp"

namespace meshdns::registry {

class OriginTable {
 public:
  // Is told which version of an object counts from now on, in place of which: null = none.
  using Exchange = std::function<void(const StoredRef& before, const StoredRef& after)>;

  // The id of an origin's name; the same name gives the same id.
  OriginId id_of(std::string_view name);
  // Takes over the names of another table with their ids.  REQUIRES: this one is empty.
  void take_names(const OriginTable& other);

  // Each returns how many objects changed, whether or not another version counts now.  An object
  // that its origin holds already in the same form is no change; only its line moves.
  std::size_t upsert(const StoredRef& resource, const Exchange& exchange);
  std::size_t remove(const ResourceKey& key, OriginId origin, const Exchange& exchange);
  // Removes all that `origin` holds and whose hash_of(key) is not in `retained`.  REQUIRES: sorted.
  std::size_t retain(OriginId origin, const std::vector<std::uint64_t>& retained,
                     const Exchange& exchange);

  // All versions of all origins.
  const HashTrie<StoredResource>& resources() const { return resources_; }
  void publish_to(Snapshot& snapshot);

 private:
  // The version of an object that counts.  `has_key` tells the object from others of its hash.
  template <typename HasKey>
  StoredRef winner(std::uint64_t key_hash, const HasKey& has_key) const;
  void list(const StoredResource& resource, const StoredResource* in_place_of);
  void unlist(const StoredResource& resource);

  HashTrie<StoredResource> resources_;
  std::vector<std::string> names_{""};
  std::unordered_map<std::string, OriginId> ids_;
  std::unordered_map<OriginId, std::vector<const StoredResource*>> by_origin_;  // each at its slot
  Ref<const OriginNames> published_names_;
};

}  // namespace meshdns::registry
