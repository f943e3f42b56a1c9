// SPDX-License-Identifier: Apache-2.0
// Counts what the client workloads ask for, for one worker: who, for which host, how often, and how
// it was answered.  The control thread collects the tables of all workers
// (dnsd/mesh/dependencies.hpp).
//
// A query for a host of the registry counts in a table of fixed size, without a lock and without an
// allocation.  The worker hands the table over every few seconds, and when it is nearly full; what
// has no place in it counts as dropped.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/base/ref.hpp"
#include "registry/snapshot/client.hpp"
#include "registry/snapshot/service_record.hpp"
#include "registry/snapshot/symbol.hpp"

namespace meshdns::dnsd {

// How a host was answered.
enum class AskedResult : std::uint8_t {
  Address,    // or another record that the object has; also NODATA of a type that it lacks
  Alias,      // the object is an alias; where it leads counts for itself
  NoData,     // the object has no address now
  Forwarded,  // the object leaves its name to the upstream servers
  Hidden,     // an object has the name, and the client may not see it
  NxDomain,
  Refused,  // an override of the operator
  Failed,
  Outside,  // names without an object, all together
};
inline constexpr std::size_t kAskedResults = 9;
std::string_view to_string(AskedResult result);  // "address"

// A host that a workload has asked for.  Refers to the table.
struct AskedHost {
  std::string_view ns;        // the client's namespace; empty: unknown
  std::string_view workload;  // empty: unknown
  std::string_view host_ns;   // of the object; empty: no object has the name
  std::string_view host;      // as the object has it ("*.example.org"); empty: Outside
  AskedResult result = AskedResult::Address;
  std::uint16_t types = 0;  // bit i: the type of slot i (QueryCounters::type_name)
  std::uint32_t questions = 0;
  std::uint64_t first_ns = 0;  // monotonic
  std::uint64_t last_ns = 0;
};

// The table of one worker for some seconds.  One thread at a time; the control thread destroys it,
// since it may hold the last references to objects of older snapshots.
class AskedHosts {
 public:
  static constexpr std::size_t kCells = 4096;
  // Names without an object, each with a place of its own.
  static constexpr std::size_t kNames = 1024;

  // `has_names`: names without an object are kept; otherwise they count together.
  explicit AskedHosts(bool has_names) : names_(has_names ? kNames : 0) {}
  bool has_names() const { return !names_.empty(); }

  // The facts about one question, beside its host.
  struct Question {
    const registry::Client& client;
    std::size_t type_slot;  // QueryCounters::type_slot()
    std::uint64_t now_ns;
  };

  // None of these allocates.
  // REQUIRES: the entry and the namespace are of a snapshot that the caller reads.
  void note(const Question& question, const registry::HostEntry& entry, const registry::Symbol* ns,
            AskedResult result) {
    Cell& cell = cell_of(question.client, &entry, ns, result);
    count(cell, question);
  }
  // A name that no object has.
  void note_outside(const Question& question) {
    count(cell_of(question.client, nullptr, nullptr, AskedResult::Outside), question);
  }
  // The same with its name (lower case, no final dot), which counts as outside without a place for
  // it.  REQUIRES: has_names(); at most 255 octets.
  void note_name(const Question& question, std::string_view name, AskedResult result);

  // Returns whether it is to be handed over soon.
  bool is_nearly_full() const { return used_ >= kNearlyFull || names_used_ >= kNames / 2; }
  bool is_empty() const { return used_ == 0 && names_used_ == 0; }

  // Calls `visit` for all rows.
  void for_each(const std::function<void(const AskedHost&)>& visit) const;
  // Calls `visit` for each client some of whose questions had no place; empty: those of several
  // unknown clients together.
  void for_each_dropped(const std::function<void(std::string_view ns, std::string_view workload,
                                                 std::uint64_t questions)>& visit) const;

 private:
  // Cells that rows may take; the rest is for the clients whose rows had no place.
  static constexpr std::size_t kMaxRows = kCells / 4 * 3;
  static constexpr std::size_t kMaxUsed = kCells / 8 * 7;
  static constexpr std::size_t kNearlyFull = kCells / 2;

  struct Counts {
    std::uint32_t questions = 0;
    std::uint16_t types = 0;
    AskedResult result = AskedResult::Address;
    std::uint64_t first_ns = 0;
    std::uint64_t last_ns = 0;
  };
  struct Cell : Counts {
    Ref<const registry::Client> client;  // null: the cell is free
    Ref<const registry::HostEntry> entry;
    registry::SymbolRef ns;
    bool is_dropped = false;  // the questions of this client that had no place
  };
  struct Name : Counts {
    Ref<const registry::Client> client;
    std::uint64_t hash = 0;
    std::uint8_t size = 0;
    std::array<char, 255> text;
  };

  static void count(Counts& counts, const Question& question) {
    if (counts.questions == 0) [[unlikely]]
      counts.first_ns = question.now_ns;
    ++counts.questions;
    counts.types |= static_cast<std::uint16_t>(1U << question.type_slot);
    counts.last_ns = question.now_ns;
  }
  static std::size_t place_of(const void* client, const void* entry, std::uint64_t more) {
    using namespace hash_detail;
    return mix(reinterpret_cast<std::uintptr_t>(client) ^ kKey.seed,
               reinterpret_cast<std::uintptr_t>(entry) ^ kKey.mask ^ (more << 56));
  }
  Cell& cell_of(const registry::Client& client, const registry::HostEntry* entry,
                const registry::Symbol* ns, AskedResult result) {
    std::size_t i = place_of(&client, entry, static_cast<std::uint64_t>(result)) % kCells;
    for (;; i = (i + 1) % kCells) {
      Cell& cell = cells_[i];
      if (cell.client.get() == &client && cell.entry.get() == entry && cell.ns.get() == ns &&
          cell.result == result && !cell.is_dropped) [[likely]]
        return cell;
      if (!cell.client) return take(cell, client, entry, ns, result);
    }
  }
  Cell& take(Cell& cell, const registry::Client& client, const registry::HostEntry* entry,
             const registry::Symbol* ns, AskedResult result);
  Cell& dropped_cell_of(const registry::Client& client);

  std::size_t used_ = 0;
  std::size_t names_used_ = 0;
  Cell unknown_;             // questions of clients that have no place themselves
  std::vector<Name> names_;  // of size kNames, or empty
  std::array<Cell, kCells> cells_;
};

// Hands the tables of the workers to the control thread.  Any thread.
class AskedInbox {
 public:
  // More than all workers fill in a second; beyond, a worker keeps its table.
  static constexpr std::size_t kTablesPerWorker = 16;

  explicit AskedInbox(std::size_t workers) : max_tables_(kTablesPerWorker * workers) {}

  // Puts the table in and a new one like it in its place, unless too many wait.
  void put(std::unique_ptr<AskedHosts>& table);
  std::vector<std::unique_ptr<AskedHosts>> take();

 private:
  const std::size_t max_tables_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<AskedHosts>> tables_;  // guarded by mutex_
};

}  // namespace meshdns::dnsd
