// SPDX-License-Identifier: Apache-2.0
// Changes of resources on their way from a source to the registry.
//
// The unit of change is the *origin*: one file, one API collection.  The content of a file
// replaces its earlier content; a collection reports single objects as they change.  Either way a
// source needs no memory of resources: the registry alone holds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "registry/base/finding.hpp"
#include "registry/model/resolved_name.hpp"
#include "registry/model/resources.hpp"
#include "registry/snapshot/stored_resource.hpp"

namespace meshdns::registry {

// Resources on their way to the registry, encoded one behind the other: as C++ objects, 100,000 of
// them take 80 MB for a moment and leave the heap in pieces for ever.
class EncodedResources {
 public:
  // `line`: of the object's first line, 1-based; 0 = unknown.
  void push_back(const Resource& resource, std::uint32_t line);
  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  void clear() { *this = {}; }
  // Calls `visit(octets, line)` for each, in order; see StoredResource::of_encoded.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    std::size_t begin = 0;
    for (const Item& item : items_) {
      visit(std::string_view(octets_).substr(begin, item.end - begin), item.line);
      begin = item.end;
    }
  }

 private:
  struct Item {
    std::size_t end;
    std::uint32_t line;
  };
  std::string octets_;
  std::vector<Item> items_;
};

// The changes of one origin.  Objects that a source does not deliver itself are named by hash_of()
// their keys, so that a source need not hold the keys.
struct OriginChange {
  enum class Effect : std::uint8_t {
    Replace,  // `resources` and `kept` are all that this origin holds from now on
    Update,   // `resources` are added or exchanged, `removed` go; all else stays as it is
    Retain,   // of what the origin holds, what `kept` does not list goes: the end of a list that
              // came page by page as Update
    Remove,   // the origin is gone, and its objects with it
    Keep,     // its objects stay as they are (unreadable, half-written); only `findings` is new
  };
  std::string origin;  // a file's path, or the name of a collection
  Effect effect = Effect::Replace;
  EncodedResources resources;  // in the order of the text; of equal keys the last one counts
  // For Effect::Replace: the objects that were refused; the version that this very origin gave
  // before stays, if there is one.  For Effect::Retain: all objects of the list.
  std::vector<std::uint64_t> kept;
  // For Effect::Update, applied after `resources`; a key that is not held is no fault.
  std::vector<std::uint64_t> removed;
  // The present findings of this origin; they replace the former ones, so that an empty list with
  // Effect::Keep clears all of them.  Origins of directories have findings only.
  std::vector<Finding> findings;
};

// Changes that are applied together.  All additions come before the removals, so that an object
// that moves from one origin to another is not missing in between.  An origin has one change, save
// that a Retain or Remove may follow its Update.
struct Transaction {
  std::vector<OriginChange> changes = {};
  std::vector<StoredRef> restored = {};  // objects of a state snapshot
  // By namespace, whose endpoint sets alone use the name's addresses: a name of the mesh may be
  // another service's in another namespace.
  std::vector<std::pair<std::string, ResolvedName>> resolved = {};

  // Each adds to the last of `changes` if that is the origin's, or else appends one with
  // Effect::Update.
  void upsert(const Resource& resource, std::string_view origin, std::uint32_t line);
  void remove(const ResourceKey& key, std::string_view origin);
  // Begins a change with Effect::Replace, or makes the last one of the origin such a one.
  void replace_origin(std::string_view origin);
  // Appends a change with Effect::Remove.
  void remove_origin(std::string_view origin);
  void set_resolved(std::string_view ns, ResolvedName name);
  // Returns whether nothing is to be applied; findings are not.
  bool empty() const;

 private:
  OriginChange& change_of(std::string_view origin);
};

}  // namespace meshdns::registry
