// SPDX-License-Identifier: Apache-2.0
// The parts of a QueryHandler without sockets and time: a cache without an upstream, replies that
// are dropped, a clock that stands still.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "dnsd/net/query_sink.hpp"
#include "dnsd/query/query_clock.hpp"
#include "dnsd/query/upstreams.hpp"
#include "resolver/cache/answer_builder.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/response_message.hpp"

namespace meshdns::bench {

inline constexpr dnsd::Millis kNow = 1000;

inline wire::ResponseMessage answer_to(std::string_view name, wire::Type type) {
  wire::ResponseMessage response;
  response.question = {*wire::name_from_text(name), type, wire::Class::In};
  response.question_name = response.question.name;
  return response;
}

inline wire::ResponseRecord record_of(std::string_view name, wire::Type type, std::string rdata) {
  wire::ResponseRecord record;
  record.owner = *wire::name_from_text(name);
  record.type = type;
  record.rclass = wire::Class::In;
  record.ttl = 3600;
  record.rdata = std::move(rdata);
  return record;
}

class CacheAlone final : public dnsd::Upstreams {
 public:
  // False: no answer can be made of it.
  bool learn(const wire::ResponseMessage& response) {
    const auto built = dnsd::build_answer(
        {.question = response.question, .sent_name = response.question.name, .response = response},
        {}, kNow);
    if (!built) return false;
    cache_.store(*built, dnsd::CacheKey(response.question, false, false));
    return true;
  }
  // Questions that would have been asked upstream.
  std::size_t misses() const { return misses_; }

  dnsd::Cache::Hit answer(const wire::QueryMessage& query, const dnsd::ReplyFrame& frame,
                          dnsd::Millis now, std::uint32_t rotation) override {
    return cache_.answer(query, frame, now, rotation);
  }
  Known find(const dnsd::CacheKey& key, dnsd::Millis now) override {
    return {cache_.find(key, now), dnsd::Freshness::Fresh};
  }
  bool has_other_servers(std::string_view, std::string_view, bool) const override { return false; }
  void resolve(dnsd::ForwardRequest request, dnsd::OutcomeCallback callback) override {
    ++misses_;
    const dnsd::CacheKey key(request.question, request.dnssec_ok, request.checking_disabled);
    waiting_.emplace_back(key, std::move(callback));
  }
  // Ends what waits with SERVFAIL.
  void fail_all() {
    auto waiting = std::exchange(waiting_, {});
    for (auto& [key, callback] : waiting)
      callback({.message = dnsd::build_failure(key, {}, kNow), .upstream = {}});
  }
  void refresh(dnsd::ForwardRequest) override {}
  dnsd::ForwardingFacts describe(std::string_view, wire::Type, dnsd::Millis) const override {
    return {};
  }
  void close() override {}

 private:
  dnsd::Cache cache_{dnsd::CacheConfig{}};
  std::size_t misses_ = 0;
  std::vector<std::pair<dnsd::CacheKey, dnsd::OutcomeCallback>> waiting_;
};

class NoReplies final : public dnsd::ReplySender {
 public:
  void send(const dnsd::ReplyTo&, std::span<const std::uint8_t>) override {}
  void drop(const dnsd::ReplyTo&) override {}
};

class StandingClock final : public dnsd::QueryClock {
 public:
  dnsd::Millis now() override { return kNow; }
  std::uint64_t precise_now() override { return kNow * 1'000'000; }
  std::uint32_t unix_time() override { return static_cast<std::uint32_t>(kNow / 1000); }
  void call_at(dnsd::Millis, std::function<void()>) override {}
  void cancel() override {}
  void close() override {}
};

}  // namespace meshdns::bench
