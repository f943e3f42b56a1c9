// SPDX-License-Identifier: Apache-2.0
// Fake parts for a QueryHandler, without sockets: an upstream with scripted answers, a sender that
// records replies, and a clock that the test sets.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dnsd/net/query_sink.hpp"
#include "dnsd/query/query_clock.hpp"
#include "dnsd/query/upstreams.hpp"
#include "resolver/cache/answer_builder.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd {

// When the tests begin, and when the upstream answered.
inline constexpr Millis kStart = 1000;

// "www.example.org. 60 A 192.0.2.1"; A, AAAA, CNAME, TXT (one word) and SOA (numbers made up).
inline wire::ResponseRecord record_from(std::string_view line) {
  const auto word = [&line] {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string text(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
    return text;
  };
  wire::ResponseRecord record;
  record.owner = *wire::name_from_text(word());
  record.ttl = static_cast<std::uint32_t>(std::stoul(word()));
  if (!wire::type_from_string(word(), record.type)) ADD_FAILURE() << "no type in " << line;
  record.rclass = wire::Class::In;
  const std::string data = word();
  switch (record.type) {
    case wire::Type::A: {
      const IpAddress address = *IpAddress::parse(data);
      record.rdata.assign(reinterpret_cast<const char*>(address.octets().data()) + 12, 4);
      break;
    }
    case wire::Type::Aaaa: {
      const IpAddress address = *IpAddress::parse(data);
      record.rdata.assign(reinterpret_cast<const char*>(address.octets().data()), 16);
      break;
    }
    case wire::Type::Cname:
      record.rdata = *wire::name_from_text(data);
      break;
    case wire::Type::Soa:
      record.rdata = *wire::name_from_text(data) + *wire::name_from_text(data) +
                     std::string(16, '\0') + std::string("\0\0\0\x1e", 4);
      break;
    default:
      record.rdata = static_cast<char>(data.size()) + data;
  }
  return record;
}

// The scripted reply of an upstream server to one question.
struct UpstreamReply {
  wire::Rcode rcode = wire::Rcode::NoError;
  std::vector<std::string> answer = {};
  std::vector<std::string> authority = {};
};

class FakeUpstream final : public Upstreams {
 public:
  // "www.example.org. A" -> reply.  Other names are NXDOMAIN with a SOA; a reply with SERVFAIL
  // is a failure of all upstreams.
  std::map<std::string, UpstreamReply> replies;
  // "www.example.org. A" of each question that was sent.
  std::vector<std::string> asked;
  std::vector<std::string> refreshed;
  // Questions that the cache answers at once, from `replies`.
  std::vector<std::string> cached;
  Freshness cached_freshness = Freshness::Fresh;
  bool closed = false;
  // "corp.example.": zones with servers of their own, the longer ones first.
  std::vector<std::string> zones;
  std::uint32_t packets = 1;  // that each question takes

  Cache::Hit answer(const wire::QueryMessage& query, const ReplyFrame& frame, Millis now,
                    std::uint32_t rotation) override {
    const wire::Question question = question_of(query);
    if (!is_cached(question)) return {};
    const MessageRef message = build(question);
    Cache::Hit hit;
    hit.freshness = cached_freshness;
    hit.rcode = message->rcode();
    hit.kind = message->kind();
    if (message->has_alias())
      hit.message = message;
    else
      hit.size = message->write_reply(query, frame, now, rotation, cached_freshness);
    return hit;
  }
  Known find(const CacheKey& key, Millis) override {
    wire::Question question{std::string(key.name()), type_of(key), wire::Class::In};
    if (!is_cached(question)) return {};
    return {build(question), cached_freshness};
  }
  void resolve(ForwardRequest request, OutcomeCallback callback) override {
    asked.push_back(text_of(request.question));
    requests.push_back(request);
    waiting_.emplace_back(std::move(request.question), std::move(callback));
  }
  bool has_other_servers(std::string_view name, std::string_view target,
                         bool also_outside) const override {
    const std::string zone = zone_of(target);
    return (also_outside || !zone.empty()) && zone != zone_of(name);
  }
  void refresh(ForwardRequest request) override { refreshed.push_back(text_of(request.question)); }
  ForwardingFacts describe(std::string_view, wire::Type, Millis) const override {
    return {"192.0.2.53:53", "nothing", {"192.0.2.53:53 is up"}};
  }
  void close() override {
    closed = true;
    settle();
  }

  // Answers all that waits, and what is asked meanwhile.
  void settle() {
    while (!waiting_.empty()) settle_one();
  }
  // Answers the question that waits longest.  REQUIRES: there is one.
  void settle_one() {
    auto [question, callback] = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    callback({.message = build(question), .upstream = "192.0.2.53:53", .packets = packets});
  }
  std::size_t waiting() const { return waiting_.size(); }
  std::vector<ForwardRequest> requests;

 private:
  std::string zone_of(std::string_view wire_name) const {
    const std::string name = "." + wire::name_to_text(wire_name);
    for (const std::string& zone : zones)
      if (name.ends_with("." + zone)) return zone;
    return {};
  }
  static std::string text_of(const wire::Question& question) {
    return wire::name_to_text(question.name) + " " + wire::to_string(question.type);
  }
  static wire::Type type_of(const CacheKey& key) {
    const auto tail = key.bytes().substr(key.name().size());
    return static_cast<wire::Type>(
        wire::load_u16(reinterpret_cast<const std::uint8_t*>(tail.data())));
  }
  bool is_cached(const wire::Question& question) const {
    return std::ranges::find(cached, text_of(question)) != cached.end();
  }
  MessageRef build(const wire::Question& question) const {
    const auto found = replies.find(text_of(question));
    const UpstreamReply missing{wire::Rcode::NxDomain, {}, {". 30 SOA ns.example."}};
    const UpstreamReply& reply = found == replies.end() ? missing : found->second;
    if (reply.rcode == wire::Rcode::ServFail)
      return build_failure(CacheKey(question, false, false), {.text = "no upstream answers"},
                           kStart);
    wire::ResponseMessage response;
    response.rcode = reply.rcode;
    response.question = question;
    response.question_name = question.name;
    for (const auto& line : reply.answer) response.answer.push_back(record_from(line));
    for (const auto& line : reply.authority) response.authority.push_back(record_from(line));
    const auto message = build_answer(
        {.question = question, .sent_name = question.name, .response = response}, {}, kStart);
    if (message) return *message;
    ADD_FAILURE() << text_of(question);
    return build_failure(CacheKey(question, false, false), {}, kStart);
  }

  std::vector<std::pair<wire::Question, OutcomeCallback>> waiting_;
};

class KeptReplies final : public ReplySender {
 public:
  void send(const ReplyTo& reply_to, std::span<const std::uint8_t> message) override {
    last.assign(message.begin(), message.end());
    sent.push_back(reply_to.slot);
  }
  void drop(const ReplyTo&) override { ++dropped; }

  std::vector<std::uint8_t> last;
  std::vector<std::uint32_t> sent;  // slots, in order
  std::size_t dropped = 0;
};

class StandingClock final : public QueryClock {
 public:
  Millis now() override { return time; }
  std::uint64_t precise_now() override { return time * 1'000'000; }
  std::uint32_t unix_time() override { return static_cast<std::uint32_t>(time / 1000); }
  void call_at(Millis when, std::function<void()> task) override {
    due = when;
    task_ = std::move(task);
  }
  void cancel() override { task_ = nullptr; }
  void close() override { task_ = nullptr; }
  bool is_armed() const { return task_ != nullptr; }
  void advance(Millis by) {
    time += by;
    if (!task_ || due > time) return;
    const auto task = std::exchange(task_, nullptr);
    task();
  }

  Millis time = kStart;
  Millis due = 0;

 private:
  std::function<void()> task_;
};

}  // namespace meshdns::dnsd
