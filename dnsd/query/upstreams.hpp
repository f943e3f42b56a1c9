// SPDX-License-Identifier: Apache-2.0
// The access of the query path to the cache and the forwarder.  An interface, so that tests of the
// query path need no sockets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dnsd/answer/forwarding_facts.hpp"
#include "resolver/cache/cache.hpp"
#include "resolver/cache/cached_message.hpp"
#include "resolver/forward/forwarder.hpp"

namespace meshdns::dnsd {

// One worker's thread only.
class Upstreams {
 public:
  virtual ~Upstreams() = default;

  // As Cache::answer: replies to `query` if the cache has an answer.
  virtual Cache::Hit answer(const wire::QueryMessage& query, const ReplyFrame& frame, Millis now,
                            std::uint32_t rotation) = 0;
  // The cache entry of `key`: fresh, or stale while its refresh is paused.
  struct Known {
    MessageRef message;  // null: ask
    Freshness freshness = Freshness::Fresh;
  };
  virtual Known find(const CacheKey& key, Millis now) = 0;
  // Returns whether a zone of upstream.zones or of a link has other servers for `target` than those
  // that are asked for `name`; with `also_outside`, whether any other servers are asked.  Names in
  // lower-case wire form.
  virtual bool has_other_servers(std::string_view name, std::string_view target,
                                 bool also_outside) const = 0;
  // As Forwarder::resolve: calls back exactly once, never from inside.
  virtual void resolve(ForwardRequest request, OutcomeCallback callback) = 0;
  // As Forwarder::refresh.
  virtual void refresh(ForwardRequest request) = 0;
  // For explanations.  `wire_name`: lower case.
  virtual ForwardingFacts describe(std::string_view wire_name, wire::Type type,
                                   Millis now) const = 0;
  // Calls back for every resolve() under way, then nothing more.
  virtual void close() = 0;
};

// Whether cache entries that are past their time are answers.  The forwarder has a setting of its
// own.
enum class StaleAnswers : std::uint8_t { Used, Unused };

// The worker's own forwarder and the cache that all share.
class ForwarderUpstreams final : public Upstreams {
 public:
  // REQUIRES: `forwarder` outlives this; `shared` is the argument of its constructor.
  ForwarderUpstreams(Forwarder& forwarder, std::shared_ptr<ForwardShared> shared,
                     StaleAnswers stale = StaleAnswers::Used)
      : forwarder_(forwarder), shared_(std::move(shared)), stale_(stale) {}

  Cache::Hit answer(const wire::QueryMessage& query, const ReplyFrame& frame, Millis now,
                    std::uint32_t rotation) override;
  Known find(const CacheKey& key, Millis now) override;
  bool has_other_servers(std::string_view name, std::string_view target,
                         bool also_outside) const override;
  void resolve(ForwardRequest request, OutcomeCallback callback) override;
  void refresh(ForwardRequest request) override;
  ForwardingFacts describe(std::string_view wire_name, wire::Type type, Millis now) const override;
  void close() override;

 private:
  Forwarder& forwarder_;
  std::shared_ptr<ForwardShared> shared_;
  StaleAnswers stale_;
};

}  // namespace meshdns::dnsd
