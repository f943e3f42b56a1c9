// SPDX-License-Identifier: Apache-2.0
// The resolver engine of the daemon, with its lookups through the query path and its view of the
// names of the mesh.
#pragma once

#include <uv.h>

#include <memory>

#include "dnsd/config/config.hpp"
#include "dnsd/mesh/endpoint_queries.hpp"
#include "dnsd/mesh/registry_feed.hpp"
#include "dnsd/mesh/registry_names.hpp"
#include "registry/base/result.hpp"
#include "registry/registry.hpp"
#include "resolver/names/cares_lookup.hpp"
#include "resolver/names/name_resolver.hpp"

namespace meshdns::dnsd {

// Control thread.
class EndpointResolution {
 public:
  // REQUIRES: all outlive it.
  EndpointResolution(registry::Registry& registry, registry::Publisher& publisher,
                     RegistryFeed& feed)
      : publisher_(publisher), feed_(feed), mesh_names_(registry) {}

  // The feed's names are resolved from now on.
  Result<void> start(uv_loop_t* loop, std::shared_ptr<ForwardShared> forwarding,
                     const UpstreamConfig& upstream, const CacheConfig& cache,
                     const QuerySettings& settings);
  // For lookups from now on; those that failed are tried again, and all of them when the servers
  // are others.
  void reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache);
  // All names may have other answers now.
  void reconfigure(const QuerySettings& settings);
  // A snapshot was published, maybe by the commit that is under way.  Nothing before start().
  void on_snapshot();
  // Names of the mesh may have other answers now.  Nothing before start().
  void recheck_all();
  // Ends all lookups; the loop has to run on for their handles to close.
  void close();

  // REQUIRES: started, and not closed.
  const resolver::NameResolver& resolver() const { return *resolver_; }

 private:
  registry::Publisher& publisher_;
  RegistryFeed& feed_;
  RegistryNames mesh_names_;
  UpstreamConfig upstream_;
  std::unique_ptr<EndpointQueries> queries_;
  std::unique_ptr<resolver::CaresLookups> lookups_;
  std::unique_ptr<resolver::NameResolver> resolver_;
};

}  // namespace meshdns::dnsd
