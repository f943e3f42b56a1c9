// SPDX-License-Identifier: Apache-2.0
// Compares each push with the names that are held, so that a push costs what it has to say: istiod
// sends the whole table for every change, of which only the changed names go on to the registry,
// and a push of some names among 100,000 does not look at the others.
//
// Hashes are held, 80 bytes a name.  The texts are in the registry already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "registry/base/finding.hpp"
#include "registry/base/result.hpp"
#include "registry/source/istiod/ads.hpp"
#include "registry/source/source.hpp"

namespace meshdns::registry::istiod {

// One thread at a time.
class HeldNames {
 public:
  // Names whose findings are kept; others are only counted.
  static constexpr std::size_t kMaxFaultyNames = 1'000;
  // A headless Service of 200,000 Pods.  protobuf needs 30 times as much to read it.
  static constexpr std::size_t kMaxInfoOctets = std::size_t{4} << 20;
  // An alternative host costs the registry as much as so many addresses.
  static constexpr std::size_t kPartsOfAltHost = 4;

  struct Difference {
    std::vector<OriginChange> changes;  // for SourceBatch; empty when nothing has changed
    std::size_t changed = 0;            // names that are new, other or gone
  };

  // `origin` stands for all that is held, in changes and findings.
  explicit HeldNames(std::string origin, HeldLimits limits = {})
      : origin_(std::move(origin)), limits_(limits) {}

  // Takes over a push and returns the difference.  The first push replaces what the origin had in
  // an earlier run.  A faulty name is refused by itself: its earlier version stays.  An Error says
  // why the whole push is refused; nothing has changed then.
  Result<Difference> take(const Push& push, MessageReader& reader);

  std::size_t size() const { return names_.size(); }
  std::size_t refused() const { return refused_; }
  // The tables that have a name or a version, for the next stream.  Empty when they are too many
  // for a request: the first push of that stream is the whole then.
  std::vector<HeldResource> begin_stream();
  // All that is wrong now, within kMaxFaultyNames.
  std::vector<Finding> findings() const;

 private:
  struct Name {
    std::uint64_t content = 0;  // hash of its NameInfo
    std::uint64_t key = 0;      // hash_of() its resource
    std::uint64_t table = 0;    // hash of its table's name
    std::uint32_t slot = 0;     // in its table's list
    std::uint32_t push = 0;     // the number of the last push that had it
    std::uint32_t parts = 0;    // of its good version; see kMaxParts
    bool is_refused = false;
  };
  struct Arrival {
    std::uint64_t id = 0;  // hash of the host
    std::uint64_t content = 0;
    std::uint64_t table = 0;
    const PushedName* text = nullptr;
    const PushedTable* pushed = nullptr;
  };
  class Update;

  static std::vector<Arrival> arrivals_of(const Push& push);
  std::vector<std::uint64_t> mentioned_tables(const Push& push, bool is_whole) const;
  std::size_t new_tables(const Push& push) const;
  void note_versions(const Push& push, bool is_whole);
  // Adds a name to the list of its table, and takes it out.
  void list(std::uint64_t id, Name& name);
  void unlist(const Name& name);

  const std::string origin_;
  const HeldLimits limits_;
  bool is_first_ = true;
  bool wants_whole_ = false;                       // of the next push
  std::uint32_t push_ = 0;                         // the number of the latest push
  std::size_t refused_ = 0;                        // names that are faulty
  std::size_t parts_ = 0;                          // of all names
  std::unordered_map<std::uint64_t, Name> names_;  // by id
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> tables_;  // ids, by table
  std::map<std::uint64_t, std::vector<Finding>> faults_;                  // by id
  std::map<std::string, std::string> versions_;  // by table, with a name or a version
};

}  // namespace meshdns::registry::istiod
