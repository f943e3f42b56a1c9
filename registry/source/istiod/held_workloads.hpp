// SPDX-License-Identifier: Apache-2.0
// Compares each push of the workload API with the resources that are held.  istiod sends only what
// has changed, and the whole at the beginning.
//
// Of each resource a hash and the keys of its objects are held: 390 bytes for a Pod of one service.
// The objects are in the registry already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "registry/base/finding.hpp"
#include "registry/base/hash.hpp"
#include "registry/source/istiod/ads.hpp"
#include "registry/source/istiod/workload_objects.hpp"
#include "registry/source/source.hpp"

namespace meshdns::registry::istiod {

// One thread at a time.
class HeldWorkloads {
 public:
  // Resources whose findings are kept; others are only counted.
  static constexpr std::size_t kMaxFaulty = 1'000;
  // Resources that were never good and are remembered.
  static constexpr std::size_t kMaxNeverGood = 100'000;
  // A workload of 256 services with many ports each.  protobuf needs 60 times as much to read it.
  static constexpr std::size_t kMaxResourceOctets = std::size_t{1} << 20;

  struct Difference {
    std::vector<OriginChange> changes;  // for SourceBatch; empty when nothing has changed
    std::size_t changed = 0;            // resources that are new, other or gone
    std::string refusal;                // the resources that are refused, and why; empty: none
  };

  // `origin` stands for all that is held, in changes and findings.
  HeldWorkloads(std::string origin, WorkloadRules rules, HeldLimits limits = {})
      : origin_(std::move(origin)), rules_(std::move(rules)), limits_(limits) {}

  // Takes over a push and returns the difference.  The first push replaces what the origin had in
  // an earlier run.  A faulty resource is refused by itself: its earlier version stays.
  Difference take(const Push& push, MessageReader& reader);

  std::size_t size() const { return held_.size(); }
  std::size_t refused() const { return refused_; }
  // The names of all that is held, for the next stream.  Empty when they are too many for a
  // request: the first push of that stream is the whole then.
  std::vector<HeldResource> begin_stream();

 private:
  struct Held {
    std::uint64_t content = 0;
    std::string version;
    std::string keys;  // of its objects, packed
    std::uint32_t objects = 0;
    std::uint32_t parts = 0;  // of its objects; see kMaxParts
    bool was_good = false;    // some version of it
    bool is_refused = false;  // the last one
  };
  class Taking;

  void forget(const std::string& name);
  std::vector<Finding> findings() const;

  const std::string origin_;
  const WorkloadRules rules_;
  const HeldLimits limits_;
  bool is_first_ = true;
  bool wants_whole_ = false;  // of the next push
  TextMap<Held> held_;
  std::size_t refused_ = 0;
  std::size_t never_good_ = 0;
  std::size_t objects_ = 0;
  std::size_t parts_ = 0;  // of all objects
  std::map<std::string, Finding> faults_;
};

}  // namespace meshdns::registry::istiod
