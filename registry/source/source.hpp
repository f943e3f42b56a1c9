// SPDX-License-Identifier: Apache-2.0
// Sources of resources, and the interface by which they reach the registry.  A source follows
// something (files, an API) by itself and hands over the changes; the registry compares and
// applies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "registry/snapshot/transaction.hpp"

namespace meshdns::registry {

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
  // The same for Sidecars and MeshConfig.
  bool lacks_policies = false;
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

// How far one collection of an API has been read.
struct CollectionProgress {
  bool synced = false;    // listed as a whole at least once
  bool watching = false;  // a watch is open
  std::string error;      // in words; empty when all is well
  std::string resource_version;
  std::uint64_t objects = 0;
  std::uint64_t lists = 0;  // whole ones
  std::uint64_t watches = 0;
  std::uint64_t relists = 0;  // of the lists, those that a watch could not do without
  std::uint64_t events = 0;
  std::uint64_t errors = 0;  // of requests
};
struct CollectionStatus : CollectionProgress {
  std::string name;
  std::string trouble;        // "forbidden", "unreachable", ...; empty when all is well
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
  // The configuration names a namespace that neither this run nor an earlier one has seen; if it is
  // known to be missing, `last_error` names it.
  bool awaits_namespace = false;
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
