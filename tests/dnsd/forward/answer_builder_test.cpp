#include "dnsd/forward/answer_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dnsd/wire/name_text.hpp"
#include "tests/dnsd/forward/messages.hpp"

namespace meshdns::dnsd::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using wire::Rcode;
using wire::Type;

constexpr Millis kNow = 1'000'000;

wire::ResponseMessage whole_reply(const MessageRef& message, std::string_view name,
                                  Type type = Type::A, const QueryOptions& options = {}) {
  ClientQuery client(name, type, options);
  return client.reply(
      message->write_reply(client.query, client.frame(65535), kNow, 0, Freshness::Fresh));
}

TEST(AnswerBuilderTest, KeepsWhatWasAskedAndNothingElse) {
  auto from = response(question("www.example.org."),
                       {"www.example.org. 300 A 192.0.2.1",
                        "victim.example.org. 300 A 203.0.113.66", "www.example.org. 300 TXT x"},
                       {"example.org. 300 NS ns.example.org."});
  from.additional.push_back(record("victim.example.org. 300 A 203.0.113.66"));
  const auto reply = whole_reply(cached(from, kNow), "www.example.org.");
  EXPECT_THAT(texts(reply.answer), ElementsAre("www.example.org. 300 A 192.0.2.1"));
  EXPECT_THAT(reply.authority, IsEmpty());
  EXPECT_THAT(reply.additional, IsEmpty());
}

