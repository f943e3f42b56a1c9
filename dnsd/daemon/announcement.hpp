// SPDX-License-Identifier: Apache-2.0
// The end of a start, as the log, the supervisor and a person at a terminal hear of it.
#pragma once

#include <chrono>
#include <cstdint>

#include "dnsd/config/config.hpp"
#include "dnsd/daemon/health_watch.hpp"
#include "dnsd/daemon/served_addresses.hpp"
#include "dnsd/daemon/supervisor.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/mesh_state.hpp"
#include "dnsd/mesh/running_sources.hpp"

namespace meshdns::dnsd {

// Control thread.
class Announcement {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // After this time, the log and the supervisor hear that the daemon answers, though a source has
  // not been read: it answers all queries that do not depend on that source.
  static constexpr std::chrono::seconds kServingAnyway{5};

  struct Parts {
    const Config& config;
    MeshState& mesh;
    const RunningSources& sources;
    const ServedAddresses& addresses;
    const WorkerPool& workers;
    const HealthWatch& health;
    Supervisor& supervisor;
    Log& log;
  };
  // REQUIRES: all that `parts` refers to outlives it.
  Announcement(const Parts& parts, Time started) : parts_(parts), started_(started) {}

  // Says once that everything is answered, when the sources have been read.  If they take long,
  // says before it, once, that the rest is.  Call every second, and when a source was read.
  void make_when_due();

 private:
  enum class Announced : std::uint8_t { Nothing, Serving, Ready };

  std::string facts() const;
  void show_first_steps() const;

  const Parts parts_;
  const Time started_;
  Announced announced_ = Announced::Nothing;
};

}  // namespace meshdns::dnsd
