// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/endpoint_resolution.hpp"

#include <chrono>
#include <utility>

namespace meshdns::dnsd {
namespace {

// More than the query path needs, which may wait for addresses of the mesh, then begin its last
// question upstream after two time-outs, and wait for that: only it tries again.
std::chrono::milliseconds timeout_of_lookups(const UpstreamConfig& upstream) {
  return 5 * upstream.timeout;
}

}  // namespace

Result<void> EndpointResolution::start(uv_loop_t* loop, std::shared_ptr<ForwardShared> forwarding,
                                       const UpstreamConfig& upstream, const CacheConfig& cache,
                                       const QuerySettings& settings) {
  upstream_ = upstream;
  mesh_names_.set_local(settings.local);
  queries_ = std::make_unique<EndpointQueries>(
      EndpointQueryParts{loop, publisher_, mesh_names_, std::move(forwarding)}, upstream, cache,
      settings);
  auto lookups = resolver::CaresLookups::open(loop, *queries_, timeout_of_lookups(upstream));
  if (!lookups) {
    close();
    return std::unexpected(lookups.error());
  }
  lookups_ = std::move(*lookups);
  resolver_ = std::make_unique<resolver::NameResolver>(
      loop, *lookups_, resolver::ResolverPolicy{}, [] { return std::chrono::steady_clock::now(); },
      feed_, &mesh_names_);
  feed_.set_resolver(resolver_.get());
  return {};
}

void EndpointResolution::reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache) {
  const bool has_changed = std::exchange(upstream_, upstream) != upstream;
  queries_->reconfigure(upstream, cache);
  lookups_->set_timeout(timeout_of_lookups(upstream));
  has_changed ? resolver_->retry_all() : resolver_->retry_failed();
}

void EndpointResolution::reconfigure(const QuerySettings& settings) {
  mesh_names_.set_local(settings.local);
  queries_->reconfigure(settings);
  resolver_->recheck_all();
}

void EndpointResolution::on_snapshot() {
  if (queries_) queries_->on_snapshot();
}

void EndpointResolution::recheck_all() {
  if (resolver_) resolver_->recheck_all();
}

void EndpointResolution::close() {
  feed_.set_resolver(nullptr);
  resolver_.reset();
  lookups_.reset();
  if (queries_) queries_->close();
  queries_.reset();
}

}  // namespace meshdns::dnsd
