// SPDX-License-Identifier: Apache-2.0
// A persistent hash index: copying one is a pointer copy, changing one copies a path of at most
// four nodes, and two generations share all the rest.
//
// Why not a hash array mapped trie of the usual fan-out: at 100,000 names it makes a look-up wait
// for four cache misses.  Here two levels of 64 pointers (which stay in the caches) lead to 4,096
// leaves; a leaf holds the tags of its entries side by side, so a look-up misses once there and
// once in the entry. A change copies one leaf (24 entries at 100,000 names) and two arrays of
// pointers. A leaf that grows beyond 64 entries (a million addresses) is forked into eight, so that
// a change goes on costing the same.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include "registry/base/ref.hpp"

namespace meshdns::registry {

// Entry: an immutable RefCounted type.  Entries are found by a 64-bit hash and a predicate, which
// is asked only when 44 bits of the hash agree.  Readers: any thread, on a trie that nobody changes
// any more.  Writers: one thread.
template <typename Entry>
class HashTrie {
 public:
  using EntryRef = Ref<const Entry>;

  template <typename Matches>
  const Entry* find(std::uint64_t hash, Matches&& matches) const {
    const Leaf* leaf = leaf_of(hash);
    if (leaf == nullptr) return nullptr;
    const std::uint32_t tag = tag_of(hash);
    for (std::uint32_t i = 0; i < leaf->size; ++i)
      if (leaf->tags()[i] == tag && matches(*leaf->entries()[i])) return leaf->entries()[i];
    return nullptr;
  }

  // Prefetches the memory that find() reads, in steps; each step reads the memory that the previous
  // step prefetched.  Do each step for all hashes of a batch, so that the waits for memory overlap.
  void prefetch(std::uint64_t hash) const {
    const Leaf* const leaf = leaf_of(hash);
    if (leaf == nullptr) return;
    __builtin_prefetch(leaf);
    __builtin_prefetch(reinterpret_cast<const char*>(leaf) + kCacheLine);
  }
  // Returns the place of the entry that find() of this hash will probably return; null: there is
  // none.
  const Entry* const* prefetch_place(std::uint64_t hash) const {
    const Leaf* const leaf = leaf_of(hash);
    if (leaf == nullptr) return nullptr;
    const std::uint32_t tag = tag_of(hash);
    for (std::uint32_t i = 0; i < leaf->size; ++i) {
      if (leaf->tags()[i] != tag) continue;
      __builtin_prefetch(leaf->entries() + i);  // NOLINT(bugprone-multi-level-implicit-pointer-*)
      return leaf->entries() + i;
    }
    return nullptr;
  }

  // Calls `visit(entry)` for each entry whose hash has the same 44 bits.
  template <typename Visit>
  void for_each_candidate(std::uint64_t hash, Visit&& visit) const {
    const Leaf* leaf = leaf_of(hash);
    if (leaf == nullptr) return;
    for (std::uint32_t i = 0; i < leaf->size; ++i)
      if (leaf->tags()[i] == tag_of(hash)) visit(*leaf->entries()[i]);
  }

  template <typename Visit>
  void for_each(Visit&& visit) const {
    if (!root_) return;
    for (const auto& branch : root_->branches) {
      if (!branch) continue;
      for (const auto& leaf : branch->leaves) visit_leaf(leaf, visit);
      for (const auto& fork : branch->forks)
        if (fork)
          for (const auto& leaf : fork->leaves) visit_leaf(leaf, visit);
    }
  }

  // Calls `gone(entry)` for the entries that only `before` has, and `came(entry)` for those that
  // only `after` has, those with the same 12 first bits of the hash one after the other; then
  // `next()`.  Passes over all that the two share.
  template <typename Gone, typename Came, typename Next>
  static void compare(const HashTrie& before, const HashTrie& after, Gone&& gone, Came&& came,
                      Next&& next) {
    if (before.root_ == after.root_) return;
    for (std::size_t i = 0; i < kFanOut * kFanOut; ++i) {
      const Place was = before.place(i);
      const Place is = after.place(i);
      if (was == is) continue;
      const std::vector<const Entry*> old = entries_at(was);
      const std::vector<const Entry*> now = entries_at(is);
      std::vector<const Entry*> rest;
      std::ranges::set_difference(old, now, std::back_inserter(rest));
      for (const Entry* entry : rest) gone(*entry);
      rest.clear();
      std::ranges::set_difference(now, old, std::back_inserter(rest));
      for (const Entry* entry : rest) came(*entry);
      next();
    }
  }

