// SPDX-License-Identifier: Apache-2.0
// The resolver engine of the daemon, with its lookups and its view of the names of the mesh.
#pragma once

#include <uv.h>

#include <memory>

#include "dnsd/config/config.hpp"
#include "dnsd/daemon/endpoint_lookups.hpp"
#include "dnsd/daemon/registry_feed.hpp"
#include "dnsd/daemon/registry_names.hpp"
#include "dnsd/query/local_names.hpp"
#include "registry/base/result.hpp"
#include "registry/registry.hpp"
#include "resolver/name_resolver.hpp"

namespace meshdns::dnsd {

// Control thread.
class EndpointResolution {
 public:
  // REQUIRES: both outlive it.
  EndpointResolution(registry::Registry& registry, RegistryFeed& feed)
      : feed_(feed), mesh_names_(registry) {}

  // The feed's names are resolved from now on.
  Result<void> start(uv_loop_t* loop, std::shared_ptr<ForwardShared> forwarding,
                     const UpstreamConfig& upstream, const CacheConfig& cache);
  // For lookups from now on; those that failed are tried again.
  void reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache);
  // The names of the hosts file and of the overrides; null: there are none.
  void set_local(std::shared_ptr<const LocalNames> names);
  // Names of the mesh may have other answers now.  Nothing before start().
  void recheck_all();
  // Ends all lookups; the loop has to run on for their handles to close.
  void close();

  // REQUIRES: started, and not closed.
  const resolver::NameResolver& resolver() const { return *resolver_; }

 private:
  RegistryFeed& feed_;
  RegistryNames mesh_names_;
  std::unique_ptr<EndpointLookups> lookups_;
  std::unique_ptr<resolver::NameResolver> resolver_;
};

}  // namespace meshdns::dnsd
