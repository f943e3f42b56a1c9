// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/forwarding_facts.hpp"

#include <gmock/gmock.h>

#include "tests/dnsd/query/fake_parts.hpp"

namespace meshdns::dnsd {
namespace {

using testing::ElementsAre;

constexpr Millis kNow = 1'000'000;

UpstreamStatus server(std::string name) {
  UpstreamStatus status;
  status.name = std::move(name);
  return status;
}

MessageRef message(const std::vector<std::string>& answer, wire::Rcode rcode = wire::Rcode::NoError,
                   std::string_view server = {}, Carrier carrier = Carrier::Unknown) {
  const wire::Question question{*wire::name_from_text("www.example.org."), wire::Type::A,
                                wire::Class::In};
  wire::ResponseMessage response;
  response.rcode = rcode;
  response.question = question;
  response.question_name = question.name;
  for (const auto& line : answer) response.answer.push_back(record_from(line));
  if (answer.empty()) response.authority.push_back(record_from(". 30 SOA ns.example."));
  return *build_answer({.question = question,
                        .sent_name = question.name,
                        .response = response,
                        .carrier = carrier,
                        .server = server},
                       {}, kNow);
}

std::string cached(const Cache::Entry& entry) {
  return forwarding_facts({}, {}, entry, kNow).cached;
}

TEST(ForwardingFactsTest, NameTheServersAndTheZoneTheyAreFor) {
  EXPECT_EQ(describe_route({"", false, {"192.0.2.1:53", "192.0.2.2:53"}}),
            "192.0.2.1:53, 192.0.2.2:53");
  EXPECT_EQ(describe_route({"corp.example", false, {"192.0.2.1:53"}}),
            "192.0.2.1:53 (upstream.zones, corp.example)");
  EXPECT_EQ(describe_route({"corp.example", true, {"192.0.2.1:53"}}),
            "192.0.2.1:53 (a network link, corp.example)");
  EXPECT_EQ(describe_route({}), "");
}

TEST(ForwardingFactsTest, TellHowEachServerIs) {
  UpstreamStatus quick = server("quick");
  quick.rtt_us = 1'234;
  UpstreamStatus silent = server("silent");
  silent.last_error = "no answer in time";
  UpstreamStatus doubtful = silent;
  doubtful.name = "doubtful";
  doubtful.health = Health::Doubtful;
  UpstreamStatus down = server("down");
  down.health = Health::Down;
  UpstreamStatus loop = server("loop");
  loop.looped = true;
  const std::vector<UpstreamStatus> all{server("new"), quick, silent, doubtful, down, loop};
  const Forwarder::Route route{
      "", false, {"new", "quick", "silent", "doubtful", "down", "loop", "gone"}};
  EXPECT_THAT(forwarding_facts(route, all, {}, kNow).health,
              ElementsAre("new is up, not asked yet", "quick is up, answers in 1.2 ms",
                          "silent is up, but has not answered yet: no answer in time",
                          "doubtful is doubtful: no answer in time", "down is down",
                          "loop is loop: it sends our own queries back, and is not asked"));
  EXPECT_THAT(forwarding_facts({}, all, {}, kNow).health,
              ElementsAre("none: neither upstream.servers nor /etc/resolv.conf names any"));
}

TEST(ForwardingFactsTest, TellOfMessagesThatAreNoReplies) {
  UpstreamStatus lying = server("lying");
  lying.rtt_us = 1'234;
  lying.mismatched = 3;
  const std::vector<UpstreamStatus> all{lying};
  EXPECT_THAT(forwarding_facts({"", false, {"lying"}}, all, {}, kNow).health,
              ElementsAre("lying is up, answers in 1.2 ms; ignored 3 messages from it that were no "
                          "reply to a query"));
}

TEST(ForwardingFactsTest, TellWhatTheCacheHolds) {
  const MessageRef two =
      message({"www.example.org. 60 A 192.0.2.1", "www.example.org. 60 A 192.0.2.2"});
  EXPECT_EQ(cached({}), "none; an upstream server is asked");
  EXPECT_EQ(cached({.message = two, .fresh_until = kNow + 59'500}), "2 records, for 60 s more");
  EXPECT_EQ(
      cached({.message = two, .fresh_until = kNow - 3'000, .kept_until = kNow + 100'000}),
      "2 records, expired 3 s ago, kept for 100 s more: answered stale if no upstream answers");
  EXPECT_EQ(cached({.message = two,
                    .fresh_until = kNow - 3'000,
                    .kept_until = kNow + 100'000,
                    .is_refresh_paused = true}),
            "2 records, expired 3 s ago, answered stale for 100 s more: its refresh failed");
  EXPECT_EQ(cached({.message = message({}), .fresh_until = kNow + 1}),
            "no records of this type, for 1 s more");
  EXPECT_EQ(cached({.message = message({}, wire::Rcode::NxDomain), .fresh_until = kNow + 1}),
            "NXDOMAIN, for 1 s more");
  const CacheKey key({*wire::name_from_text("www.example.org."), wire::Type::A, wire::Class::In},
                     false, false);
  EXPECT_EQ(cached({.message = build_failure(key, {.text = "no upstream answers"}, kNow),
                    .fresh_until = kNow + 5'000}),
            "SERVFAIL (no upstream answers), for 5 s more");
}

TEST(ForwardingFactsTest, TellWhoAnsweredAndWhen) {
  const auto answered = [](Carrier carrier, Millis ago) {
    const MessageRef from = message({"www.example.org. 60 A 192.0.2.1"}, wire::Rcode::NoError,
                                    "192.0.2.53:53", carrier);
    const Millis now = kNow + ago;
    const Cache::Entry entry{
        .message = from, .fresh_until = kNow + 60'000, .kept_until = kNow + 100'000};
    return forwarding_facts({}, {}, entry, now).cached;
  };
  EXPECT_EQ(answered(Carrier::Udp, 12'900),
            "1 record, for 48 s more (answered 12 s ago by 192.0.2.53:53 over UDP)");
  EXPECT_EQ(answered(Carrier::Tcp, 0),
            "1 record, for 60 s more (answered 0 s ago by 192.0.2.53:53 over TCP)");
  EXPECT_EQ(answered(Carrier::Tls, 70'000),
            "1 record, expired 10 s ago, kept for 30 s more: answered stale if no upstream answers "
            "(answered 70 s ago by 192.0.2.53:53 over TLS)");
  EXPECT_EQ(answered(Carrier::SavedCache, 5'000),
            "1 record, for 55 s more (answered before the start by 192.0.2.53:53)");
}

}  // namespace
}  // namespace meshdns::dnsd
