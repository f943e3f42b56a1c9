// SPDX-License-Identifier: Apache-2.0
// The registry of the daemon, and all that hangs on it alone: how it is published, fed, analysed,
// and what its changes did to answers.
#pragma once

#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/answer_watch.hpp"
#include "dnsd/mesh/mesh_analysis.hpp"
#include "dnsd/mesh/registry_feed.hpp"
#include "dnsd/mesh/running_sources.hpp"
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
