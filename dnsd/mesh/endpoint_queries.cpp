// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/endpoint_queries.hpp"

#include <algorithm>
#include <utility>

namespace meshdns::dnsd {
namespace {

// A stale answer is no answer for the engine, which has the last good one itself.
CacheConfig without_stale_answers(CacheConfig cache) {
  cache.serve_stale = std::chrono::seconds(0);
  return cache;
}

// Translated addresses are for clients without IPv4, which a mesh need not be.
QuerySettings settings_of_engine(QuerySettings settings) {
  settings.allow = AccessList({*IpPrefix::parse("0.0.0.0/0"), *IpPrefix::parse("::/0")});
  settings.rate_limit = {};
  settings.cookie_secrets.reset();
  settings.dns64.reset();
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

}  // namespace meshdns::dnsd
