// SPDX-License-Identifier: Apache-2.0
// The registry of the daemon, and all that hangs on it alone: how it is published, fed, analysed,
// and what its changes did to answers.
#pragma once

#include "dnsd/config/config.hpp"
#include "dnsd/daemon/answer_watch.hpp"
#include "dnsd/daemon/mesh_analysis.hpp"
#include "dnsd/daemon/registry_feed.hpp"
#include "dnsd/daemon/running_sources.hpp"
#include "dnsd/log/log.hpp"
#include "registry/registry.hpp"
#include "registry/snapshot/publisher.hpp"

namespace meshdns::dnsd {

// Control thread.
struct MeshState {
  // REQUIRES: `log` outlives it.
  MeshState(const Config& config, Log& log);
  MeshState(const MeshState&) = delete;
  MeshState& operator=(const MeshState&) = delete;

  // Tells the registry how much `sources` have delivered.  True: answers may be others now.
  bool update(const Config& config, const RunningSources& sources);

  registry::Registry registry;
  registry::Publisher publisher;
  RegistryFeed feed;
  MeshAnalysis analysis;
  AnswerWatch answers;
};

}  // namespace meshdns::dnsd