  // Replaces the entry that `matches`, or adds one.
  template <typename Matches>
  void put(std::uint64_t hash, const EntryRef& entry, Matches&& matches) {
    Leaf& leaf = mutable_leaf(hash, 1);
    const std::uint32_t tag = tag_of(hash);
    for (std::uint32_t i = 0; i < leaf.size; ++i) {
      if (leaf.tags()[i] != tag || !matches(*leaf.entries()[i])) continue;
      leaf.replace(i, entry);
      return;
    }
    leaf.append(tag, entry);
    ++size_;
  }

  // False when nothing matched.
  template <typename Matches>
  bool erase(std::uint64_t hash, Matches&& matches) {
    if (find(hash, matches) == nullptr) return false;
    Leaf& leaf = mutable_leaf(hash, 0);
    const std::uint32_t tag = tag_of(hash);
    for (std::uint32_t i = 0; i < leaf.size; ++i) {
      if (leaf.tags()[i] != tag || !matches(*leaf.entries()[i])) continue;
      leaf.remove(i);
      --size_;
      return true;
    }
    return false;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  static constexpr std::size_t kFanOut = 64;
  static constexpr std::size_t kForks = 8;
  static constexpr std::uint32_t kMaxLeaf = 64;
  static constexpr std::size_t kCacheLine = 64;

  // Tags, then entries, behind the header in one allocation.
  class Leaf final : public RefCounted {
   public:
    static Leaf* create(std::uint32_t capacity) {
      void* memory = std::malloc(offset_of_entries(capacity) + capacity * sizeof(const Entry*));
      if (memory == nullptr) throw std::bad_alloc();
      return new (memory) Leaf(capacity);
    }
    static void destroy(const Leaf* leaf) {
      for (std::uint32_t i = 0; i < leaf->size; ++i) release(leaf->entries()[i]);
      leaf->~Leaf();
      std::free(const_cast<Leaf*>(leaf));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    }

    const std::uint32_t* tags() const { return reinterpret_cast<const std::uint32_t*>(this + 1); }
    std::uint32_t* tags() { return reinterpret_cast<std::uint32_t*>(this + 1); }
    const Entry* const* entries() const {
      return reinterpret_cast<const Entry* const*>(reinterpret_cast<const char*>(this) +
                                                   offset_of_entries(capacity));
    }
    const Entry** entries() {
      return reinterpret_cast<const Entry**>(reinterpret_cast<char*>(this) +
                                             offset_of_entries(capacity));
    }

    void append(std::uint32_t tag, const EntryRef& entry) {
      assert(size < capacity);
      tags()[size] = tag;
      entries()[size] = take(entry);
      ++size;
    }
    void copy(const Leaf& other) {
      for (std::uint32_t i = 0; i < other.size; ++i)
        append(other.tags()[i], EntryRef(other.entries()[i]));
    }
    // Leaves `other` empty.  Unlike copy() it touches no entry.
    void take_over(Leaf& other) {
      std::copy_n(other.tags(), other.size, tags());
      std::copy_n(other.entries(), other.size, entries());
      size = std::exchange(other.size, 0);
    }
    void replace(std::uint32_t i, const EntryRef& entry) {
      release(entries()[i]);
      entries()[i] = take(entry);
    }
    void remove(std::uint32_t i) {
      release(entries()[i]);
      --size;
      tags()[i] = tags()[size];
      entries()[i] = entries()[size];
    }

    std::uint32_t size = 0;
    const std::uint32_t capacity;

   private:
    explicit Leaf(std::uint32_t c) : capacity(c) {}
    static std::size_t offset_of_entries(std::uint32_t capacity) {
      return (sizeof(Leaf) + capacity * sizeof(std::uint32_t) + 7) / 8 * 8;
    }
    static const Entry* take(const EntryRef& entry) {
      entry->add_ref();
      return entry.get();
    }
    // Gives back the reference that take() added.
    static void release(const Entry* entry) {
      const EntryRef last(entry);
      entry->drop_ref();
    }
  };

  struct Fork final : public RefCounted {
    void copy(const Fork& other) { leaves = other.leaves; }
    std::array<Ref<Leaf>, kForks> leaves;
  };
  struct Branch final : public RefCounted {
    void copy(const Branch& other) {
      leaves = other.leaves;
      forks = other.forks;
    }
    std::array<Ref<Leaf>, kFanOut> leaves;
    std::array<Ref<Fork>, kFanOut> forks;  // where a leaf has grown too large; it is null then
  };
  struct Root final : public RefCounted {
    void copy(const Root& other) { branches = other.branches; }
    std::array<Ref<Branch>, kFanOut> branches;
  };

  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash); }
  static std::size_t branch_index(std::uint64_t hash) { return hash >> 58; }
  static std::size_t leaf_index(std::uint64_t hash) { return (hash >> 52) & (kFanOut - 1); }
  // From the tag, which is all that a leaf keeps of its entries' hashes.
  static std::size_t fork_index(std::uint32_t tag) { return tag & (kForks - 1); }

