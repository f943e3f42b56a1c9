// SPDX-License-Identifier: Apache-2.0
// RFC 7873, section 5.3, towards upstreams.
#include "resolver/forward/upstream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/dnsd/few_descriptors.hpp"
#include "tests/resolver/forward/forwarder_fixture.hpp"

namespace meshdns::dnsd::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Verdict = UpstreamCookies::Verdict;

class UpstreamCookiesTest : public ::testing::Test {
 protected:
  std::string ours() const { return cookies_.option().substr(0, UpstreamCookies::kClientSize); }
  std::string with_server(const std::string& server) const { return ours() + server; }

  RandomPool random_;
  UpstreamCookies cookies_{random_};
  Millis now_ = 1'000;
};

TEST_F(UpstreamCookiesTest, ExpectACookieOnceTheUpstreamHasShownOne) {
  EXPECT_EQ(cookies_.judge("", now_), Verdict::Absent);
  EXPECT_EQ(cookies_.judge("strange!", now_), Verdict::Foreign);
  EXPECT_EQ(cookies_.judge(ours(), now_), Verdict::Ours);
  cookies_.learn(ours());
  EXPECT_EQ(cookies_.judge("", now_), Verdict::Absent) << "the upstream has no cookie of its own";
  cookies_.learn(with_server("12345678"));
  EXPECT_EQ(cookies_.option(), with_server("12345678"));
  EXPECT_EQ(cookies_.judge("", now_), Verdict::Missing);
  EXPECT_EQ(cookies_.judge(with_server("87654321"), now_), Verdict::Ours) << "a new one of its own";
}

TEST_F(UpstreamCookiesTest, AreLostWhenAReplyOverTcpHasNone) {
  cookies_.learn(with_server("12345678"));
  EXPECT_FALSE(cookies_.note_stream_reply(with_server("12345678"), now_));
  EXPECT_EQ(cookies_.judge("", now_), Verdict::Missing);
  EXPECT_TRUE(cookies_.note_stream_reply("", now_));
  EXPECT_EQ(cookies_.judge("", now_), Verdict::Absent);
  EXPECT_FALSE(cookies_.note_stream_reply("", now_)) << "no news";
}

TEST_F(UpstreamCookiesTest, AreExpectedAgainSomeTimeAfterTheyWereLost) {
  cookies_.learn(with_server("12345678"));
  cookies_.note_stream_reply("", now_);
  cookies_.learn(with_server("12345678"));
  EXPECT_EQ(cookies_.judge("", now_ + UpstreamCookies::kTrustTime - 1), Verdict::Absent);
  EXPECT_EQ(cookies_.judge("", now_ + UpstreamCookies::kTrustTime), Verdict::Missing);
}

TEST_F(UpstreamCookiesTest, AreLostWhenTcpFailsAgainAndAgain) {
  cookies_.learn(with_server("12345678"));
  for (unsigned i = 1; i < UpstreamCookies::kMaxFailures; ++i)
    EXPECT_FALSE(cookies_.note_stream_failure(now_));
  cookies_.learn(with_server("12345678"));
  for (unsigned i = 1; i < UpstreamCookies::kMaxFailures; ++i)
    EXPECT_FALSE(cookies_.note_stream_failure(now_)) << "a cookie came meanwhile";
  EXPECT_EQ(cookies_.judge("", now_), Verdict::Missing);
  EXPECT_TRUE(cookies_.note_stream_failure(now_));
  EXPECT_EQ(cookies_.judge("", now_), Verdict::Absent);
}

class CookieForwarderTest : public ForwarderTest {
 protected:
  // An upstream whose cookie is known.
  FakeUpstream& add_with_cookie() {
    FakeUpstream& upstream = add(Behaviour::WithCookie);
    config_.timeout = kTimeout;
    start();
    EXPECT_THAT(ask("first.example.org.").text, StartsWith("NOERROR"));
    EXPECT_THAT(ask("second.example.org.").text, StartsWith("NOERROR"));
    EXPECT_EQ(upstream.received.back().cookie.size(), 24u);
    return upstream;
  }
  static std::size_t over_tcp(const FakeUpstream& upstream) {
    return static_cast<std::size_t>(std::ranges::count(upstream.received, true, &Received::tcp));
  }
};

