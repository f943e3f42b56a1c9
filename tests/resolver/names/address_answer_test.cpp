// SPDX-License-Identifier: Apache-2.0
#include "resolver/names/cares_lookup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/resolver/names/message_builder.hpp"

namespace meshdns::resolver {
namespace {

using Status = Answer::Status;

std::string print(const Answer& answer) {
  constexpr const char* kStatus[] = {"addresses", "nodata", "noname", "failed"};
  std::string text = kStatus[static_cast<int>(answer.status)];
  if (answer.status == Status::Failed) return text + ": " + answer.error;
  text += answer.has_ttl ? " ttl " + std::to_string(answer.ttl.count()) : " no ttl";
  for (const IpAddress& address : answer.addresses) text.append(" ").append(address.to_string());
  return text;
}

constexpr const char* kHost = "db.example.org";

std::string read(const MessageBuilder& message, Family family = Family::V4) {
  return print(read_address_answer(message.bytes(), kHost, family));
}

Bytes v4(const std::string& text) { return address_bytes(text); }

TEST(AddressAnswerTest, ReadsAddressesInTheirOrderWithTheLeastTtl) {
  MessageBuilder message(kHost, kA);
  message.answer(kHost, kA, 60, v4("192.0.2.2"))
      .answer(kHost, kA, 30, v4("192.0.2.1"))
      .answer(kHost, kA, 60, v4("192.0.2.2"));
  EXPECT_EQ(read(message), "addresses ttl 30 192.0.2.2 192.0.2.1");
}

TEST(AddressAnswerTest, ReadsIpv6) {
  MessageBuilder message(kHost, kAaaa);
  message.answer(kHost, kAaaa, 60, address_bytes("2001:db8::1"));
  EXPECT_EQ(read(message, Family::V6), "addresses ttl 60 2001:db8::1");
}

TEST(AddressAnswerTest, ComparesNamesWithoutCase) {
  MessageBuilder message("DB.Example.ORG", kA);
  message.answer("db.EXAMPLE.org", kA, 60, v4("192.0.2.1"));
  EXPECT_EQ(read(message), "addresses ttl 60 192.0.2.1");
}

TEST(AddressAnswerTest, FollowsAliasesInAnyOrderAndTakesTheChainsLeastTtl) {
  MessageBuilder message(kHost, kA);
  message.answer("c.example.net", kA, 300, v4("192.0.2.1"))
      .answer("b.example.net", kCname, 7, name_bytes("c.example.net"))
      .answer(kHost, kCname, 60, name_bytes("B.example.net"));
  EXPECT_EQ(read(message), "addresses ttl 7 192.0.2.1");
}

TEST(AddressAnswerTest, FollowsCompressedNames) {
  MessageBuilder message(kHost, kA);
  // Owner: pointer to the question's name at 12.
  message.raw({0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1}).count(7, 1);
  EXPECT_EQ(read(message), "addresses ttl 9 192.0.2.1");
}

// MaginotDNS, CVE-2026-42960 and kin: what was not asked for is not an answer.
TEST(AddressAnswerTest, IgnoresRecordsThatAreNotOnTheChain) {
  MessageBuilder message(kHost, kA);
  message.answer("evil.example.org", kA, 60, v4("192.0.2.66"))
      .answer(kHost, kA, 60, v4("192.0.2.1"))
      .answer(kHost, kAaaa, 1, address_bytes("2001:db8::66"))
      .additional(kHost, kA, 1, v4("192.0.2.67"));
  EXPECT_EQ(read(message), "addresses ttl 60 192.0.2.1");
}

TEST(AddressAnswerTest, SixtyFourLinksAreFollowedAndMoreAreNot) {
  for (const int links : {1, 9, 63, 64, 65, 66}) {
    MessageBuilder message(kHost, kA);
    std::string owner = kHost;
    for (int i = 0; i < links; ++i) {
      const std::string target = numbered("l", i, ".example.org");
      message.answer(owner, kCname, 60, name_bytes(target));
      owner = target;
    }
    message.answer(owner, kA, 60, v4("192.0.2.1"));
    EXPECT_EQ(read(message).starts_with("addresses"), links <= 64) << links;
    if (links > 64) continue;
    const Answer answer = read_address_answer(message.bytes(), kHost, Family::V4);
    EXPECT_EQ(answer.via.size(), static_cast<std::size_t>(std::min(links, 16)));
    EXPECT_EQ(answer.via.front(), "l0.example.org");
    EXPECT_EQ(answer.via.back(), owner);
  }
}

TEST(AddressAnswerTest, AnAliasLoopFails) {
  MessageBuilder message(kHost, kA);
  message.answer(kHost, kCname, 60, name_bytes("b.example.org"))
      .answer("b.example.org", kCname, 60, name_bytes(kHost));
  EXPECT_EQ(read(message), "failed: the chain of aliases is a loop or too long");
}

TEST(AddressAnswerTest, NegativeAnswersTakeTheSoasLesserTtl) {
  MessageBuilder nodata(kHost, kA);
  nodata.soa(300, 20);
  EXPECT_EQ(read(nodata), "nodata ttl 20");
  MessageBuilder noname(kHost, kA);
  noname.rcode(3).soa(10, 20);
  EXPECT_EQ(read(noname), "noname ttl 10");
  EXPECT_EQ(read(MessageBuilder(kHost, kA)), "nodata no ttl");
}

TEST(AddressAnswerTest, AnAliasToNothingIsNoData) {
  MessageBuilder message(kHost, kA);
  message.answer(kHost, kCname, 5, name_bytes("b.example.org")).soa(300, 20);
  EXPECT_EQ(read(message), "nodata ttl 5");
}

TEST(AddressAnswerTest, TtlWithTheTopBitIsZero) {
  MessageBuilder message(kHost, kA);
  message.answer(kHost, kA, 0x80000000U, v4("192.0.2.1"));
  EXPECT_EQ(read(message), "addresses ttl 0 192.0.2.1");
}

TEST(AddressAnswerTest, AddressesNobodyCanConnectToAreNone) {
  MessageBuilder message(kHost, kA);
  message.answer(kHost, kA, 60, v4("0.0.0.0"));
  EXPECT_TRUE(read(message).starts_with("nodata"));
  MessageBuilder mapped(kHost, kAaaa);
  mapped.answer(kHost, kAaaa, 60, address_bytes("::ffff:192.0.2.1"))
      .answer(kHost, kAaaa, 60, address_bytes("::"));
  EXPECT_TRUE(read(mapped, Family::V6).starts_with("nodata"));
}

TEST(AddressAnswerTest, RefusesWhatIsNoAnswerToTheQuestion) {
  const auto good = [] {
    MessageBuilder message(kHost, kA);
    message.answer(kHost, kA, 60, v4("192.0.2.1"));
    return message;
  };
  struct Case {
    const char* name;
    MessageBuilder message;
    const char* error;
  };
  const Case cases[] = {
      {"query", good().flags_high(0x01), "failed: not a response to a query"},
      {"opcode", good().flags_high(0xa1), "failed: not a response to a query"},
      {"truncated", good().flags_high(0x83), "failed: the answer is truncated"},
      {"servfail", good().rcode(2), "failed: SERVFAIL"},
      {"refused", good().rcode(5), "failed: REFUSED"},
      {"rcode", good().rcode(11), "failed: rcode 11"},
      {"two questions", good().count(5, 2), "failed: the answer does not repeat the question"},
      {"other name", MessageBuilder("da.example.org", kA),
       "failed: the answer is to another question"},
      {"longer name", MessageBuilder("x.db.example.org", kA),
       "failed: the answer is to another question"},
      {"other type", MessageBuilder(kHost, kAaaa), "failed: the answer is to another question"},
      {"missing record", good().count(7, 2), "failed: the answer is malformed"},
      {"missing authority", good().count(9, 1), "failed: the answer is malformed"},
  };
  for (const Case& test : cases) EXPECT_EQ(read(test.message), test.error) << test.name;
}

TEST(AddressAnswerTest, ALabelWithADotIsNotTwoLabels) {
  MessageBuilder message("", kA);
  Bytes bytes = message.bytes();
  bytes.resize(12);
  const std::string label = "db.example";
  bytes.push_back(static_cast<std::uint8_t>(label.size()));
  bytes.insert(bytes.end(), label.begin(), label.end());
  for (const std::uint8_t octet : Bytes{3, 'o', 'r', 'g', 0, 0, 1, 0, 1}) bytes.push_back(octet);
  EXPECT_EQ(print(read_address_answer(bytes, kHost, Family::V4)),
            "failed: the answer is to another question");
}

TEST(AddressAnswerTest, RefusesWrongDataLengths) {
  for (std::size_t length = 0; length <= 20; ++length) {
    MessageBuilder message(kHost, kA);
    message.answer(kHost, kA, 60, Bytes(length, 9));
    EXPECT_EQ(read(message).starts_with("addresses"), length == 4) << length;
    MessageBuilder message6(kHost, kAaaa);
    message6.answer(kHost, kAaaa, 60, Bytes(length, 9));
    EXPECT_EQ(read(message6, Family::V6).starts_with("addresses"), length == 16) << length;
  }
}

// RFC 9267: loops, forward pointers, names over 255 octets, reserved label types.
TEST(AddressAnswerTest, RefusesNamesThatDoNotParse) {
  const std::uint8_t at = 12 + 16 + 4;  // the first record's owner
  struct Case {
    const char* name;
    Bytes owner;
  };
  Bytes long_name;
  for (int i = 0; i < 5; ++i) {
    long_name.push_back(63);
    long_name.insert(long_name.end(), 63, 'a');
  }
  long_name.push_back(0);
  const Case cases[] = {
      {"pointer to itself", {0xc0, at}},
      {"pointer forward", {0xc0, static_cast<std::uint8_t>(at + 4)}},
      {"pointer behind the end", {0xff, 0xff}},
      {"label, then a pointer to it", {1, 'a', 0xc0, at}},
      {"reserved label type", {0x40, 'a', 0}},
      {"over 255 octets", long_name},
  };
  for (const Case& test : cases) {
    MessageBuilder message(kHost, kA);
    ASSERT_EQ(message.bytes().size(), at);
    message.raw(test.owner).raw({0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1}).count(7, 1);
    EXPECT_EQ(read(message), "failed: the answer is malformed") << test.name;
  }
}

TEST(AddressAnswerTest, EveryCutOfAnAnswerFailsCleanly) {
  MessageBuilder message(kHost, kA);
  message.answer(kHost, kCname, 60, name_bytes("b.example.org"))
      .answer("b.example.org", kA, 60, v4("192.0.2.1"))
      .soa(1, 1);
  for (std::size_t length = 0; length < message.bytes().size(); ++length) {
    const std::span<const std::uint8_t> cut(message.bytes().data(), length);
    EXPECT_EQ(read_address_answer(cut, kHost, Family::V4).status, Status::Failed) << length;
  }
}

TEST(AddressAnswerTest, SurvivesFlippedOctets) {
  MessageBuilder message(kHost, kA);
  message.answer(kHost, kCname, 60, name_bytes("b.example.org"))
      .answer("b.example.org", kA, 60, v4("192.0.2.1"))
      .soa(1, 1);
  std::mt19937 random(7);
  int parsed = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes = message.bytes();
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    const Answer answer = read_address_answer(bytes, kHost, Family::V4);
    EXPECT_EQ(answer.status == Status::Addresses, !answer.addresses.empty());
    parsed += answer.status == Status::Addresses ? 1 : 0;
  }
  EXPECT_GT(parsed, 0);
}

}  // namespace
}  // namespace meshdns::resolver