  const Leaf* leaf_of(std::uint64_t hash) const {
    if (!root_) return nullptr;
    const Branch* branch = root_->branches[branch_index(hash)].get();
    if (branch == nullptr) return nullptr;
    const std::size_t index = leaf_index(hash);
    if (const Leaf* leaf = branch->leaves[index].get(); leaf != nullptr) [[likely]]
      return leaf;
    const Fork* fork = branch->forks[index].get();
    return fork == nullptr ? nullptr : fork->leaves[fork_index(tag_of(hash))].get();
  }

  // A place of a branch: it has a leaf, or the fork that the leaf became.
  struct Place {
    const Leaf* leaf = nullptr;
    const Fork* fork = nullptr;
    friend bool operator==(const Place&, const Place&) = default;
  };
  Place place(std::size_t index) const {
    const Branch* branch = root_ ? root_->branches[index / kFanOut].get() : nullptr;
    if (branch == nullptr) return {};
    return {branch->leaves[index % kFanOut].get(), branch->forks[index % kFanOut].get()};
  }
  // Sorted.
  static std::vector<const Entry*> entries_at(const Place& place) {
    std::vector<const Entry*> list;
    const auto add_leaf = [&](const Leaf* leaf) {
      for (std::uint32_t i = 0; leaf != nullptr && i < leaf->size; ++i)
        list.push_back(leaf->entries()[i]);
    };
    add_leaf(place.leaf);
    if (place.fork != nullptr)
      for (const auto& leaf : place.fork->leaves) add_leaf(leaf.get());
    std::ranges::sort(list);
    return list;
  }

  template <typename Visit>
  static void visit_leaf(const Ref<Leaf>& leaf, Visit& visit) {
    if (!leaf) return;
    for (std::uint32_t i = 0; i < leaf->size; ++i) visit(*leaf->entries()[i]);
  }

  // The leaf of `hash`, owned by nobody else, with room for `extra` more entries.
  Leaf& mutable_leaf(std::uint64_t hash, std::uint32_t extra) {
    own(root_);
    Ref<Branch>& branch = root_->branches[branch_index(hash)];
    own(branch);
    const std::size_t index = leaf_index(hash);
    if (const Leaf* whole = branch->leaves[index].get();
        whole != nullptr && whole->size + extra > kMaxLeaf)
      fork_leaf(*branch, index);
    if (branch->forks[index]) {
      own(branch->forks[index]);
      return mutable_leaf(branch->forks[index]->leaves[fork_index(tag_of(hash))], extra);
    }
    return mutable_leaf(branch->leaves[index], extra);
  }

  static void fork_leaf(Branch& branch, std::size_t index) {
    const Ref<Leaf> whole = std::exchange(branch.leaves[index], {});
    branch.forks[index] = Ref<Fork>(new Fork);
    for (std::uint32_t i = 0; i < whole->size; ++i) {
      const std::uint32_t tag = whole->tags()[i];
      mutable_leaf(branch.forks[index]->leaves[fork_index(tag)], 1)
          .append(tag, EntryRef(whole->entries()[i]));
    }
  }

  static Leaf& mutable_leaf(Ref<Leaf>& leaf, std::uint32_t extra) {
    if (!leaf) {
      leaf = Ref<Leaf>(Leaf::create(std::max(extra, 2U)));
    } else if (!leaf->is_unique() || leaf->size + extra > leaf->capacity) {
      // Room for a quarter more: growth stays linear and the slack small.
      const std::uint32_t wanted = leaf->size + extra;
      const std::uint32_t grown = wanted > leaf->capacity ? wanted + wanted / 4 : leaf->capacity;
      Ref<Leaf> grown_leaf(Leaf::create(grown));
      if (leaf->is_unique())
        grown_leaf->take_over(*leaf);
      else
        grown_leaf->copy(*leaf);
      leaf = std::move(grown_leaf);
    }
    return *leaf;
  }

  template <typename Node>
  static void own(Ref<Node>& node) {
    if (!node) {
      node = Ref<Node>(new Node);
    } else if (!node->is_unique()) {
      Ref<Node> copy(new Node);
      copy->copy(*node);
      node = std::move(copy);
    }
  }

  Ref<Root> root_;
  std::size_t size_ = 0;
};

}  // namespace meshdns::registry
