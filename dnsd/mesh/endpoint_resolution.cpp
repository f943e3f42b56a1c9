// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/endpoint_resolution.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace meshdns::dnsd {
namespace {

// A stale answer is no answer for the engine, which has the last good one itself.
CacheConfig without_stale_answers(CacheConfig cache) {
  cache.serve_stale = std::chrono::seconds(0);
  return cache;
}

// Translated addresses are for clients without IPv4, which a mesh need not be.  The names of
// endpoints are the registry's own, whatever a namespace's clients may reach.
QuerySettings settings_of_engine(QuerySettings settings) {
  settings.allow = AccessList({*IpPrefix::parse("0.0.0.0/0"), *IpPrefix::parse("::/0")});
  settings.rate_limit = {};
  settings.cookie_secrets.reset();
  settings.dns64.reset();
  settings.registry_only.reset();
  return settings;
}

}  // namespace

EndpointQueries::EndpointQueries(const EndpointQueryParts& parts, const UpstreamConfig& upstream,
                                 const CacheConfig& cache, const QuerySettings& settings)
    : names_(parts.names),
      clock_(parts.loop),
      forwarder_(parts.loop, parts.forwarding, upstream, without_stale_answers(cache)),
      upstream_(forwarder_, parts.forwarding, StaleAnswers::Unused),
      handler_({.publisher = parts.publisher,
                .upstream = upstream_,
                .replies = *this,
                .clock = clock_,
                .log = nullptr,
                .tcp_idle_timeout = {},
                .asker = [this](const ReplyTo& reply_to) { return asker_of(reply_to); }},
               settings_of_engine(settings)),
      snapshot_timer_(parts.loop, [this] { handler_.on_snapshot(); }),
      buffer_(kTcpBufferSize) {}

void EndpointQueries::reconfigure(const UpstreamConfig& upstream, const CacheConfig& cache) {
  forwarder_.reconfigure(upstream, without_stale_answers(cache));
}

void EndpointQueries::reconfigure(const QuerySettings& settings) {
  handler_.reconfigure(settings_of_engine(settings));
}

// The registry takes no new results while it publishes.
void EndpointQueries::on_snapshot() { snapshot_timer_.start(std::chrono::milliseconds(0)); }

void EndpointQueries::close() {
  snapshot_timer_.close();
  handler_.on_stop();
  asked_.clear();
}

Asker EndpointQueries::asker_of(const ReplyTo& reply_to) {
  const Asked& asked = asked_.at(reply_to.slot);
  return {.client = &names_.client_for_lookup(asked.ns, clock_.now()), .endpoint_name = asked.host};
}

void EndpointQueries::ask(resolver::PathQuery query, Reply reply) {
  ReplyTo reply_to;
  reply_to.client.tcp = true;
  reply_to.slot = ++last_number_;
  asked_[reply_to.slot] = {std::move(query.ns), std::move(query.host), std::move(reply)};
  std::ranges::copy(query.message, buffer_.begin());
  const std::size_t size = handler_.on_query(buffer_, query.message.size(), reply_to);
  if (size != QuerySink::kReplyLater)
    send(reply_to, std::span<const std::uint8_t>(buffer_).first(size));
}

void EndpointQueries::send(const ReplyTo& reply_to, std::span<const std::uint8_t> message) {
  if (const auto asked = asked_.extract(reply_to.slot)) asked.mapped().reply(message);
}

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
  if (!queries_) return;
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
