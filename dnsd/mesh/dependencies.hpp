// SPDX-License-Identifier: Apache-2.0
// The record of what the workloads ask for: for each client workload and host how often, since
// when, and how it was answered.  Collected from the workers (dnsd/query/asked_hosts.hpp), bounded
// in time and memory, and kept in state_dir over restarts.
//
//     worker: AskedHosts  ->  Dependencies::add  ->  /dependencies, metrics, STATE_DIR/dependencies
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dnsd/query/asked_hosts.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// A row of the record.
struct Dependency {
  std::string ns;        // of the client; empty: unknown
  std::string workload;  // empty: unknown
  std::string host_ns;   // of the object; empty: no object has the name
  std::string host;      // empty: names without an object, all together
  AskedResult result = AskedResult::Address;
  std::uint16_t types = 0;  // bit i: the type of slot i (QueryCounters::type_name)
  std::uint64_t questions = 0;
  std::int64_t first = 0;  // Unix seconds
  std::int64_t last = 0;
};

// A client workload, with the limits that it has met.
struct DependentWorkload {
  std::string ns;
  std::string workload;
  std::int64_t since = 0;     // Unix seconds: of its first question
  std::uint64_t dropped = 0;  // rows that a bound has removed, or did not let in
};

// Chooses the rows of which all that is not empty matches.
struct DependencyFilter {
  std::string ns = {};        // of the client
  std::string workload = {};  // of the client
  std::string host = {};      // of the object, or below it
  std::int64_t since = 0;     // `last` is not before it
  bool hidden_only = false;
};

// A binary heap whose items know their places in it, so that any of them can be moved or removed.
// `Order` says which item comes before another, and where an item keeps its place:
//
//     bool before(Item a, Item b) const;
//     std::uint32_t& place(Item item) const;
template <typename Item>
class PlacedHeap {
 public:
  bool empty() const { return items_.empty(); }
  std::size_t size() const { return items_.size(); }
  Item front() const { return items_.front(); }

  template <typename Order>
  void add(Item item, const Order& order) {
    items_.push_back(item);
    update(items_.size() - 1, order);
  }
  template <typename Order>
  void remove(std::size_t at, const Order& order) {
    const Item last = items_.back();
    items_.pop_back();
    if (at < items_.size()) {
      items_[at] = last;
      update(at, order);
    }
    if (items_.size() * 4 < items_.capacity()) items_.shrink_to_fit();
  }
  // The item at `at` has another order than before.
  template <typename Order>
  void update(std::size_t at, const Order& order) {
    for (; at > 0 && order.before(items_[at], items_[(at - 1) / 2]); at = (at - 1) / 2)
      swap(at, (at - 1) / 2, order);
    for (;;) {
      std::size_t first = at;
      for (const std::size_t child : {2 * at + 1, 2 * at + 2})
        if (child < items_.size() && order.before(items_[child], items_[first])) first = child;
      if (first == at) break;
      swap(at, first, order);
      at = first;
    }
    order.place(items_[at]) = static_cast<std::uint32_t>(at);
  }
  // `item` is the one at `at`, under another name.
  void rename(std::size_t at, Item item) { items_[at] = item; }

 private:
  template <typename Order>
  void swap(std::size_t a, std::size_t b, const Order& order) {
    std::swap(items_[a], items_[b]);
    order.place(items_[a]) = static_cast<std::uint32_t>(a);
    order.place(items_[b]) = static_cast<std::uint32_t>(b);
  }

  std::vector<Item> items_;
};

// The record.  `memory` bounds all of it, whoever asks for what:
//
// - Rows of names without an object (`host_ns` is empty) go first, the oldest of them first, and
//   the one that is being added is one of them: a crowd of random names pushes out nothing else.
// - Then goes the oldest row of the workload that has the most rows with an object: a greedy
//   workload pushes out its own rows.  Of workloads with equally many, that with the oldest row.
//
// Each of these rows counts as dropped of its workload.  A workload without rows is not kept; what
// it has dropped stays in the sum of all.
//
// The last question counts as the age of a row, in whole seconds.  Control thread.
class Dependencies {
 public:
  struct Limits {
    std::int64_t keep = 720 * std::int64_t{3600};  // seconds since the last question
    std::size_t memory = std::size_t{16} << 20;    // octets, of all rows and their texts
  };
  // One tick() looks at so many workloads for rows that are too old, and removes so many rows: in a
  // larger record they go at one of the next ticks.
  static constexpr std::size_t kWorkloadsPerTick = 1000;
  static constexpr std::size_t kRowsPerTick = 4000;

  Dependencies() = default;
  Dependencies(const Dependencies&) = delete;
  Dependencies& operator=(const Dependencies&) = delete;

  // A limit that is 0: nothing is recorded, and what there was is forgotten.
  void configure(const Limits& limits);
  const Limits& limits() const { return limits_; }
  bool is_enabled() const { return limits_.keep > 0 && limits_.memory > 0; }

