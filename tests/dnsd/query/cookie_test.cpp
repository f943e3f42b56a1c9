// SPDX-License-Identifier: Apache-2.0
// Queries with a cookie (RFC 7873): who gets one of ours, and what it is good for.
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::string_view kClientCookie = "12345678";
constexpr std::string_view kPod = "10.4.0.1";

class CookieTest : public QueryFixture {
 protected:
  void SetUp() override {
    settings_.cookie_secrets = CookieSecrets{{1, 2, 3}, CookieSecret{4, 5, 6}};
    load_api();
  }

  AskOptions with_cookie(std::string_view cookie, std::string_view from = kPod) {
    return {.cookie = std::string(cookie), .from = std::string(from)};
  }
  // Returns the cookie that a client sends after its first answer.
  std::string learned(std::string_view from = kPod) {
    ask("api.example.org. A", with_cookie(kClientCookie, from));
    return message_.cookie;
  }
  std::string with_bit_changed(std::string cookie) {
    cookie.back() = static_cast<char>(cookie.back() ^ 1);
    return cookie;
  }
  // A query without a question that has the cookie, if there is one.
  std::string ask_cookie_only(std::string_view cookie, std::string_view from = kPod) {
    std::vector<std::uint8_t> buffer(kUdpBufferSize);
    // The same, but for the question, which is the root's.
    const std::size_t size = wire::build_query(
        buffer, {.id = 0x1234, .name = std::string_view("\0", 1), .cookie = cookie});
    constexpr std::size_t kQuestion = 5;
    buffer[5] = 0;
    buffer.erase(buffer.begin() + wire::kHeaderSize,
                 buffer.begin() + wire::kHeaderSize + kQuestion);
    buffer.resize(kUdpBufferSize);
    const std::string later = ask_octets(buffer, size - kQuestion, {.from = std::string(from)});
    return later.empty() ? summary(reply_) : later;
  }
  std::uint64_t counted(CookieCheck check) {
    return handler().counters().cookies[static_cast<std::size_t>(check)].value();
  }
};

TEST_F(CookieTest, AClientGetsOneThatIsGoodForIt) {
  const std::string cookie = learned();
  ASSERT_EQ(cookie.size(), 24U);
  EXPECT_TRUE(cookie.starts_with(kClientCookie));
  EXPECT_EQ(ask("api.example.org. A", with_cookie(cookie)), "api.example.org. 30 A 10.0.0.7");
  EXPECT_EQ(message_.cookie, cookie) << "no time has passed";
  EXPECT_EQ(counted(CookieCheck::ClientOnly), 1U);
  EXPECT_EQ(counted(CookieCheck::Valid), 1U);
}

TEST_F(CookieTest, EveryKindOfAnswerHasIt) {
  upstream_.replies["www.example.net. A"] = {.answer = {"www.example.net. 60 A 192.0.2.1"}};
  upstream_.replies["cached.example.net. A"] = {.answer = {"cached.example.net. 60 A 192.0.2.1"}};
  upstream_.cached = {"cached.example.net. A"};
  for (const char* question :
       {"api.example.org. A", "api.example.org. AAAA", "www.example.net. A",
        "cached.example.net. A", "missing.example.net. A", "www.example.net. ANY",
        "version.server. CH TXT", "example.org. AXFR", "api.example.org. HS A"}) {
    ask_through(question, with_cookie(kClientCookie));
    EXPECT_EQ(message_.cookie.size(), 24U) << question;
  }
  AskOptions over_tcp = with_cookie(kClientCookie);
  over_tcp.tcp = true;
  ask("api.example.org. A", over_tcp);
  EXPECT_EQ(message_.cookie.size(), 24U);
}

TEST_F(CookieTest, QueryWithoutACookieGetsNone) {
  ask("api.example.org. A", with_cookie(""));
  EXPECT_EQ(message_.cookie, "");
}

TEST_F(CookieTest, QueryWithAForeignCookieIsAnswered) {
  const std::string cookie = learned();
  for (const std::string& wrong :
       {with_bit_changed(cookie), cookie.substr(0, 16), cookie + "12345678"}) {
    EXPECT_EQ(ask("api.example.org. A", with_cookie(wrong)), "api.example.org. 30 A 10.0.0.7");
    EXPECT_EQ(message_.cookie, cookie);
  }
  EXPECT_EQ(counted(CookieCheck::Invalid), 3U);
}

