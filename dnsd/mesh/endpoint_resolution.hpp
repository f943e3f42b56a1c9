// SPDX-License-Identifier: Apache-2.0
// The resolver engine of the daemon, with its lookups through the query path and its view of the
// names of the mesh.
#pragma once

#include <uv.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dnsd/answer/query_settings.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/mesh/registry_feed.hpp"
#include "dnsd/mesh/registry_names.hpp"
#include "dnsd/net/query_sink.hpp"
#include "dnsd/query/query_clock.hpp"
#include "dnsd/query/query_handler.hpp"
#include "dnsd/query/upstreams.hpp"
#include "registry/base/handle.hpp"
#include "registry/base/result.hpp"
#include "registry/registry.hpp"
#include "registry/snapshot/publisher.hpp"
#include "resolver/forward/forwarder.hpp"
#include "resolver/names/cares_lookup.hpp"
#include "resolver/names/lookup.hpp"
#include "resolver/names/name_resolver.hpp"

namespace meshdns::dnsd {

// The parts that EndpointQueries uses.  REQUIRES: all outlive it.
struct EndpointQueryParts {
  uv_loop_t* loop;
  registry::Publisher& publisher;
  RegistryNames& names;
  std::shared_ptr<ForwardShared> forwarding;
};

// The query path for lookups of endpoint names: a handler like those of the workers, on the control
// thread, whose clients are namespaces.
//
// It is the engine's alone, so that its queries are in no account of clients: `server.allow`,
// `server.rate_limit`, cookies, the query log, the kernel, the counters of queries.  The cache, the
// upstream servers' state and the questions in flight are those of all.
class EndpointQueries final : public resolver::QueryPath, private ReplySender {
 public:
  // `settings`: as those of the workers.
  EndpointQueries(const EndpointQueryParts& parts, const UpstreamConfig& upstream,
                  const CacheConfig& cache, const QuerySettings& settings);

  // For queries from now on.
  void reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache);
  void reconfigure(const QuerySettings& settings);
  // A snapshot was published, maybe by the commit that is under way.
  void on_snapshot();
  // Ends all queries without a reply; the loop has to run on for the handles to close.
  void close();

  void ask(resolver::PathQuery query, Reply reply) override;

 private:
  struct Asked {
    std::string ns;
    std::string host;
    Reply reply;
  };
  Asker asker_of(const ReplyTo& reply_to);
  void send(const ReplyTo& reply_to, std::span<const std::uint8_t> message) override;
  void drop(const ReplyTo& reply_to) override { send(reply_to, {}); }

  RegistryNames& names_;
  LoopClock clock_;
  Forwarder forwarder_;
  ForwarderUpstreams upstream_;
  QueryHandler handler_;
  loop::Timer snapshot_timer_;
  std::uint32_t last_number_ = 0;
  std::map<std::uint32_t, Asked> asked_;  // by the number that is the slot of the reply
  std::vector<std::uint8_t> buffer_;
};

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
  // are others.  Nothing before start().
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
