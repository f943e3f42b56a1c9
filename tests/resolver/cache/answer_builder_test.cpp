// SPDX-License-Identifier: Apache-2.0
#include "resolver/cache/answer_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "resolver/wire/name_text.hpp"
#include "tests/resolver/cache/messages.hpp"

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
  ASSERT_EQ(message->alias_count(), 2U);
  std::vector<std::pair<std::string, std::size_t>> aliases;
  message->for_each_alias([&](const CachedMessage::Alias& alias) {
    aliases.emplace_back(alias.target, alias.record);
    return true;
  });
  EXPECT_THAT(aliases, ElementsAre(std::pair(wire_name("b.example.org."), 0U),
                                   std::pair(wire_name("c.example.net."), 1U)));
  EXPECT_FALSE(message->leads_on());
  EXPECT_EQ(message->record_ttl(1, kNow + 20'000, Freshness::Fresh), 100U);
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

TEST(AnswerBuilderTest, RefusesLoops) {
  const auto loop = response(
      question("a.example.org."),
      {"a.example.org. 300 CNAME b.example.org.", "b.example.org. 300 CNAME a.example.org."});
  const auto unusable = build_answer({loop.question, false, false, {}, loop}, {}, kNow);
  ASSERT_FALSE(unusable.has_value());
  EXPECT_EQ(unusable.error().why, "aliases in a loop");
}

// Public names have nine aliases and more; only the size of a message limits their number.
TEST(AnswerBuilderTest, FollowsAChainOfAnyLengthInAnyOrder) {
  for (const int aliases : {9, 12, 64, 400}) {
    for (const bool reversed : {false, true}) {
      auto chain = response(question("n0.example.org."), {});
      for (int i = 0; i < aliases; ++i)
        chain.answer.push_back(record("n" + std::to_string(i) + ".example.org. 300 CNAME n" +
                                      std::to_string(i + 1) + ".example.org."));
      chain.answer.push_back(
          record("n" + std::to_string(aliases) + ".example.org. 60 A 192.0.2.1"));
      if (reversed) std::ranges::reverse(chain.answer);
      const auto message = build_answer({chain.question, true, false, {}, chain}, {}, kNow);
      ASSERT_TRUE(message.has_value()) << message.error().why;
      EXPECT_EQ((*message)->kind(), MessageKind::Positive);
      EXPECT_EQ((*message)->alias_count(), static_cast<std::size_t>(aliases));
      EXPECT_EQ((*message)->answer_count(), aliases + 1);
    }
  }
}

// A name server without recursion sends this; the SOA of a denial would say that there is nothing.
TEST(AnswerBuilderTest, KeepsAnAliasAloneForWhatItIs) {
  const auto alone = cached(
      response(question("a.example.org."), {"a.example.org. 300 CNAME b.example.net."}), kNow);
  EXPECT_TRUE(alone->leads_on());
  EXPECT_EQ(alone->kind(), MessageKind::Positive);
  EXPECT_EQ(alone->expires_at(), kNow + 300'000);
  const auto denied =
      cached(response(question("a.example.org."), {"a.example.org. 300 CNAME b.example.net."},
                      {"example.net. 60 SOA 30"}),
             kNow);
  EXPECT_FALSE(denied->leads_on());
  EXPECT_TRUE(denied->is_nodata());
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

// A client must not take a name for existing because an upstream denies it and adds records of it.
TEST(AnswerBuilderTest, NameErrorWithDataStaysANameErrorAndIsNotCached) {
  for (const bool with_alias : {false, true}) {
    auto from =
        response(question("a.example.org."), {}, {"example.org. 300 SOA 60"}, Rcode::NxDomain);
    if (with_alias) from.answer.push_back(record("a.example.org. 300 CNAME b.example.org."));
    from.answer.push_back(
        record(with_alias ? "b.example.org. 300 A 192.0.2.1" : "a.example.org. 300 A 192.0.2.1"));
    const auto message = cached(from, kNow);
    EXPECT_EQ(message->kind(), MessageKind::Negative);
    EXPECT_FALSE(message->is_cacheable());
    const auto reply = whole_reply(message, "a.example.org.");
    EXPECT_EQ(reply.rcode, Rcode::NxDomain);
    EXPECT_EQ(reply.answer.size(), with_alias ? 1U : 0U);
    EXPECT_EQ(reply.authority.size(), 1U);
  }
}

TEST(AnswerBuilderTest, PassesAdOfTrustedLinksOnly) {
  auto from = response(question("a.example.org."), {"a.example.org. 300 A 192.0.2.1"});
  from.authentic_data = true;
  for (const Carrier carrier : {Carrier::Udp, Carrier::Tcp, Carrier::Tls, Carrier::SavedCache}) {
    const auto message = build_answer({from.question, false, false, {}, from, carrier}, {}, kNow);
    ASSERT_TRUE(message);
    EXPECT_EQ(whole_reply(*message, "a.example.org.", Type::A, {.edns = true, .dnssec_ok = true})
                  .authentic_data,
              carrier == Carrier::Tls);
    EXPECT_FALSE(whole_reply(*message, "a.example.org.").authentic_data) << "not asked for";
  }
}

TEST(AnswerBuilderTest, RelaysExtendedErrorsAsPlainTextOnly) {
  struct {
    const char* what;
    std::string text;
    std::string relayed;
  } const cases[] = {
      {"plain", "no luck today", "no luck today"},
      {"beyond ASCII", "schade, sagt 東京", "schade, sagt 東京"},
      {"cut character", "abc\xe6\x9d", ""},
      {"Latin-1", "ung\xfcltig", ""},
      {"overlong", "a\xc0\xafz", ""},
      {"surrogate", "\xed\xa0\x80", ""},
      {"beyond Unicode", "\xf4\x90\x80\x80", ""},
      {"control characters", std::string("a\0b\nc\x1b[31m", 10), "a b c [31m"},
      {"IPv4", "10.1.2.3 is down", "[address] is down"},
      {"IPv4 and port", "from 10.1.2.3:53: refused", "from [address]:53: refused"},
      {"end of sentence", "asked 10.1.2.3.", "asked [address]."},
      {"IPv6", "[2001:db8::53]:853 (fe80::1%eth0)", "[address]:853 ([address])"},
      {"brackets around IPv4", "[10.1.2.3]:53", "[address]:53"},
      {"brackets and a zone", "[fe80::1%eth0]:53, fe80::1%br-lan.", "[address]:53, [address]."},
      {"other brackets", "[10.1.2.3, 10.1.2.4]", "[[address], [address]]"},
      {"a named port", "10.1.2.3:https, 2001:db8::53:domain", "[address]:https, [address]:domain"},
      {"in front of a name", "10.1.2.3.example.org", "[address].example.org"},
      {"behind a long text", std::string(400, '.') + " 10.1.2.3", std::string(255, '.')},
      {"behind a word", "server=10.1.2.3,8.8.8.8", "server=[address],[address]"},
      {"behind a colon", "server:10.1.2.3", "server:[address]"},
      {"no address", "std::string at 12:30, v1.2.3, dead.beef",
       "std::string at 12:30, v1.2.3, dead.beef"},
  };
  for (const auto& each : cases) {
    auto from = response(question("a.example.org."), {"a.example.org. 300 A 192.0.2.1"});
    from.extended_errors.emplace_back(std::uint16_t{0}, each.text);
    EXPECT_EQ(cached(from, kNow)->ede_text(), each.relayed) << each.what;
    const CacheKey key(from.question, false, false);
    EXPECT_EQ(build_failure(key, {.text = each.text}, kNow)->ede_text(), each.relayed);
  }
}

TEST(AnswerBuilderTest, CutsLongExtendedErrorsBetweenCharacters) {
  for (std::size_t front = 0; front < 4; ++front) {
    std::string text(front, 'x');
    for (int i = 0; i < 200; ++i) text += "東";
    auto from = response(question("a.example.org."), {"a.example.org. 300 A 192.0.2.1"});
    from.extended_errors.emplace_back(std::uint16_t{0}, text);
    const std::string relayed(cached(from, kNow)->ede_text());
    EXPECT_LE(relayed.size(), 255U);
    EXPECT_GE(relayed.size(), 252U);
    EXPECT_EQ((relayed.size() - front) % 3, 0U);
  }
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
  rules.denied = DeniedAddresses({*IpPrefix::parse("10.0.0.0/8")});
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
  // The rule of the name that the alias leads to counts.
  const auto alias =
      cached(response(question("a.example.org."),
                      {"a.example.org. 300 CNAME e.example.org.", "e.example.org. 300 A 10.0.0.1"}),
             kNow, rules);
  EXPECT_TRUE(alias->leads_on());
  EXPECT_THAT(texts(whole_reply(alias, "a.example.org.").answer),
              ElementsAre("a.example.org. 300 CNAME e.example.org."));
}

// RFC 9460, section 7.3: a hint is as good to an attacker as an address.
TEST(AnswerBuilderTest, TakesRecordsWithDeniedHintsOut) {
  AnswerRules rules;
  rules.denied = DeniedAddresses({*IpPrefix::parse("10.0.0.0/8"), *IpPrefix::parse("fc00::/7")});
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

wire::ResponseMessage many_addresses(std::size_t count) {
  auto from = response(question("big.example.org."), {});
  for (std::size_t i = 0; i < count; ++i)
    from.answer.push_back(record("big.example.org. 300 A 10.1." + std::to_string(i / 250) + "." +
                                 std::to_string(i % 250)));
  return from;
}

// A server that writes such a name as a pointer to the question shows us our own spelling.
TEST(AnswerBuilderTest, TakesOurOddCaseOutOfTheDataOfEveryType) {
  const std::string sent = wire_name("wWw.ExAmple.oRG.");
  for (const int type :
       {2, 5, 6, 12, 15, 17, 18, 21, 33, 35, 36, 39, 46, 47, 64, 65, 107, 65'400}) {
    auto from = response(question("www.example.org.", static_cast<Type>(type)), {});
    from.question_name = sent;
    wire::ResponseRecord odd;
    odd.owner = sent;
    odd.type = static_cast<Type>(type);
    odd.rclass = wire::Class::In;
    odd.ttl = 300;
    odd.rdata = wire_name("Kept.ExAmple.oRG.") + "Text oRG" + sent + wire_name("oRG.");
    from.answer.push_back(odd);
    const auto message = build_answer({from.question, false, false, sent, from}, {}, kNow);
    ASSERT_TRUE(message.has_value()) << type;
    const std::string text((*message)->record_data(0));
    for (const char* shown : {"wWw", "ExAmple", "\3oRG"})
      EXPECT_EQ(text.find(shown), std::string::npos) << type << " " << shown;
    EXPECT_NE(text.find("Kept"), std::string::npos) << type;
    EXPECT_NE(text.find("Text oRG"), std::string::npos) << type;
  }
}

// RFC 6672, section 5.3.1: the alias has no signature, but the DNAME that it was made from does.
TEST(AnswerBuilderTest, KeepsTheDnameOfAnAliasThatIsAskedFor) {
  auto from = response(question("h.alias.example.", Type::Cname),
                       {"h.alias.example. 300 CNAME h.example.org."});
  auto dname = record("alias.example. 300 CNAME example.org.");
  dname.type = Type::Dname;
  from.answer.insert(from.answer.begin(), {dname, record("alias.example. 300 RRSIG DNAME")});
  const auto message = build_answer({from.question, true, false, {}, from}, {}, kNow);
  ASSERT_TRUE(message.has_value());
  ASSERT_EQ((*message)->answer_count(), 3);
  EXPECT_EQ((*message)->record_type(0), Type::Dname);
  EXPECT_EQ((*message)->record_type(1), Type::Rrsig);
  EXPECT_EQ((*message)->record_type(2), Type::Cname);
  from.answer.pop_back();
  const auto other = build_answer({from.question, true, false, {}, from}, {}, kNow);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ((*other)->answer_count(), 0) << "nothing of what was asked for";
}

TEST(AnswerBuilderTest, KeepsALargeSetWhole) {
  const auto reply =
      whole_reply(cached(many_addresses(kMaxRecordsPerSet), kNow), "big.example.org.");
  EXPECT_EQ(reply.answer.size(), kMaxRecordsPerSet);
  EXPECT_FALSE(reply.truncated);
}

TEST(AnswerBuilderTest, CutsALargerSetUnlessItIsSigned) {
  const auto from = many_addresses(kMaxRecordsPerSet + 1);
  const auto reply = whole_reply(cached(from, kNow), "big.example.org.");
  EXPECT_EQ(reply.answer.size(), kMaxRecordsPerSet);
  EXPECT_FALSE(build_answer({from.question, true, false, {}, from}, {}, kNow).has_value());
}

TEST(AnswerBuilderTest, KeepsSomeSetsOfAny) {
  auto from = response(question("any.example.org.", Type::Any), {});
  for (unsigned type = 1000; type < 5000; ++type) {
    auto each = record("any.example.org. 300 TXT x");
    each.type = static_cast<Type>(type);
    from.answer.push_back(each);
  }
  EXPECT_EQ(cached(from, kNow)->answer_count(), kMaxSetsOfAny);
}

// Names of many labels whose ends are alike, in all: the octets of the message bound the work.
TEST(AnswerBuilderTest, WritesLongNamesThatShareTheirEndsAndReadsThemBack) {
  std::string shared;
  for (int i = 0; i < 110; ++i) shared += "a.";
  auto from = response(question("mx.example.org.", Type::Mx), {});
  for (int i = 0; i < 900; ++i) {
    auto each = record("mx.example.org. 300 TXT x");
    each.type = Type::Mx;
    each.rdata = std::string("\0\1", 2) + wire_name((i % 2 == 0 ? "m" : "M") + std::to_string(i) +
                                                    "." + shared + "example.org.");
    from.answer.push_back(each);
  }
  const auto message = cached(from, kNow);
  const auto reply = whole_reply(message, "mx.example.org.", Type::Mx);
  ASSERT_GT(reply.answer.size(), 150U);
  for (std::size_t i = 0; i < reply.answer.size(); ++i)
    EXPECT_EQ(reply.answer[i].rdata, from.answer[i].rdata) << i;
}

}  // namespace
}  // namespace meshdns::dnsd::test