TEST_F(CookieTest, LoopbackClientsGetOneOnlyIfToldSo) {
  for (const char* client : {"127.0.0.1", "::1"}) EXPECT_EQ(learned(client), "") << client;
  settings_.cookies = CookieMode::On;
  handler().reconfigure(settings_);
  for (const char* client : {"127.0.0.1", "::1"}) EXPECT_EQ(learned(client).size(), 24U) << client;
}

TEST_F(CookieTest, OffAnswersNone) {
  settings_.cookies = CookieMode::Off;
  EXPECT_EQ(learned(), "");
  EXPECT_EQ(counted(CookieCheck::ClientOnly), 0U);
}

TEST_F(CookieTest, ARateLimitSparesWhoHasOneOfOurs) {
  settings_.rate_limit = {.responses_per_second = 2, .slip = 1};
  const std::string cookie = learned();
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(ask("api.example.org. A", with_cookie(cookie)), "api.example.org. 30 A 10.0.0.7");
  // It has cost nothing of what others at this address may have.
  EXPECT_EQ(ask("api.example.org. A", with_cookie("")), "api.example.org. 30 A 10.0.0.7");
  for (const std::string& wrong : {std::string(kClientCookie), with_bit_changed(cookie)}) {
    EXPECT_EQ(ask("api.example.org. A", with_cookie(wrong)), "not aa, TC") << wrong.size();
    EXPECT_EQ(message_.cookie, cookie) << "which spares it the next time";
  }
  EXPECT_EQ(ask("api.example.org. A", with_cookie(cookie, "10.4.0.2")),
            "api.example.org. 30 A 10.0.0.7");
  EXPECT_EQ(counted(CookieCheck::Invalid), 2U) << "another's";
}

TEST_F(CookieTest, ACookieThatIsNotAnsweredSparesNobody) {
  settings_.rate_limit = {.responses_per_second = 1, .slip = 1};
  const std::string cookie = learned();
  settings_.cookies = CookieMode::Off;
  handler().reconfigure(settings_);
  EXPECT_EQ(ask("api.example.org. A", with_cookie(cookie)), "not aa, TC");
}

TEST_F(CookieTest, WithoutAQuestionItIsAllThatIsAnswered) {
  EXPECT_EQ(ask_cookie_only(kClientCookie), "not aa");
  const std::string cookie = message_.cookie;
  EXPECT_EQ(cookie.size(), 24U);
  EXPECT_EQ(ask_cookie_only(cookie), "not aa");
  EXPECT_EQ(ask_cookie_only(with_bit_changed(cookie)), "not aa, BADCOOKIE");
  EXPECT_EQ(message_.cookie, cookie);
}

TEST_F(CookieTest, WithoutAQuestionAndAnAnswerItIsFormerr) {
  EXPECT_EQ(ask_cookie_only(""), "not aa, FORMERR");
  EXPECT_EQ(ask_cookie_only(kClientCookie, "127.0.0.1"), "not aa, FORMERR");
  EXPECT_EQ(message_.cookie, "");
  EXPECT_EQ(ask_cookie_only(kClientCookie, "192.0.2.1"), "not aa, REFUSED");
}

TEST_F(CookieTest, OthersThanTheCurrentSecretAreAcceptedAndReplaced) {
  const std::string cookie = learned();
  settings_.cookie_secrets = CookieSecrets{{7, 8, 9}, settings_.cookie_secrets->current};
  handler().reconfigure(settings_);
  ask("api.example.org. A", with_cookie(cookie));
  EXPECT_EQ(counted(CookieCheck::Valid), 1U);
  EXPECT_NE(message_.cookie, cookie);
  settings_.cookie_secrets = CookieSecrets{{7, 8, 9}, {}};
  handler().reconfigure(settings_);
  ask("api.example.org. A", with_cookie(cookie));
  EXPECT_EQ(counted(CookieCheck::Invalid), 1U);
}

TEST_F(CookieTest, AReloadMayTakeThemAwayFromAQueryThatWaits) {
  EXPECT_EQ(ask("www.example.net. A", with_cookie(kClientCookie)), "FORWARD");
  settings_.cookie_secrets.reset();
  handler().reconfigure(settings_);
  upstream_.settle();
  ASSERT_EQ(replies_.sent.size(), 1U);
  summary(replies_.last);
  EXPECT_EQ(message_.cookie, "");
}

}  // namespace
}  // namespace meshdns::dnsd
