// SPDX-License-Identifier: Apache-2.0
// Compares each push with the items that are held: names, or resources of the workload API.  A
// faulty item is refused by itself.  The texts and the objects are in the registry already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "registry/base/finding.hpp"
#include "registry/base/hash.hpp"
#include "registry/base/result.hpp"
#include "registry/source/istiod/ads.hpp"
#include "registry/source/istiod/workload_objects.hpp"
#include "registry/source/source.hpp"

namespace meshdns::registry::istiod {

// The difference that a push makes.
struct HeldDifference {
  std::vector<OriginChange> changes;  // for SourceBatch; empty when nothing has changed
  std::size_t changed = 0;            // items that are new, other or gone
  std::string refusal;                // the items that istiod hears about, and why; empty: none
};

// `Items` is a map of items, which have `parts` and `is_refused`.  One thread at a time.
template <typename Items>
class Held {
 public:
  using Difference = HeldDifference;

  // Items whose findings are kept; others are only counted.
  static constexpr std::size_t kMaxFaulty = 1'000;

  std::size_t size() const { return items_.size(); }
  std::size_t refused() const { return refused_; }
  // Returns the present findings, at most kMaxFaulty.
  std::vector<Finding> findings() const {
    std::vector<Finding> all;
    for (const auto& [key, findings] : faults_)
      all.insert(all.end(), findings.begin(), findings.end());
    return all;
  }

 protected:
  using Key = typename Items::key_type;
  using Item = typename Items::mapped_type;

  Held(std::string origin, HeldLimits limits) : origin_(std::move(origin)), limits_(limits) {}

  // The first push replaces what the origin had in an earlier run.
  OriginChange begin_change() const {
    OriginChange change;
    change.origin = origin_;
    change.effect = is_first_ ? OriginChange::Effect::Replace : OriginChange::Effect::Update;
    return change;
  }
  Difference end_change(OriginChange&& change, std::size_t changed) {
    Difference difference;
    difference.changed = changed;
    if (!std::exchange(is_first_, false) && changed == 0) return difference;
    change.findings = findings();
    difference.changes.push_back(std::move(change));
    return difference;
  }

  bool has_room(const Item& item, std::size_t parts) const {
    return parts_ - item.parts + parts <= limits_.parts;
  }
  void set_parts(Item& item, std::size_t parts) {
    parts_ += parts;
    parts_ -= std::exchange(item.parts, static_cast<std::uint32_t>(parts));
  }
  void set_refused(Item& item, bool is_refused) {
    refused_ += is_refused;
    refused_ -= std::exchange(item.is_refused, is_refused);
  }
  // Replaces the findings of an item.
  void set_findings(const Key& key, std::vector<Finding>&& findings) {
    faults_.erase(key);
    if (!findings.empty() && faults_.size() < kMaxFaulty) faults_.emplace(key, std::move(findings));
  }
  void forget(typename Items::iterator at) {
    set_parts(at->second, 0);
    set_refused(at->second, false);
    faults_.erase(at->first);
    items_.erase(at);
  }

  // Returns `all` for the next stream.  Empty when they are too many for a request: the first push
  // of that stream is the whole then.
  std::vector<HeldResource> for_request(std::vector<HeldResource>&& all) {
    std::size_t octets = 0;
    for (const HeldResource& resource : all) octets += resource.octets();
    wants_whole_ = octets > kMaxVersionOctets;
    if (wants_whole_) all.clear();
    return std::move(all);
  }

  const std::string origin_;  // stands for all that is held, in changes and findings
  const HeldLimits limits_;
  bool is_first_ = true;      // the next push
  bool wants_whole_ = false;  // of the next push
  std::size_t refused_ = 0;   // items that are faulty
  std::size_t parts_ = 0;     // of all items; see kMaxParts
  Items items_;
  std::map<Key, std::vector<Finding>> faults_;
};

struct HeldName {
  std::uint64_t content = 0;  // hash of its NameInfo
  std::uint64_t key = 0;      // hash_of() its resource
  std::uint64_t table = 0;    // hash of its table's name
  std::uint32_t slot = 0;     // in its table's list
  std::uint32_t push = 0;     // the number of the last push that had it
  std::uint32_t parts = 0;    // of its good version; see kMaxParts
  bool is_refused = false;
};

// The names of the pushed tables, by the hash of the host.  A push costs what it has to say: istiod
// sends the whole table for every change, of which only the changed names go on to the registry,
// and a push of some names among 100,000 does not look at the others.  Hashes are held, 80 bytes a
// name.  istiod does not hear of faulty names.
class HeldNames : public Held<std::unordered_map<std::uint64_t, HeldName>> {
 public:
  // A headless Service of 200,000 Pods.  protobuf needs 30 times as much to read it.
  static constexpr std::size_t kMaxInfoOctets = std::size_t{4} << 20;
  // An alternative host costs the registry as much as so many addresses.
  static constexpr std::size_t kPartsOfAltHost = 4;

  explicit HeldNames(std::string origin, HeldLimits limits = {})
      : Held(std::move(origin), limits) {}

  // Takes over a push and returns the difference.  The earlier version of a faulty name stays.  An
  // Error says why the whole push is refused; nothing has changed then.
  Result<Difference> take(const Push& push, MessageReader& reader);

  // The tables that have a name or a version, for the next stream; see for_request().
  std::vector<HeldResource> begin_stream();

 private:
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
  void list(std::uint64_t id, HeldName& name);
  void unlist(const HeldName& name);

  std::uint32_t push_ = 0;  // the number of the latest push
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> tables_;  // ids, by table
  std::map<std::string, std::string> versions_;  // by table, with a name or a version
};

struct HeldWorkload {
  std::uint64_t content = 0;
  std::string version;
  std::vector<std::uint64_t> keys;  // hash_of() those of its objects
  std::uint32_t parts = 0;          // of its objects; see kMaxParts
  bool was_good = false;            // some version of it
  bool is_refused = false;          // the last one
};

// The resources of the workload API, by name.  istiod sends only what has changed, and the whole at
// the beginning.  Of each resource a hash of its content and those of its objects' keys are held.
class HeldWorkloads : public Held<TextMap<HeldWorkload>> {
 public:
  // Resources that were never good and are remembered.
  static constexpr std::size_t kMaxNeverGood = 100'000;
  // A workload of 256 services with many ports each.  protobuf needs 60 times as much to read it.
  static constexpr std::size_t kMaxResourceOctets = std::size_t{1} << 20;

  HeldWorkloads(std::string origin, WorkloadRules rules, HeldLimits limits = {})
      : Held(std::move(origin), limits), rules_(std::move(rules)) {}

  // Takes over a push and returns the difference, never an Error.  The earlier version of a faulty
  // resource stays.
  Result<Difference> take(const Push& push, MessageReader& reader);

  // The names of all that is held, for the next stream; see for_request().
  std::vector<HeldResource> begin_stream();

 private:
  class Taking;

  const WorkloadRules rules_;
  std::size_t never_good_ = 0;
  std::size_t objects_ = 0;
};

}  // namespace meshdns::registry::istiod
