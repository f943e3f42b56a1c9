// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/endpoint_resolution.hpp"

#include <chrono>
#include <utility>

namespace meshdns::dnsd {

Result<void> EndpointResolution::start(uv_loop_t* loop, std::shared_ptr<ForwardShared> forwarding,
                                       const UpstreamConfig& upstream, const CacheConfig& cache) {
  auto lookups = EndpointLookups::open(loop, std::move(forwarding), upstream, cache);
  if (!lookups) return std::unexpected(lookups.error());
  lookups_ = std::move(*lookups);
  resolver_ = std::make_unique<resolver::NameResolver>(
      loop, *lookups_, resolver::ResolverPolicy{}, [] { return std::chrono::steady_clock::now(); },
      feed_, &mesh_names_);
  feed_.set_resolver(resolver_.get());
  return {};
}

void EndpointResolution::reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache) {
  lookups_->reconfigure(upstream, cache);
  resolver_->retry_failed();
}

void EndpointResolution::set_local(std::shared_ptr<const LocalNames> names) {
  mesh_names_.set_local(std::move(names));
}

void EndpointResolution::recheck_all() {
  if (resolver_) resolver_->recheck_all();
}

void EndpointResolution::close() {
  feed_.set_resolver(nullptr);
  resolver_.reset();
  if (lookups_) lookups_->close();
  lookups_.reset();
}

}  // namespace meshdns::dnsd