TEST(AnswerBuilderTest, FollowsTheChainInOrder) {
  const auto message =
      cached(response(question("a.example.org."),
                      {"c.example.net. 60 A 192.0.2.9", "b.example.org. 120 CNAME c.example.net.",
                       "a.example.org. 300 CNAME b.example.org.",
                       "d.example.org. 300 CNAME a.example.org."}),
             kNow);
  EXPECT_TRUE(message->has_alias());
  EXPECT_THAT(message->alias_targets(),
              ElementsAre(wire_name("b.example.org."), wire_name("c.example.net.")));
  EXPECT_EQ(message->expires_at(), kNow + 60'000);
  EXPECT_THAT(
      texts(whole_reply(message, "a.example.org.").answer),
      ElementsAre("a.example.org. 300 CNAME b.example.org.",
                  "b.example.org. 120 CNAME c.example.net.", "c.example.net. 60 A 192.0.2.9"));
}

TEST(AnswerBuilderTest, AnswersAQuestionForTheAliasItself) {
  const auto message = cached(response(question("a.example.org.", Type::Cname),
                                       {"a.example.org. 300 CNAME b.example.org.",
                                        "b.example.org. 300 CNAME c.example.org."}),
                              kNow);
  EXPECT_FALSE(message->has_alias());
  EXPECT_THAT(texts(whole_reply(message, "a.example.org.", Type::Cname).answer),
              ElementsAre("a.example.org. 300 CNAME b.example.org."));
}

TEST(AnswerBuilderTest, RefusesLoopsAndLongChains) {
  const auto loop = response(
      question("a.example.org."),
      {"a.example.org. 300 CNAME b.example.org.", "b.example.org. 300 CNAME a.example.org."});
  const auto unusable = build_answer({loop.question, false, false, {}, loop}, {}, kNow);
  ASSERT_FALSE(unusable.has_value());
  EXPECT_EQ(unusable.error().why, "aliases in a loop");

  auto chain = response(question("n0.example.org."), {});
  for (int i = 0; i <= 8; ++i)
    chain.answer.push_back(record("n" + std::to_string(i) + ".example.org. 300 CNAME n" +
                                  std::to_string(i + 1) + ".example.org."));
  EXPECT_FALSE(build_answer({chain.question, false, false, {}, chain}, {}, kNow).has_value());
  chain.answer.pop_back();
  EXPECT_TRUE(build_answer({chain.question, false, false, {}, chain}, {}, kNow).has_value());
}

TEST(AnswerBuilderTest, GivesASetOneTtlTheLeast) {
  const auto reply = whole_reply(
      cached(response(question("m.example.org."),
                      {"m.example.org. 300 A 192.0.2.1", "m.example.org. 30 A 192.0.2.2"}),
             kNow),
      "m.example.org.");
  EXPECT_THAT(texts(reply.answer), UnorderedElementsAre("m.example.org. 30 A 192.0.2.1",
                                                        "m.example.org. 30 A 192.0.2.2"));
}

TEST(AnswerBuilderTest, ClampsTtls) {
  AnswerRules rules;
  rules.min_ttl = std::chrono::seconds(5);
  rules.max_ttl = std::chrono::seconds(60);
  const struct {
    const char* text;
    Millis lifetime;
  } cases[] = {{"x.example.org. 0 A 192.0.2.1", 5'000},
               {"x.example.org. 30 A 192.0.2.1", 30'000},
               {"x.example.org. 604800 A 192.0.2.1", 60'000}};
  for (const auto& c : cases) {
    const auto message = cached(response(question("x.example.org."), {c.text}), kNow, rules);
    EXPECT_EQ(message->expires_at() - message->received_at(), c.lifetime) << c.text;
  }
  EXPECT_FALSE(cached(response(question("x.example.org."), {"x.example.org. 0 A 192.0.2.1"}), kNow)
                   ->is_cacheable());
}

TEST(AnswerBuilderTest, KeepsNegativeAnswersBySoaOnly) {
  struct Case {
    const char* what;
    std::initializer_list<std::string_view> authority;
    Rcode rcode;
    Millis lifetime;
  };
  const Case cases[] = {
      {"MINIMUM", {"example.org. 3600 SOA 10"}, Rcode::NxDomain, 10'000},
      {"the SOA's own TTL", {"example.org. 7 SOA 3600"}, Rcode::NoError, 7'000},
      {"our limit", {"example.org. 3600 SOA 3600"}, Rcode::NxDomain, 30'000},
      {"no SOA", {}, Rcode::NxDomain, 0},
      {"a SOA from elsewhere", {"example.net. 3600 SOA 10"}, Rcode::NxDomain, 0},
  };
  for (const Case& c : cases) {
    const auto message =
        cached(response(question("x.example.org."), {}, c.authority, c.rcode), kNow);
    EXPECT_EQ(message->kind(), MessageKind::Negative) << c.what;
    EXPECT_EQ(message->rcode(), c.rcode) << c.what;
    EXPECT_EQ(message->expires_at() - kNow, c.lifetime) << c.what;
  }
}

TEST(AnswerBuilderTest, PassesNameErrorOfAnAliasTarget) {
  const auto message =
      cached(response(question("a.example.org."), {"a.example.org. 300 CNAME gone.example.org."},
                      {"example.org. 3600 SOA 20"}, Rcode::NxDomain),
             kNow);
  const auto reply = whole_reply(message, "a.example.org.");
  EXPECT_EQ(reply.rcode, Rcode::NxDomain);
  EXPECT_EQ(reply.answer.size(), 1u);
  EXPECT_THAT(texts(reply.authority), ElementsAre("example.org. 20 SOA 20"));
  // Of that name there is an alias: no name error for other types.
  EXPECT_NE(message->key().substr(message->name().size(), 2), std::string_view("\0\0", 2));
}

TEST(AnswerBuilderTest, TakesReferralsAndOtherRcodesForUnusable) {
  auto referral = response(question("x.example.org."), {}, {"example.org. 300 NS ns.example.net."});
  referral.recursion_available = false;
  EXPECT_FALSE(build_answer({referral.question, false, false, {}, referral}, {}, kNow).has_value());
  for (const Rcode rcode : {Rcode::ServFail, Rcode::Refused, Rcode::NotImp, Rcode::FormErr}) {
    const auto bad = response(question("x.example.org."), {}, {}, rcode);
    EXPECT_FALSE(build_answer({bad.question, false, false, {}, bad}, {}, kNow).has_value());
  }
}

TEST(AnswerBuilderTest, PassesSignaturesToDoAskersOnly) {
  const auto from = response(question("www.example.org."),
                             {"www.example.org. 300 A 192.0.2.1", "www.example.org. 300 RRSIG A",
                              "www.example.org. 300 RRSIG TXT"});
  EXPECT_EQ(cached(from, kNow)->answer_count(), 1);
  const auto with_do = build_answer({from.question, true, false, {}, from}, {}, kNow);
  ASSERT_TRUE(with_do.has_value());
  EXPECT_EQ((*with_do)->answer_count(), 2);
}

TEST(AnswerBuilderTest, TakesDeniedAddressesOut) {
  AnswerRules rules;
  rules.deny_answers = {*IpPrefix::parse("10.0.0.0/8")};
  const auto mixed =
      cached(response(question("m.example.org."),
                      {"m.example.org. 300 A 10.0.0.1", "m.example.org. 300 A 192.0.2.1"}),
             kNow, rules);
  EXPECT_THAT(texts(whole_reply(mixed, "m.example.org.").answer),
              ElementsAre("m.example.org. 300 A 192.0.2.1"));
  const auto evil = response(question("e.example.org."), {"e.example.org. 300 A 10.0.0.1"});
  const auto denied = build_answer({evil.question, false, false, {}, evil}, rules, kNow);
  ASSERT_FALSE(denied.has_value());
  EXPECT_TRUE(denied.error().denied);
}

// RFC 9460, section 7.3: a hint is as good to an attacker as an address.
TEST(AnswerBuilderTest, TakesRecordsWithDeniedHintsOut) {
  AnswerRules rules;
  rules.deny_answers = {*IpPrefix::parse("10.0.0.0/8"), *IpPrefix::parse("fc00::/7")};
  struct {
    const char* name;
    std::string parameters;
    bool denied;
  } const cases[] = {
      {"none", "", false},
      {"public IPv4", std::string("\0\4\0\4\xc0\0\2\1", 8), false},
      {"private IPv4", std::string("\0\4\0\4\x0a\0\0\1", 8), true},
      {"private second", std::string("\0\4\0\10\xc0\0\2\1\x0a\0\0\1", 12), true},
      {"behind a port", std::string("\0\3\0\2\1\xbb\0\4\0\4\x0a\0\0\1", 14), true},
      {"private IPv6", std::string("\0\6\0\x10\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 20), true},
      {"cut short", std::string("\0\4\0\4\x0a\0", 6), false},
      {"no length", std::string("\0\4\0", 3), false},
  };
  for (const auto& each : cases) {
    auto from = response(question("w.example.org.", Type::Https), {});
    wire::ResponseRecord record;
    record.owner = from.question_name;
    record.type = Type::Https;
    record.rclass = wire::Class::In;
    record.ttl = 300;
    record.rdata = std::string("\0\1", 2) + wire_name("t.example.org.") + each.parameters;
    from.answer.push_back(record);
    const auto message = build_answer({from.question, false, false, {}, from}, rules, kNow);
    EXPECT_EQ(message.has_value(), !each.denied) << each.name;
  }
}

TEST(AnswerBuilderTest, TakesOurOddCaseOutAgain) {
  auto from = response(question("_a._tcp.example.org.", Type::Srv), {});
  const std::string sent = wire_name("_A._tCp.ExAmple.oRG.");
  from.question_name = sent;
  from.answer.push_back(record("_A._tCp.ExAmple.oRG. 300 SRV 80 Host.ExAmple.oRG."));
  const auto message = build_answer({from.question, false, false, sent, from}, {}, kNow);
  ASSERT_TRUE(message.has_value());
  const auto reply = whole_reply(*message, "_a._TCP.example.org.", Type::Srv);
  EXPECT_THAT(texts(reply.answer),
              ElementsAre("_a._TCP.example.org. 300 SRV 80 Host.example.org."));
}

TEST(AnswerBuilderTest, KeepsALargeSetWhole) {
  auto from = response(question("big.example.org."), {});
  for (int i = 0; i < 3000; ++i)
    from.answer.push_back(record("big.example.org. 300 A 10.1." + std::to_string(i / 250) + "." +
                                 std::to_string(i % 250)));
  const auto reply = whole_reply(cached(from, kNow), "big.example.org.");
  EXPECT_EQ(reply.answer.size(), 3000u);
  EXPECT_FALSE(reply.truncated);
}

}  // namespace
}  // namespace meshdns::dnsd::test
