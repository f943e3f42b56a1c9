// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query/upstreams.hpp"

namespace meshdns::dnsd {

Cache::Hit ForwarderUpstreams::answer(const wire::QueryMessage& query, const ReplyFrame& frame,
                                      Millis now, std::uint32_t rotation) {
  if (stale_ == StaleAnswers::Used) return shared_->cache.answer(query, frame, now, rotation);
  Cache::Hit hit;
  hit.message = find(CacheKey(question_of(query), query.has_edns && query.edns.dnssec_ok,
                              query.checking_disabled),
                     now)
                    .message;
  return hit;
}

Upstreams::Known ForwarderUpstreams::find(const CacheKey& key, Millis now) {
  if (MessageRef fresh = shared_->cache.find(key, now)) return {std::move(fresh), Freshness::Fresh};
  if (stale_ == StaleAnswers::Unused || !shared_->cache.is_refresh_paused(key, now)) return {};
  return {shared_->cache.find_stale(key, now), Freshness::Stale};
}

bool ForwarderUpstreams::has_other_servers(std::string_view name, std::string_view target,
                                           bool also_outside) const {
  return forwarder_.has_other_servers(name, target, also_outside);
}

void ForwarderUpstreams::resolve(ForwardRequest request, OutcomeCallback callback) {
  forwarder_.resolve(std::move(request), std::move(callback));
}

void ForwarderUpstreams::refresh(ForwardRequest request) { forwarder_.refresh(std::move(request)); }

ForwardingFacts ForwarderUpstreams::describe(std::string_view wire_name, wire::Type type,
                                             Millis now) const {
  return forwarding_facts(forwarder_.route(wire_name), *shared_, wire_name, type, now);
}

void ForwarderUpstreams::close() { forwarder_.close(); }

}  // namespace meshdns::dnsd
