// SPDX-License-Identifier: Apache-2.0
// Sources of resources, and the interface by which they reach the registry.  A source follows
// something (files, an API) by itself and hands over the changes; the registry compares and
// applies.
//
// The unit of change is the *origin*: one file, one API collection.  The content of a file
// replaces its earlier content; a collection reports single objects as they change.  Either way a
// source needs no memory of resources: the registry alone holds them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/finding.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {

struct ParsedResource {
  Resource resource;
  std::uint32_t line = 0;  // of the object's first line, 1-based; 0 = unknown
};

// Resources on their way to the registry, encoded one behind the other: as C++ objects, 100,000 of
// them take 80 MB for a moment and leave the heap in pieces for ever.
class EncodedResources {
 public:
  void push_back(const ParsedResource& parsed);
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

struct OriginChange {
  enum class Effect : std::uint8_t {
    Replace,  // `resources` and `keep` are all that this origin holds from now on
    Update,   // `resources` are added or exchanged, `removed` go; all else stays as it is
    Retain,   // of what the origin holds, what `retained` does not list goes: the end of a list
              // that came page by page as Update
    Remove,   // the origin is gone, and its objects with it
    Keep,     // its objects stay as they are (unreadable, half-written); only `findings` is new
  };
  std::string origin;  // a file's path, or the name of a collection
  Effect effect = Effect::Replace;
  EncodedResources resources;  // in the order of the text; a key may occur twice
  // Objects that were refused: the version that this very origin gave before stays, if there is
  // one.
  std::vector<ResourceKey> keep;
  // For Effect::Update; a key that is not held is no fault.
  std::vector<ResourceKey> removed;
  // As `removed`, by hash_of(key), for a source that holds no keys.
  std::vector<std::uint64_t> removed_hashes;
  // For Effect::Retain: hash_of(key), sorted (registry/snapshot/stored_resource.hpp).
  std::vector<std::uint64_t> retained;
  // The present findings of this origin; they replace the former ones, so that an empty list with
  // Effect::Keep clears all of them.  Origins of directories have findings only.
  std::vector<Finding> findings;
};

// An event that is worth a line of the log.
struct SourceNotice {
  bool is_warning = false;
  std::string text;
};

// Changes that belong together: to be applied in one transaction.  No origin occurs twice, save
// that the Retain of a list may follow its last Update.
struct SourceBatch {
  std::string source;  // the source's own name
  std::vector<OriginChange> changes;
  // The source has been read as a whole at least once.  Stays true from then on.
  bool complete = false;
  // The endpoints of headless Services may not be read: of one without any nothing is known.
  bool lacks_endpoints = false;
  // If set: all origins that the source has.  Its other origins are removed, such as those of an
  // earlier run.
  std::optional<std::vector<std::string>> origins = {};
  std::vector<SourceNotice> notices = {};
};

// REQUIRES: outlives the sources that know it.
class SourceSink {
 public:
  virtual ~SourceSink() = default;
  // Control thread, never from within a call of Source.  `batch.changes` is empty when only
  // `complete` has changed.
  virtual void apply(SourceBatch&& batch) = 0;
};

// Durations, as counts by upper limit.
struct DelayHistogram {
  static constexpr std::array<double, 14> kLimits = {
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60};
  std::array<std::uint64_t, kLimits.size() + 1> counts{};  // the last one: beyond all limits
  double sum = 0;                                          // seconds
  void observe(double seconds);
};

// One collection of an API.
struct CollectionStatus {
  std::string name;
  bool synced = false;    // listed as a whole at least once
  bool watching = false;  // a watch is open
  std::string trouble;    // "forbidden", "unreachable", ...; empty when all is well
  std::string error;
  std::string resource_version;
  std::uint64_t objects = 0;
  std::uint64_t lists = 0;
  std::uint64_t watches = 0;
  std::uint64_t relists = 0;  // of the lists, those that a watch could not do without
  std::uint64_t events = 0;
  std::uint64_t errors = 0;   // of requests
  std::uint64_t refused = 0;  // objects that are served from an earlier state, or not at all
  double silent_seconds = 0;  // since the server last said anything about it
};

// The status of a source that follows a cluster's API.
struct ClusterStatus {
  bool reachable = false;
  std::vector<CollectionStatus> collections;
  DelayHistogram from_arrival;  // of an event, until answers show it
  DelayHistogram from_trigger;  // of EndpointSlices: from the change that their controller saw
};

// The status of a source that istiod sends names to.
struct ControlPlaneStatus {
  bool connected = false;
  std::string server;          // "HOST:PORT" of the stream, or of the last try
  std::string version;         // of the last good push, as istiod names it; may be empty
  std::uint64_t names = 0;     // that the source holds
  std::uint64_t refused = 0;   // names that are served from an earlier state, or not at all
  std::uint64_t connects = 0;  // streams that were begun
  std::uint64_t pushes = 0;    // good ones
  std::uint64_t refused_pushes = 0;
  std::uint64_t changed_names = 0;  // by all pushes, the first one included
  std::uint64_t bytes = 0;          // of pushes
  double silent_seconds = 0;        // since the last push
};

struct SourceStatus {
  std::string name;
  bool complete = false;      // as in SourceBatch
  std::size_t origins = 0;    // that are served, the last good state of broken ones included
  std::size_t broken = 0;     // origins that are served from an earlier state, or not at all
  std::uint64_t reads = 0;    // times that something was looked at or listed
  std::uint64_t changes = 0;  // origins handed over
  std::string last_error;     // empty when all is well
  std::optional<ClusterStatus> cluster;
  std::optional<ControlPlaneStatus> control_plane;
};

// Control thread.  Destruction stops it: the sink hears nothing afterwards.
class Source {
 public:
  virtual ~Source() = default;
  virtual void start() = 0;
  // Looks at everything again, as on SIGHUP, whether or not it seems to have changed; repeats the
  // findings of what is still broken.
  virtual void rescan() = 0;
  virtual SourceStatus status() const = 0;
};

}  // namespace meshdns::registry