  // Counts what a worker has counted.  `now_ns` is on the clock of `asked`, and is `now` (Unix
  // seconds).
  void add(const AskedHost& asked, std::uint64_t now_ns, std::int64_t now);
  // Questions of a workload that a worker had no place to count.  Call it after add() for the rows
  // of the workload: one that has no row is only in the sum of all.
  void add_dropped(std::string_view ns, std::string_view workload, std::uint64_t rows);

  // Removes rows that are older than `keep`.  They do not count as dropped: nobody misses them in a
  // record of that time.
  void tick(std::int64_t now);

  // Calls `visit` for each row that matches, by namespace, workload, host.  REQUIRES: the host of
  // `filter` is canonical, and `visit` does not change the record.
  void for_each(const DependencyFilter& filter,
                const std::function<void(const Dependency&)>& visit) const;
  std::vector<DependentWorkload> workloads() const;  // by namespace, workload

  // Removes the rows that match, and returns their number.  They do not count as dropped.
  std::size_t forget(const DependencyFilter& filter);

  std::size_t size() const { return rows_.size(); }
  // Octets: what the rows, workloads, hosts and their texts take, with the room that the containers
  // have for more (see the constants in dependencies.cpp).
  std::size_t memory() const { return rows_.size() * kRowSize + names_memory_; }
  std::uint64_t dropped() const { return dropped_; }  // of all workloads, and those that are gone
  std::uint64_t added() const { return added_; }      // rows that were new, since the start
  std::size_t hidden_of(std::string_view ns) const;   // rows of its clients, AskedResult::Hidden
  // Another number after each change, and after load().
  std::uint64_t version() const { return version_; }

  // All rows as octets; load() adds them to what there is, as far as the bounds let them in.  Times
  // after `now` are `now`: the clock may have been wrong.  An Error: nothing was added.
  std::string save() const;
  Result<void> load(std::string_view octets,
                    std::int64_t now = std::numeric_limits<std::int64_t>::max());

 private:
  using RowId = std::uint32_t;  // the place in `rows_`

  // A namespace, and a name in it.
  struct Names {
    std::string ns;
    std::string name;
  };
  struct NamesView {
    std::string_view ns;
    std::string_view name;
  };
  struct ByNames {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      const int order = std::string_view(a.ns).compare(b.ns);
      return order != 0 ? order < 0 : std::string_view(a.name) < std::string_view(b.name);
    }
  };
  struct Workload {
    std::int64_t since = std::numeric_limits<std::int64_t>::max();
    std::uint64_t dropped = 0;
    std::size_t rows = 0;
    std::size_t hidden = 0;        // rows
    PlacedHeap<RowId> of_objects;  // its rows with an object, the oldest first
    std::uint32_t place = 0;       // in `largest_`
  };
  struct Host {
    std::size_t rows = 0;
  };
  using Workloads = std::map<Names, Workload, ByNames>;
  using Hosts = std::map<Names, Host, ByNames>;

  struct Row {
    Workloads::iterator workload;
    Hosts::iterator host;
    std::uint64_t questions;
    std::uint32_t first;  // Unix seconds
    std::uint32_t last;
    std::uint32_t place;  // in `of_objects` of the workload, or in `without_object_`
    std::uint16_t types;
    AskedResult result;
  };
  // Values that are counted for a row, which may be new.
  struct Counted {
    std::uint64_t questions;
    std::uint32_t first;
    std::uint32_t last;
    std::uint16_t types;
  };
  // Values of a file before any of them is used; refer to the octets of the file.
  struct Saved;
  // A row itself has 40 octets.  The rest is the most that its place in `rows_`, in `slots_` and in
  // a heap takes, with the room there for more; 60 octets are usual.
  static constexpr std::size_t kRowSize = 72;

  struct ByAge;
  struct BySize;

  static std::size_t hash_of(const Row& row);
  static Result<Saved> decode(std::string_view octets);
  ByAge by_age();
  BySize by_size();
  PlacedHeap<RowId>& heap_of(const Row& row);
  std::size_t slot_of(const Row& row) const;
  void resize_slots(std::size_t size);
  void clear_slot(std::size_t slot);
  void count(NamesView workload, NamesView host, AskedResult result, const Counted& counted);
  Workloads::iterator workload_of(NamesView names);
  Hosts::iterator host_of(NamesView names);
  void insert(const Row& row, std::size_t slot);
  void merge(RowId id, const Counted& counted);
  void remove(RowId id);
  void release(Hosts::iterator host);
  void release(Workloads::iterator workload);
  void fit();
  std::size_t expire(PlacedHeap<RowId>& heap, std::uint32_t before, std::size_t at_most);

  Limits limits_;
  Workloads workloads_;
  Hosts hosts_;
  // Dense, in no order: the last row takes the place of one that is removed.  Not a vector, whose
  // growth takes twice the memory for a moment.
  std::deque<Row> rows_;
  std::vector<RowId> slots_;                               // a hash table with linear probing
  PlacedHeap<RowId> without_object_;                       // the oldest row first
  PlacedHeap<Workloads::iterator> largest_;                // see BySize
  Workloads::iterator next_to_expire_ = workloads_.end();  // of tick()
  std::size_t names_memory_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t added_ = 0;
  std::uint64_t version_ = 0;
};

}  // namespace meshdns::dnsd
