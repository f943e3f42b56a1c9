// SPDX-License-Identifier: Apache-2.0
// The sources of the configuration, as they run.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/mesh/configured_sources.hpp"
#include "dnsd/mesh/registry_feed.hpp"
#include "registry/source/server_lookup.hpp"
#include "registry/source/source.hpp"

namespace meshdns::dnsd {

struct SourceReport {
  registry::SourceStatus status;
  std::chrono::steady_clock::time_point last_change;  // it has delivered nothing new since
};

// Control thread.
class RunningSources {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // REQUIRES: all outlive it.
  RunningSources(uv_loop_s* loop, RegistryFeed& feed, registry::ServerLookup& servers, Time started)
      : loop_(loop), feed_(feed), servers_(servers), started_(started) {}

  // Starts the sources of `config` that do not run yet, and ends those that it does not have.
  void follow(const Config& config);
  // Reads all of them again.
  void rescan();
  void clear() { sources_.clear(); }

  std::size_t size() const { return sources_.size(); }
  // Returns whether each has delivered all that it has, and awaits no namespace.
  bool are_complete() const;
  // The first source of which nothing is known; empty: none.
  std::string awaited() const;
  std::vector<SourceReport> reports() const;

  // To be called every second.
  void note_changes(Time now);

 private:
  struct Running {
    SourceConfig config;
    std::optional<registry::kubernetes::WatchNeeds> needs;  // of Kubernetes sources
    std::vector<registry::Kind> gateway_kinds;
    std::string name;
    std::unique_ptr<registry::Source> source;
    // Under an earlier configuration of this run: the daemon was ready, and awaits no namespace.
    bool was_complete = false;
  };
  struct Freshness {
    std::uint64_t changes = 0;
    Time at;
  };

  static registry::SourceStatus status_of(const Running& running);
  bool is_complete(const Running& running) const;
  Time last_change(const std::string& source) const;

  uv_loop_s* loop_;
  RegistryFeed& feed_;
  registry::ServerLookup& servers_;
  const Time started_;
  std::vector<Running> sources_;
  std::map<std::string, Freshness> freshness_;  // by source
};

}  // namespace meshdns::dnsd
