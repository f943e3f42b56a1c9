// SPDX-License-Identifier: Apache-2.0
// Compares each push with the names that are held, so that a push of 100,000 names costs only what
// has changed in it: istiod sends the whole table for every change.
//
// Hashes are held, 40 bytes a name.  The texts are in the registry already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
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

  struct Difference {
    std::vector<OriginChange> changes;  // for SourceBatch; empty when nothing has changed
    std::size_t changed = 0;            // names that are new, other or gone
  };

  // `origin` stands for all that is held, in changes and findings.
  explicit HeldNames(std::string origin) : origin_(std::move(origin)) {}

  // Takes over a push and returns the difference.  The first push replaces what the origin had in
  // an earlier run.  A faulty name is refused by itself: its earlier version stays.  An Error says
  // why the whole push is refused; nothing has changed then.
  Result<Difference> take(const Push& push, NameInfoReader& reader);

  std::size_t size() const { return names_.size(); }
  std::size_t refused() const;
  // The versions of the tables that have one, for the next stream.
  std::vector<HeldResource> versions() const;
  // All that is wrong now, within kMaxFaultyNames.
  std::vector<Finding> findings() const;

 private:
  struct Name {
    std::uint64_t id = 0;       // of the host
    std::uint64_t content = 0;  // of its NameInfo
    std::uint64_t key = 0;      // hash_of() its resource
    std::uint64_t table = 0;
    bool is_refused = false;
  };
  struct Arrival {
    Name name;
    const PushedName* text = nullptr;
  };
  class Rest;
  class Comparison;

  static std::vector<Arrival> arrivals_of(const Push& push);
  void note_versions(const Push& push);

  const std::string origin_;
  bool is_first_ = true;
  std::vector<Name> names_;                               // by id
  std::map<std::uint64_t, std::vector<Finding>> faults_;  // by id
  std::map<std::string, std::string> versions_;           // by table
};

}  // namespace meshdns::registry::istiod