TEST_F(CookieForwarderTest, BelievesNoReplyOverUdpThatLacksTheCookie) {
  FakeUpstream& upstream = add_with_cookie();
  upstream.behave(Behaviour::ForgedNoCookie);
  for (int i = 0; i < 5; ++i) {
    const std::string name = "n" + std::to_string(i) + ".example.org.";
    EXPECT_EQ(ask(name).text, "NOERROR [" + name + " 300 A 192.0.2.1]");
  }
  EXPECT_EQ(over_tcp(upstream), 5u);
  upstream.behave(Behaviour::WithCookie);
  ask("last.example.org.");
  EXPECT_EQ(over_tcp(upstream), 5u);
}

// Without EDNS there would be no cookie to look for.
TEST_F(CookieForwarderTest, IsNotTalkedOutOfCookiesByAForgedFormatError) {
  FakeUpstream& upstream = add_with_cookie();
  upstream.behave(Behaviour::ForgedFormErr);
  for (int i = 0; i < 5; ++i) {
    const std::string name = "n" + std::to_string(i) + ".example.org.";
    EXPECT_EQ(ask(name).text, "NOERROR [" + name + " 300 A 192.0.2.1]");
  }
  EXPECT_TRUE(status().speaks_edns);
}

TEST_F(CookieForwarderTest, AsksOnceOverTcpWhenTheUpstreamHasLostItsCookies) {
  FakeUpstream& upstream = add_with_cookie();
  upstream.behave(Behaviour::Answer);
  for (int i = 0; i < 5; ++i)
    EXPECT_THAT(ask("n" + std::to_string(i) + ".example.org.").text, StartsWith("NOERROR"));
  EXPECT_EQ(over_tcp(upstream), 1u);
  EXPECT_THAT(events_.learned, ElementsAre(HasSubstr("cookies")));
}

TEST_F(CookieForwarderTest, BelievesAnUpstreamAgainThatHasNeitherCookiesNorTcp) {
  FakeUpstream& upstream = add_with_cookie();
  upstream.behave(Behaviour::NoCookieNoTcp);
  int failures = 0;
  for (int i = 0; i < 10; ++i)
    failures += ask("n" + std::to_string(i) + ".example.org.").text.starts_with("NOERROR") ? 0 : 1;
  EXPECT_LE(failures, static_cast<int>(UpstreamCookies::kMaxFailures));
  EXPECT_THAT(ask("last.example.org.").text, StartsWith("NOERROR"));
  EXPECT_EQ(events_.downs, 0);
}

// A shortage of our own, while a reply without a cookie is looked into, says nothing of cookies.
TEST_F(CookieForwarderTest, BelievesNoForgedReplyAfterAShortageOfItsOwn) {
  FakeUpstream& upstream = add_with_cookie();
  upstream.behave(Behaviour::ForgedNoCookie);
  for (unsigned i = 0; i < 2 * UpstreamCookies::kMaxFailures; ++i) {
    const std::string name = "n" + std::to_string(i) + ".example.org";
    bool is_answered = false;
    resolve(name + ".", [&](const Outcome& outcome) {
      EXPECT_EQ(outcome.message->kind(), MessageKind::Failure);
      is_answered = true;
    });
    ASSERT_TRUE(loop_.run_until([&] { return upstream.count(name) != 0; }));
    const FewDescriptors none(0);
    ASSERT_TRUE(loop_.run_until([&] { return is_answered; }));
  }
  EXPECT_THAT(events_.learned, ::testing::IsEmpty());
  EXPECT_EQ(ask("last.example.org.").text, "NOERROR [last.example.org. 300 A 192.0.2.1]");
}

// An upstream that takes a FORMERR to EDNS for an answer, after an update that went wrong.
TEST_F(CookieForwarderTest, ServesAnUpstreamThatHasLostEdnsWithItsCookies) {
  FakeUpstream& upstream = add_with_cookie();
  upstream.behave(Behaviour::FormErrOnEdns);
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(ask("n" + std::to_string(i) + ".example.org.").text, StartsWith("NOERROR"));
  EXPECT_LE(over_tcp(upstream), 2u);
}

TEST_F(CookieForwarderTest, TakesANewServerCookieAfterBadCookie) {
  FakeUpstream& upstream = add_with_cookie();
  upstream.behave(Behaviour::BadCookie);
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(ask("n" + std::to_string(i) + ".example.org.").text, StartsWith("NOERROR"));
}

}  // namespace
}  // namespace meshdns::dnsd::test
