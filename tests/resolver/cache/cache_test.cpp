// SPDX-License-Identifier: Apache-2.0
#include "resolver/cache/cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dnsd/config/config.hpp"
#include "resolver/wire/name_text.hpp"
#include "tests/resolver/cache/messages.hpp"

namespace meshdns::dnsd::test {
namespace {

using ::testing::ElementsAre;
using wire::Rcode;
using wire::Type;

constexpr Millis kStart = 1'000'000;

class CacheTest : public ::testing::Test {
 protected:
  void store(const wire::ResponseMessage& response, Millis now) {
    const CacheKey asked(response.question, false, false);
    cache_.store(cached(response, now), asked);
  }
  void store_failure(std::string_view name, Millis now, bool unreachable = false) {
    FailureText text;
    text.text = "test";
    text.unreachable = unreachable;
    cache_.store_failure(build_failure(CacheKey(question(name), false, false), text, now), now);
  }
  // One line: "miss", or rcode, freshness, TTL and rdata of what a client gets.
  std::string ask(std::string_view name, Millis now, Type type = Type::A,
                  const QueryOptions& options = {}) {
    ClientQuery client(name, type, options);
    const Cache::Hit hit = cache_.answer(client.query, client.frame(), now, 0);
    std::size_t size = hit.size;
    if (hit.message)
      size = hit.message->write_reply(client.query, client.frame(), now, 0, hit.freshness);
    if (size == 0) return "miss";
    const auto reply = client.reply(size);
    std::string text(wire::to_string(reply.rcode));
    if (hit.freshness == Freshness::Stale) text += " stale";
    if (hit.refresh_due) text += " refresh";
    for (const std::string& line : texts(reply.answer)) text += " [" + line + "]";
    return text;
  }

  CacheConfig config_;
  Cache cache_{config_};
};

TEST_F(CacheTest, CountsTtlsDownAndForgets) {
  store(response(question("www.example.org."), {"www.example.org. 10 A 192.0.2.1"}), kStart);
  EXPECT_EQ(ask("www.example.org.", kStart), "NOERROR [www.example.org. 10 A 192.0.2.1]");
  EXPECT_EQ(ask("www.example.org.", kStart + 3'999), "NOERROR [www.example.org. 7 A 192.0.2.1]");
  EXPECT_THAT(ask("www.example.org.", kStart + 9'999), ::testing::HasSubstr(" 1 A "));
  EXPECT_EQ(ask("www.example.org.", kStart + 10'000), "miss");
}

TEST_F(CacheTest, ShowsWhatLiesThereWithoutUsingIt) {
  const CacheKey key(question("www.example.org."), false, false);
  EXPECT_FALSE(cache_.peek(key, kStart).message);
  store(response(question("www.example.org."), {"www.example.org. 10 A 192.0.2.1"}), kStart);
  const Cache::Entry fresh = cache_.peek(key, kStart + 1'000);
  ASSERT_TRUE(fresh.message);
  EXPECT_EQ(fresh.fresh_until, kStart + 10'000);
  EXPECT_EQ(fresh.kept_until, kStart + 10'000 + 3'600'000);
  EXPECT_FALSE(fresh.is_refresh_paused);
  EXPECT_EQ(cache_.statistics().positive.hits, 0U);
  EXPECT_EQ(cache_.statistics().misses, 0U);
  store_failure("www.example.org.", kStart + 11'000);
  const Cache::Entry stale = cache_.peek(key, kStart + 12'000);
  ASSERT_TRUE(stale.message);
  EXPECT_TRUE(stale.is_refresh_paused);
  EXPECT_FALSE(cache_.peek(key, kStart + 10'000 + 3'600'000).message) << "too old to serve";
}

TEST_F(CacheTest, ShowsNoFailureThatIsOvercome) {
  const CacheKey key(question("www.example.org."), false, false);
  store_failure("www.example.org.", kStart, true);
  EXPECT_TRUE(cache_.peek(key, kStart + 100).message);
  cache_.note_recovery(kStart + 200);
  EXPECT_FALSE(cache_.peek(key, kStart + 300).message);
}

TEST_F(CacheTest, KeepsTheAskersSpelling) {
  store(response(question("www.example.org."), {"www.example.org. 10 A 192.0.2.1"}), kStart);
  EXPECT_EQ(ask("wWw.eXample.ORG.", kStart), "NOERROR [wWw.eXample.ORG. 10 A 192.0.2.1]");
  EXPECT_EQ(ask("www.example.or.", kStart), "miss");
  // RFC 4343: only letters have case.
  EXPECT_EQ(ask("\\119\\087w.example.org.", kStart), "NOERROR [wWw.example.org. 10 A 192.0.2.1]");
  EXPECT_EQ(ask("www.example.org\\000.", kStart), "miss");
  EXPECT_EQ(ask("www\\.example.org.", kStart), "miss");
}

TEST_F(CacheTest, KeepsQuestionsApart) {
  store(response(question("www.example.org."), {"www.example.org. 10 A 192.0.2.1"}), kStart);
  EXPECT_EQ(ask("www.example.org.", kStart, Type::Aaaa), "miss");
  EXPECT_EQ(ask("www.example.org.", kStart, Type::A, {.dnssec_ok = true}), "miss");
  EXPECT_EQ(ask("www.example.org.", kStart, Type::A, {.checking_disabled = true}), "miss");
  EXPECT_NE(ask("www.example.org.", kStart, Type::A, {.edns = true}), "miss");
}

TEST_F(CacheTest, SendsARefreshedEdnsAndFlags) {
  store(response(question("www.example.org."), {"www.example.org. 10 A 192.0.2.1"}), kStart);
  ClientQuery client("www.example.org.", Type::A, {.edns = true});
  const Cache::Hit hit = cache_.answer(client.query, client.frame(), kStart, 0);
  const auto reply = client.reply(hit.size);
  EXPECT_TRUE(reply.has_edns);
  EXPECT_EQ(reply.id, 0x1234);
  EXPECT_TRUE(reply.recursion_available);
  EXPECT_FALSE(reply.authoritative);
  EXPECT_FALSE(reply.authentic_data);
}

TEST_F(CacheTest, RotatesAddressesAndNothingElse) {
  store(response(question("r.example.org."),
                 {"r.example.org. 10 CNAME t.example.org.", "t.example.org. 10 A 192.0.2.1",
                  "t.example.org. 10 A 192.0.2.2", "t.example.org. 10 A 192.0.2.3"}),
        kStart);
  std::map<std::string, int> first;
  for (std::uint32_t turn = 0; turn < 300; ++turn) {
    ClientQuery client("r.example.org.");
    const Cache::Hit hit = cache_.answer(client.query, client.frame(), kStart, turn);
    ASSERT_EQ(hit.size, 0u);
    ASSERT_TRUE(hit.message);
    const auto reply = client.reply(
        hit.message->write_reply(client.query, client.frame(), kStart, turn, hit.freshness));
    const auto lines = texts(reply.answer);
    ASSERT_EQ(lines.size(), 4u);
    EXPECT_EQ(lines[0], "r.example.org. 10 CNAME t.example.org.");
    EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()).size(), 4u);
    ++first[lines[1]];
  }
  EXPECT_EQ(first.size(), 3u);
  for (const auto& [line, count] : first) EXPECT_EQ(count, 100) << line;
}

TEST_F(CacheTest, CutsAtWholeRecordsAndSaysSo) {
  auto from = response(question("big.example.org."), {});
  for (int i = 0; i < 100; ++i)
    from.answer.push_back(record("big.example.org. 10 A 192.0.2." + std::to_string(i)));
  store(from, kStart);
  for (std::size_t limit = 512; limit <= 560; ++limit) {
    ClientQuery client("big.example.org.", Type::A, {.edns = true});
    const Cache::Hit hit = cache_.answer(client.query, client.frame(limit), kStart, 77);
    ASSERT_LE(hit.size, limit);
    ASSERT_GT(hit.size + 16, limit);
    const auto reply = client.reply(hit.size);
    EXPECT_TRUE(reply.truncated);
    EXPECT_TRUE(reply.has_edns);
    EXPECT_EQ(reply.answer.size(), (limit - 12 - 21 - 11) / 16);
  }
  ClientQuery tcp("big.example.org.");
  const auto whole = tcp.reply(cache_.answer(tcp.query, tcp.frame(65535), kStart, 0).size);
  EXPECT_EQ(whole.answer.size(), 100u);
  EXPECT_FALSE(whole.truncated);
}

TEST_F(CacheTest, LeavesTheSoaOutBeforeItTruncates) {
  auto from = response(question("t.example.org.", Type::Txt), {}, {"example.org. 10 SOA 10"});
  store(from, kStart);
  ClientQuery client("t.example.org.", Type::Txt);
  const auto reply = client.reply(cache_.answer(client.query, client.frame(), kStart, 0).size);
  EXPECT_FALSE(reply.truncated);
  EXPECT_THAT(texts(reply.authority), ElementsAre("example.org. 10 SOA 10"));
}

TEST_F(CacheTest, TakesANameErrorForEveryType) {
  store(response(question("gone.example.org."), {}, {"example.org. 10 SOA 10"}, Rcode::NxDomain),
        kStart);
  EXPECT_EQ(ask("gone.example.org.", kStart, Type::Txt), "NXDOMAIN");
  EXPECT_EQ(ask("below.gone.example.org.", kStart), "miss");
  // The name comes to be.
  store(response(question("gone.example.org."), {"gone.example.org. 10 A 192.0.2.1"}), kStart);
  EXPECT_EQ(ask("gone.example.org.", kStart, Type::Txt), "miss");
}

TEST_F(CacheTest, TakesNoDataForItsTypeOnly) {
  store(response(question("www.example.org.", Type::Aaaa), {}, {"example.org. 10 SOA 10"}), kStart);
  EXPECT_EQ(ask("www.example.org.", kStart, Type::Aaaa), "NOERROR");
  EXPECT_EQ(ask("www.example.org.", kStart, Type::A), "miss");
}

TEST_F(CacheTest, ServesStaleWhileRefreshIsPausedOnly) {
  store(response(question("www.example.org."), {"www.example.org. 10 A 192.0.2.1"}), kStart);
  const CacheKey key(question("www.example.org."), false, false);
  const Millis later = kStart + 20'000;
  EXPECT_EQ(ask("www.example.org.", later), "miss");
  EXPECT_TRUE(cache_.find_stale(key, later));
  store_failure("www.example.org.", later);
  EXPECT_EQ(ask("www.example.org.", later), "NOERROR stale [www.example.org. 30 A 192.0.2.1]");
  EXPECT_TRUE(cache_.is_refresh_paused(key, later + 29'999));
  EXPECT_EQ(ask("www.example.org.", later + 30'000), "miss");
  EXPECT_TRUE(cache_.find_stale(key, later + 30'000));
  // serve_stale counts from the end of the TTL, whatever happened since.
  EXPECT_FALSE(cache_.find_stale(key, kStart + 10'000 + 3'600'000));
}

// An entry that no upstream confirms ends in time, however often it is asked for.
TEST_F(CacheTest, StaleLifeIsAbsoluteWhateverFailsAndWhoeverAsks) {
  store(response(question("www.example.org."), {"www.example.org. 10 A 192.0.2.1"}), kStart);
  const CacheKey key(question("www.example.org."), false, false);
  const Millis end = kStart + 10'000 + 3'600'000;
  // A refresh ahead of time that fails, then one after each pause.
  ask("www.example.org.", kStart + 9'500);
  EXPECT_THAT(ask("www.example.org.", kStart + 9'500), ::testing::HasSubstr(" refresh"));
  store_failure("www.example.org.", kStart + 9'600);
  for (Millis now = kStart + 10'000; now < end; now += 10'000) {
    if (!cache_.is_refresh_paused(key, now)) {
      EXPECT_TRUE(cache_.find_stale(key, now)) << now;
      store_failure("www.example.org.", now);
    }
    EXPECT_EQ(ask("www.example.org.", now), "NOERROR stale [www.example.org. 30 A 192.0.2.1]");
    EXPECT_EQ(cache_.peek(key, now).kept_until, end);
  }
  store_failure("www.example.org.", end - 1);
  EXPECT_EQ(ask("www.example.org.", end), "miss");
  EXPECT_FALSE(cache_.find_stale(key, end));
  EXPECT_FALSE(cache_.peek(key, end).message);
}

TEST_F(CacheTest, AnAnswerInUseOutlivesItsPlace) {
  const auto from = response(question("www.example.org."), {"www.example.org. 60 A 192.0.2.1"});
  const CacheKey key(from.question, false, false);
  cache_.store(cached(from, kStart), key);
  const MessageRef held = cache_.find(key, kStart);
  ASSERT_TRUE(held);
  EXPECT_EQ(cache_.flush_zone(wire_name(".")), 1u);
  EXPECT_FALSE(cache_.find(key, kStart));
  EXPECT_EQ(held->name(), from.question.name);
}

// RFC 6895, section 3.1: every number is a type that a client can send, 0 too.
TEST_F(CacheTest, AFailureOfOneTypeIsNoFailureOfTheOthers) {
  for (unsigned type = 0; type <= 0xffff; type += type < 300 ? 1 : 97) {
    if (type == static_cast<unsigned>(Type::A)) continue;
    const CacheKey key(question("victim.example.org.", static_cast<Type>(type)), false, false);
    cache_.store_failure(build_failure(key, {.text = "refused"}, kStart), kStart);
    ASSERT_EQ(ask("victim.example.org.", kStart), "miss") << type;
    ASSERT_FALSE(cache_.find(CacheKey(question("victim.example.org."), false, false), kStart));
    ASSERT_FALSE(cache_.find_denial_above(
        CacheKey(question("below.victim.example.org."), false, false), kStart));
  }
}

TEST_F(CacheTest, NoQuestionHasTheKeyOfANameError) {
  std::set<std::string> keys;
  for (unsigned type = 0; type <= 0xffff; ++type)
    for (const bool dnssec_ok : {false, true})
      for (const bool checking_disabled : {false, true})
        keys.emplace(CacheKey(question("a.example.org.", static_cast<Type>(type)), dnssec_ok,
                              checking_disabled)
                         .bytes());
  EXPECT_EQ(keys.size(), 4U * 65536U);
  std::set<std::string> name_errors;
  for (const std::string& key : keys)
    name_errors.emplace(CacheKey(std::string_view(key)).to_name_error().bytes());
  EXPECT_EQ(name_errors.size(), 4U) << "one for each DO and CD";
  for (const std::string& key : name_errors) EXPECT_FALSE(keys.contains(key));
}

// --- upstream.deny_answers ---

UpstreamConfig denying(std::string_view prefix) {
  UpstreamConfig config;
  config.deny_answers = {*IpPrefix::parse(prefix)};
  return config;
}

// The keys of the entries of a walk, with the flags.
std::multiset<std::string> listed(Cache& cache, Millis now, const Cache::Wants& wants) {
  std::multiset<std::string> keys;
  std::vector<Cache::Entry> found;
  std::size_t slices = 0;
  for (std::optional<Cache::Place> place = Cache::Place{}; place; ++slices)
    place = cache.list_some(*place, now, wants, found);
  EXPECT_GT(slices, 1U) << "the walk has a slice for each shard at least";
  for (const Cache::Entry& entry : found) {
    const CachedMessage::Variant variant = entry.message->variant();
    keys.insert(wire::name_to_text(entry.message->name()) + " " +
                (variant.is_of_all_types ? "all" : wire::to_string(variant.type)) +
                (variant.dnssec_ok ? " DO" : "") + (variant.checking_disabled ? " CD" : ""));
  }
  return keys;
}

TEST_F(CacheTest, ListsEachEntryThatWouldBeUsedOnce) {
  const auto all = [](const CachedMessage&) { return true; };
  EXPECT_THAT(listed(cache_, kStart, all), ::testing::IsEmpty());
  std::multiset<std::string> stored;
  for (int i = 0; i < 5'000; ++i) {
    const std::string name = "n" + std::to_string(i) + ".example.org.";
    store(response(question(name), {name + " 10 A 192.0.2.1"}), kStart);
    stored.insert(name + " A");
  }
  store(response(question("gone.example.net."), {}, {"example.net. 5 SOA 5"}, Rcode::NxDomain),
        kStart);
  EXPECT_EQ(listed(cache_, kStart,
                   [](const CachedMessage& message) {
                     return is_in_zone(message.name(), wire_name("example.org."));
                   }),
            stored);
  EXPECT_THAT(listed(cache_, kStart,
                     [](const CachedMessage& message) {
                       return is_in_zone(message.name(), wire_name("gone.example.net."));
                     }),
              ElementsAre("gone.example.net. all"));
  EXPECT_EQ(listed(cache_, kStart + 12'000, all), stored) << "stale; the name error is over";
  EXPECT_EQ(cache_.statistics().positive.hits, 0U);
  cache_.deny(DeniedAnswers(denying("192.0.2.0/24")));
  EXPECT_THAT(listed(cache_, kStart, all), ElementsAre("gone.example.net. all"));
}

TEST_F(CacheTest, ForgetsWhatAReloadDenies) {
  store(response(question("inside.example.org."), {"inside.example.org. 10 A 10.0.0.1"}), kStart);
  store(response(question("www.example.org."), {"www.example.org. 10 A 192.0.2.1"}), kStart);
  EXPECT_EQ(ask("inside.example.org.", kStart), "NOERROR [inside.example.org. 10 A 10.0.0.1]");
  cache_.deny(DeniedAnswers(denying("10.0.0.0/8")));
  EXPECT_EQ(ask("inside.example.org.", kStart), "miss");
  EXPECT_EQ(ask("www.example.org.", kStart), "NOERROR [www.example.org. 10 A 192.0.2.1]");
  cache_.deny(DeniedAnswers(denying("192.0.2.0/24")));
  EXPECT_EQ(ask("www.example.org.", kStart), "miss");
}

TEST_F(CacheTest, DeniesWhatIsStoredUnderAnOlderRule) {
  cache_.deny(DeniedAnswers(denying("10.0.0.0/8")));
  // A flight that began before the reload.
  store(response(question("late.example.org."), {"late.example.org. 10 A 10.0.0.1"}), kStart);
  EXPECT_EQ(ask("late.example.org.", kStart), "miss");
}

TEST_F(CacheTest, ServesNothingDeniedStale) {
  store(response(question("inside.example.org."), {"inside.example.org. 10 A 10.0.0.1"}), kStart);
  cache_.deny(DeniedAnswers(denying("10.0.0.0/8")));
  const CacheKey key(question("inside.example.org."), false, false);
  const Millis later = kStart + 20'000;
  store_failure("inside.example.org.", later);
  EXPECT_EQ(ask("inside.example.org.", later), "SERVFAIL");
  EXPECT_FALSE(cache_.find_stale(key, later));
}

TEST_F(CacheTest, DeniesAddressesBehindAliases) {
  store(response(question("a.example.org."),
                 {"a.example.org. 10 CNAME b.example.org.", "b.example.org. 10 A 10.0.0.1"}),
        kStart);
  cache_.deny(DeniedAnswers(denying("10.0.0.0/8")));
  EXPECT_EQ(ask("a.example.org.", kStart), "miss");
}

TEST_F(CacheTest, DeniesNothingOfZonesWithServersOfTheirOwn) {
  UpstreamConfig config = denying("10.0.0.0/8");
  config.zones["corp.example"] = {};
  store(response(question("www.corp.example."), {"www.corp.example. 10 A 10.0.0.1"}), kStart);
  store(response(question("www.xcorp.example."), {"www.xcorp.example. 10 A 10.0.0.1"}), kStart);
  cache_.deny(DeniedAnswers(config));
  EXPECT_EQ(ask("www.corp.example.", kStart), "NOERROR [www.corp.example. 10 A 10.0.0.1]");
  EXPECT_EQ(ask("www.xcorp.example.", kStart), "miss");
  cache_.deny(DeniedAnswers(denying("10.0.0.0/8")));
  EXPECT_EQ(ask("www.corp.example.", kStart), "miss") << "the zone has no servers any more";
}

TEST_F(CacheTest, DeniesWhatIsReadBackFromAFile) {
  store(response(question("inside.example.org."), {"inside.example.org. 100 A 10.0.0.1"}), kStart);
  store(response(question("www.example.org."), {"www.example.org. 100 A 192.0.2.1"}), kStart);
  const auto block = cache_.save(1'000'000, kStart);
  for (const bool denied_first : {true, false}) {
    Cache next(config_);
    if (denied_first) next.deny(DeniedAnswers(denying("10.0.0.0/8")));
    EXPECT_EQ(next.load(block, 1'000'000, kStart), 2U);
    if (!denied_first) next.deny(DeniedAnswers(denying("10.0.0.0/8")));
    EXPECT_FALSE(next.find(CacheKey(question("inside.example.org."), false, false), kStart));
    EXPECT_TRUE(next.find(CacheKey(question("www.example.org."), false, false), kStart));
  }
}

// --- the servers that are asked ---

UpstreamConfig asking(std::initializer_list<const char*> servers) {
  UpstreamConfig config;
  for (const char* server : servers) config.servers.push_back(*parse_upstream_server(server));
  return config;
}

MessageRef from_server(std::string_view name, std::string_view server, Millis now) {
  const std::string text = std::string(name) + " 100 A 192.0.2.1";
  const wire::ResponseMessage from = response(question(name), {text});
  return *build_answer(
      {.question = from.question, .sent_name = {}, .response = from, .server = server}, {}, now);
}

TEST_F(CacheTest, UsesAnswersOnlyOfServersThatAreAsked) {
  const auto put = [&](std::string_view name, std::string_view server) {
    const MessageRef message = from_server(name, server, kStart);
    EXPECT_EQ(message->server(), server);
    cache_.store(message, message->to_key());
  };
  const auto is_used = [&](std::string_view name) { return ask(name, kStart) != "miss"; };
  put("www.example.org.", "10.0.0.1:53");
  put("a.corp.example.", "10.0.0.1:53");
  cache_.use_servers(AskedServers(asking({"10.0.0.2", "10.0.0.1"})));
  EXPECT_TRUE(is_used("www.example.org."));
  cache_.use_servers(AskedServers(asking({"10.0.0.1", "10.0.0.2"})));
  EXPECT_TRUE(is_used("www.example.org.")) << "their order has no effect";

  UpstreamConfig zoned = asking({"10.0.0.1"});
  zoned.zones["corp.example"] = {*parse_upstream_server("10.0.0.9")};
  cache_.use_servers(AskedServers(zoned));
  EXPECT_TRUE(is_used("www.example.org."));
  EXPECT_FALSE(is_used("a.corp.example."));
  put("a.corp.example.", "10.0.0.9:53");
  EXPECT_TRUE(is_used("a.corp.example."));
  put("late.corp.example.", "10.0.0.1:53");
  EXPECT_FALSE(is_used("late.corp.example.")) << "of a flight that began before";

  cache_.use_servers(AskedServers(asking({"10.0.0.1"})));
  EXPECT_FALSE(is_used("a.corp.example.")) << "the zone has no servers of its own any more";
  cache_.use_servers(AskedServers(asking({"tls://10.0.0.1#dns.example"})));
  EXPECT_FALSE(is_used("www.example.org."));
}

TEST_F(CacheTest, ForgetsFailuresOfServersThatAreAskedNoMore) {
  const CacheKey key(question("www.example.org."), false, false);
  cache_.use_servers(AskedServers(asking({"10.0.0.1"})));
  cache_.store_failure(build_failure(key, {.text = "refused", .server = "10.0.0.1:53"}, kStart),
                       kStart);
  EXPECT_EQ(ask("www.example.org.", kStart), "SERVFAIL");
  cache_.use_servers(AskedServers(asking({"10.0.0.2"})));
  EXPECT_EQ(ask("www.example.org.", kStart), "miss");
}

TEST_F(CacheTest, SavesTheServerOfEachAnswer) {
  for (const auto& [name, server] :
       {std::pair{"a.example.org.", "10.0.0.1:53"}, std::pair{"b.example.org.", "10.0.0.2:53"}}) {
    const MessageRef message = from_server(name, server, kStart);
    cache_.store(message, message->to_key());
  }
  const auto block = cache_.save(1'000'000, kStart);
  Cache next(config_);
  next.use_servers(AskedServers(asking({"10.0.0.2"})));
  EXPECT_EQ(next.load(block, 1'000'000, kStart), 2U);
  EXPECT_FALSE(next.find(CacheKey(question("a.example.org."), false, false), kStart));
  const MessageRef found = next.find(CacheKey(question("b.example.org."), false, false), kStart);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->server(), "10.0.0.2:53");
  EXPECT_EQ(found->carrier(), Carrier::SavedCache);
}

TEST_F(CacheTest, SaysStaleInAnExtendedError) {
  store(response(question("www.example.org."), {"www.example.org. 10 A 192.0.2.1"}), kStart);
  store_failure("www.example.org.", kStart + 20'000);
  ClientQuery client("www.example.org.", Type::A, {.edns = true});
  const Cache::Hit hit = cache_.answer(client.query, client.frame(), kStart + 20'000, 0);
  EXPECT_EQ(cache_.statistics().stale_hits, 1U);
  const auto reply = client.reply(hit.size);
  ASSERT_EQ(reply.extended_errors.size(), 1u);
  EXPECT_EQ(reply.extended_errors[0].first, 3);
}

TEST_F(CacheTest, EndsPausesAndFailuresWhenAnUpstreamIsBack) {
  store(response(question("www.example.org."), {"www.example.org. 10 A 192.0.2.1"}), kStart);
  const Millis later = kStart + 20'000;
  store_failure("www.example.org.", later, true);
  store_failure("cold.example.org.", later, true);
  store_failure("bad.example.org.", later, false);
  EXPECT_EQ(ask("cold.example.org.", later + 500), "SERVFAIL");
  cache_.note_recovery(later + 500);
  EXPECT_EQ(ask("www.example.org.", later + 500), "miss");
  EXPECT_EQ(ask("cold.example.org.", later + 500), "miss");
  EXPECT_EQ(ask("bad.example.org.", later + 500), "SERVFAIL");
}

TEST_F(CacheTest, NeverServesANegativeAnswerStale) {
  store(response(question("gone.example.org."), {}, {"example.org. 10 SOA 10"}, Rcode::NxDomain),
        kStart);
  const CacheKey key(question("gone.example.org."), false, false);
  EXPECT_FALSE(cache_.find_stale(key, kStart + 10'000));
  store_failure("gone.example.org.", kStart + 10'000);
  EXPECT_EQ(ask("gone.example.org.", kStart + 10'000), "SERVFAIL");
}

TEST_F(CacheTest, AFreshNameErrorEndsWhatWasStale) {
  store(response(question("www.example.org."), {"www.example.org. 10 A 192.0.2.1"}), kStart);
  store(response(question("www.example.org."), {}, {"example.org. 10 SOA 10"}, Rcode::NxDomain),
        kStart + 20'000);
  EXPECT_EQ(ask("www.example.org.", kStart + 20'000), "NXDOMAIN");
  EXPECT_FALSE(
      cache_.find_stale(CacheKey(question("www.example.org."), false, false), kStart + 40'000));
}

TEST_F(CacheTest, KeepsFailuresLongerTheMoreThereAre) {
  Millis now = kStart;
  for (const Millis life : {1'000u, 2'000u, 4'000u, 5'000u, 5'000u}) {
    store_failure("bad.example.org.", now);
    EXPECT_EQ(ask("bad.example.org.", now + life - 1), "SERVFAIL") << life;
    EXPECT_EQ(ask("bad.example.org.", now + life), "miss") << life;
    now += life;
  }
  now += 60'000;
  store_failure("bad.example.org.", now);
  EXPECT_EQ(ask("bad.example.org.", now + 1'000), "miss");
}

TEST_F(CacheTest, SignalsOnceThatAHotEntryEnds) {
  store(response(question("www.example.org."), {"www.example.org. 100 A 192.0.2.1"}), kStart);
  EXPECT_THAT(ask("www.example.org.", kStart + 95'000),
              ::testing::Not(::testing::HasSubstr("refresh")));
  EXPECT_THAT(ask("www.example.org.", kStart + 96'000), ::testing::HasSubstr("refresh"));
  EXPECT_THAT(ask("www.example.org.", kStart + 97'000),
              ::testing::Not(::testing::HasSubstr("refresh")));
}

TEST_F(CacheTest, SignalsNoEndOfDenials) {
  store(response(question("gone.example.org."), {}, {"example.org. 30 SOA 30"}, Rcode::NxDomain),
        kStart);
  for (const Millis age : {1'000u, 28'000u, 29'000u, 29'900u})
    EXPECT_EQ(ask("gone.example.org.", kStart + age), "NXDOMAIN") << age;
  EXPECT_EQ(cache_.statistics().refreshes, 0U);
}

TEST_F(CacheTest, KeepsNoAnswerThatMustNotBeKept) {
  store(response(question("www.example.org."), {"www.example.org. 0 A 192.0.2.1"}), kStart);
  EXPECT_EQ(cache_.statistics().positive.entries, 0U);
  store_failure("www.example.org.", kStart);
  EXPECT_FALSE(cache_.find_stale(CacheKey(question("www.example.org."), false, false), kStart));
}

TEST_F(CacheTest, FlushesByNameAndZone) {
  for (const char* name :
       {"a.example.org.", "b.a.example.org.", "a.example.net.", "xa.example.org."})
    store(response(question(name), {std::string(name) + " 100 A 192.0.2.1"}), kStart);
  EXPECT_EQ(cache_.flush_name(wire_name("A.Example.org.")), 1u);
  EXPECT_EQ(ask("a.example.org.", kStart), "miss");
  EXPECT_NE(ask("b.a.example.org.", kStart), "miss");
  EXPECT_EQ(cache_.flush_zone(wire_name("a.example.org.")), 1u);
  EXPECT_EQ(ask("b.a.example.org.", kStart), "miss");
  EXPECT_NE(ask("xa.example.org.", kStart), "miss");
  EXPECT_EQ(cache_.flush_zone(wire_name(".")), 2u);
  EXPECT_EQ(cache_.statistics().positive.bytes, 0u);
}

TEST_F(CacheTest, ComesBackFromABlock) {
  store(response(question("www.example.org."),
                 {"www.example.org. 100 CNAME t.example.org.", "t.example.org. 100 A 192.0.2.1"}),
        kStart);
  store(response(question("short.example.org."), {"short.example.org. 5 A 192.0.2.1"}), kStart);
  std::vector<std::uint8_t> block = cache_.save(1'700'000'000, kStart + 1'000);
  cache_.flush_zone(wire_name("."));
  const auto loaded = cache_.load(block, 1'700'000'009, 5'000);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(*loaded, 1u);
  EXPECT_EQ(ask("www.example.org.", 5'000),
            "NOERROR [www.example.org. 89 CNAME t.example.org.] [t.example.org. 89 A 192.0.2.1]");
  for (std::size_t i = 0; i < block.size(); i += 7) {
    block[i] ^= 1;
    EXPECT_FALSE(cache_.load(block, 1'700'000'000, 5'000).has_value()) << i;
    block[i] ^= 1;
  }
  for (std::size_t size = 0; size < block.size(); ++size)
    EXPECT_FALSE(cache_.load(std::span(block).first(size), 1'700'000'000, 5'000).has_value())
        << size;
  // A wall clock that has gone back, or far ahead.
  EXPECT_EQ(*cache_.load(block, 1'000, 5'000), 2u);
  cache_.flush_zone(wire_name("."));
  EXPECT_EQ(*cache_.load(block, 1'700'000'100, 5'000), 0u);
}

TEST_F(CacheTest, FindsTheDenialAboveAName) {
  store(response(question("gone.example.org."), {}, {"example.org. 60 SOA 60"}, Rcode::NxDomain),
        kStart);
  const auto above = [&](std::string_view name, Millis now) {
    return cache_.find_denial_above(CacheKey(question(name), false, false), now) != nullptr;
  };
  EXPECT_TRUE(above("a.gone.example.org.", kStart));
  EXPECT_TRUE(above("a.b.c.gone.example.org.", kStart));
  EXPECT_FALSE(above("gone.example.org.", kStart)) << "itself, not above";
  EXPECT_FALSE(above("agone.example.org.", kStart));
  EXPECT_FALSE(above("example.org.", kStart));
  EXPECT_FALSE(above(".", kStart));
  EXPECT_FALSE(above("a.gone.example.org.", kStart + 61'000));
  store(response(question("."), {}, {". 60 SOA 60"}, Rcode::NxDomain), kStart);
  EXPECT_FALSE(above("example.org.", kStart)) << "a denied root would deny everything";
}

TEST(CacheSizeTest, WithoutSizeKeepsNothing) {
  CacheConfig config;
  config.size_bytes = 0;
  Cache cache(config);
  const auto from = response(question("www.example.org."), {"www.example.org. 100 A 192.0.2.1"});
  cache.store(cached(from, kStart), CacheKey(from.question, false, false));
  ClientQuery client("www.example.org.");
  EXPECT_EQ(cache.answer(client.query, client.frame(), kStart, 0).size, 0u);
}

// A flood of names asked once: hot names stay, memory stays, whatever the answers are.
TEST(CacheSizeTest, AFloodEvictsItselfAndNotWhatIsHot) {
  CacheConfig config;
  config.size_bytes = std::size_t{1} << 20;
  Cache cache(config);
  constexpr int kHot = 200;
  std::vector<std::unique_ptr<ClientQuery>> hot;
  for (int i = 0; i < kHot; ++i) {
    const std::string name = "hot" + std::to_string(i) + ".example.org.";
    const auto from = response(question(name), {name + " 3600 A 192.0.2.1"});
    cache.store(cached(from, kStart), CacheKey(from.question, false, false));
    hot.push_back(std::make_unique<ClientQuery>(name));
  }
  const std::size_t heap_before = mallinfo2().uordblks;
  int lost = 0;
  int asked = 0;
  for (int i = 0; i < 50'000; ++i) {
    const std::string name = "n" + std::to_string(i) + ".flood.example.net.";
    auto from = response(question(name), {});
    if (i % 3 == 0) {
      from.answer.push_back(record(name + " 3600 A 192.0.2.2"));
    } else {
      from.rcode = Rcode::NxDomain;
      from.authority.push_back(record("example.net. 3600 SOA 3600"));
    }
    cache.store(cached(from, kStart), CacheKey(from.question, false, false));
    ClientQuery& client = *hot[static_cast<std::size_t>(i) % kHot];
    if (i % 10 != 0) continue;
    ++asked;
    if (cache.answer(client.query, client.frame(), kStart, 0).size == 0) ++lost;
  }
  EXPECT_EQ(lost, 0) << "of " << asked;
  const CacheStatistics statistics = cache.statistics();
  EXPECT_GT(statistics.positive.evictions, 10'000u);
  EXPECT_GT(statistics.negative.evictions, 25'000u);
  EXPECT_LE(statistics.positive.bytes + statistics.negative.bytes, config.size_bytes);
  EXPECT_LE(statistics.negative.bytes, config.size_bytes / 5);
  EXPECT_LE(mallinfo2().uordblks - heap_before, config.size_bytes * 11 / 10);
}

// Names in use, each of which an upstream confirms just before the flood comes.
TEST(CacheSizeTest, ANameInUseKeepsItsPlaceFromOneTtlToTheNext) {
  for (const bool by_query : {true, false}) {
    CacheConfig config;
    config.size_bytes = std::size_t{1} << 20;
    Cache cache(config);
    const auto put = [&](const std::string& name) {
      const auto from = response(question(name), {name + " 3600 A 192.0.2.1"});
      cache.store(cached(from, kStart), CacheKey(from.question, false, false));
    };
    const auto is_there = [&](const std::string& name) {
      ClientQuery client(name);
      return by_query ? cache.answer(client.query, client.frame(), kStart, 0).size != 0
                      : cache.find(CacheKey(question(name), false, false), kStart) != nullptr;
    };
    const auto hot = [](int i) { return "hot" + std::to_string(i) + ".example.org."; };
    constexpr int kHot = 100;
    for (int i = 0; i < kHot; ++i) {
      put(hot(i));
      for (const char* const other : {".a", ".b"})
        put("n" + std::to_string(i) + other + ".example.net.");
    }
    for (int i = 0; i < kHot; ++i) EXPECT_TRUE(is_there(hot(i)));
    for (int i = 0; i < kHot; ++i) put(hot(i));
    for (int i = 0; i < 8'000; ++i) put("n" + std::to_string(i) + ".flood.example.net.");
    EXPECT_GT(cache.statistics().positive.evictions, 1'000U);
    int kept = 0;
    for (int i = 0; i < kHot; ++i) kept += is_there(hot(i)) ? 1 : 0;
    EXPECT_EQ(kept, kHot);
  }
}

// It would take the place of many names, and a shard has few such answers.
TEST(CacheSizeTest, AnAnswerAboveAQuarterOfItsPartIsNotKept) {
  CacheConfig config;
  config.size_bytes = std::size_t{160} << 10;
  Cache cache(config);
  const auto is_kept = [&](const std::string& name, std::size_t records) {
    auto from = response(question(name, Type::Txt), {});
    const std::string text = name + " 3600 TXT " + std::string(200, 'x');
    for (std::size_t i = 0; i < records; ++i) from.answer.push_back(record(text));
    const CacheKey key(from.question, false, false);
    cache.store(cached(from, kStart), key);
    return cache.find(key, kStart) != nullptr;
  };
  EXPECT_TRUE(is_kept("small.example.org.", 1));
  EXPECT_TRUE(is_kept("medium.example.org.", 50));
  EXPECT_FALSE(is_kept("large.example.org.", 200));
  EXPECT_EQ(cache.statistics().positive.entries, 2U);
}

TEST(CacheSizeTest, ShrinksAndGrowsWithTheConfiguration) {
  CacheConfig config;
  config.size_bytes = std::size_t{8} << 20;
  Cache cache(config);
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "n" + std::to_string(i) + ".example.net.";
    const auto from = response(question(name), {name + " 3600 A 192.0.2.2"});
    cache.store(cached(from, kStart), CacheKey(from.question, false, false));
  }
  EXPECT_EQ(cache.statistics().positive.entries, 10'000u);
  config.size_bytes = std::size_t{1} << 20;
  cache.reconfigure(config);
  const CacheStatistics small = cache.statistics();
  EXPECT_LE(small.positive.bytes, config.size_bytes);
  EXPECT_GT(small.positive.entries, 1'000u);
}

TEST(CacheThreadTest, ServesAndChangesFromManyThreads) {
  CacheConfig config;
  config.size_bytes = std::size_t{1} << 20;
  Cache cache(config);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&cache, t] {
      for (int i = 0; i < 5'000; ++i) {
        const std::string name = "n" + std::to_string((i * 7 + t) % 3'000) + ".example.net.";
        const auto from = response(question(name), {name + " 3600 A 192.0.2.2"});
        ClientQuery client(name);
        if (cache.answer(client.query, client.frame(), kStart, 0).size == 0)
          cache.store(cached(from, kStart), CacheKey(from.question, false, false));
        if (i % 1'000 == 0) cache.flush_zone(wire_name("n1.example.net."));
      }
    });
  threads.clear();
  EXPECT_GT(cache.statistics().positive.hits, 0u);
}

}  // namespace
}  // namespace meshdns::dnsd::test
