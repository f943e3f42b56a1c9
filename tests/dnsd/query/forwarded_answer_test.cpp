// SPDX-License-Identifier: Apache-2.0
// Records of the cache behind an alias, held to what the cache says that they are.
#include "dnsd/answer/forwarded_answer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "registry/base/host_name.hpp"
#include "resolver/cache/answer_builder.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/response_message.hpp"
#include "resolver/wire/upstream_query.hpp"

namespace meshdns::dnsd {
namespace {

using wire::ResponseMessage;
using wire::ResponseRecord;
using wire::Type;

constexpr Millis kReceived = 1000;

class RandomMessages {
 public:
  explicit RandomMessages(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t bound) { return random_() % bound; }

  // Names that share ends with one another, and labels of octets that look like pointers.
  std::string name() {
    static const std::array<std::string, 6> kLabels = {
        "a", "b", "mail", std::string(60, 'x'), std::string("\xc1", 1), std::string("\xff\xc0", 2)};
    std::string wire;
    for (std::size_t labels = below(below(20) == 0 ? 40 : 4) + 1; labels > 0; --labels) {
      const std::string& label = kLabels[below(kLabels.size())];
      if (wire.size() + label.size() + 1 > 220) break;
      wire += static_cast<char>(label.size()) + label;
    }
    return wire + std::string("\4mail\7example\0", 14);
  }

  ResponseMessage message(const std::string& asked, Type type) {
    ResponseMessage response;
    response.question_name = asked;
    response.question = {asked, type, wire::Class::In};
    std::string owner = asked;
    for (std::size_t links = below(3); links > 0; --links) {
      const std::string target = "\4link" + name();
      if (target.size() > wire::kMaxNameLength || target == owner) break;
      response.answer.push_back({owner, Type::Cname, wire::Class::In, 60, target});
      owner = target;
      for (char& c : owner) c = to_lower(c);
    }
    const bool is_negative = below(4) == 0;
    const std::size_t count = below(20) == 0 ? 600 : below(8) + 1;
    for (std::size_t i = 0; !is_negative && i < count; ++i)
      response.answer.push_back({owner, type, wire::Class::In, ttl(), data(type, i)});
    if (is_negative)
      response.authority.push_back(
          {std::string("\7example\0", 9), Type::Soa, wire::Class::In, ttl(),
           name() + name() + std::string(16, '\0') + std::string("\0\0\0\x1e", 4)});
    return response;
  }

 private:
  std::uint32_t ttl() { return static_cast<std::uint32_t>(below(1000) + 10); }
  std::string data(Type type, std::size_t i) {
    const std::string number{static_cast<char>(i >> 8), static_cast<char>(i)};
    switch (type) {
      case Type::A:
        return std::string("\xc6\x12", 2) + number;
      case Type::Mx:
        return number + name();
      case Type::Ns:
      case Type::Ptr:
        return name();
      default:
        return static_cast<char>(i % 200 + 3) + std::string(i % 200, '\xc0') + number + '.';
    }
  }

  std::mt19937 random_;
};

std::string text_of(const ResponseRecord& record) {
  std::string owner = record.owner;
  for (char& c : owner) c = to_lower(c);
  return wire::name_to_text(owner) + " " + std::to_string(record.ttl) + " " +
         wire::to_string(record.type) + " " + ::testing::PrintToString(record.rdata);
}

std::vector<std::string> texts(const std::vector<ResponseRecord>& records) {
  std::vector<std::string> all;
  for (const ResponseRecord& record : records) all.push_back(text_of(record));
  return all;
}

// A reply to a client that asked for an alias of the message's name.
struct AliasReply {
  AliasReply(const CachedMessage& message, const std::string& target, std::size_t links,
             std::size_t limit, std::uint32_t age) {
    std::vector<std::uint8_t> datagram(512);
    const std::string asked = *wire::name_from_text("web.shop.svc.mail.example.");
    datagram.resize(wire::build_query(datagram, {.name = asked, .type = Type::Mx, .edns = true}));
    wire::QueryMessage query;
    wire::parse_query(datagram, query);
    buffer.resize(limit);
    wire::MessageWriter writer(buffer, limit, query);
    AliasChain chain;
    // Long enough that pointers of the message would not reach so far, where all of it fits.
    const std::size_t size = limit < wire::kMaxMessageSize ? 1 : 60;
    for (std::size_t i = 1; i < links; ++i) {
      const std::string label(size, static_cast<char>('a' + i));
      std::string name = label;
      for (const char* const between : {".x", ".y", ".z"}) name.append(between).append(label);
      chain.add({}, name.append(".exampl"), 5);
    }
    chain.add({}, target, 5);
    wire::MessageWriter::NameRef owner = 0;
    EXPECT_TRUE(chain.write(writer, kReceived, owner));
    write_forwarded({.message = message, .now = kReceived + age * Millis{1000}, .rotation = 3},
                    writer, owner);
    buffer.resize(writer.finish());
    const auto parsed = wire::parse_response(buffer);
    EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
    if (parsed) reply = *parsed;
  }
  std::vector<std::uint8_t> buffer;
  ResponseMessage reply;
};

TEST(ForwardedAnswerTest, RecordsBehindAnAliasAreThoseOfTheCache) {
  constexpr std::array kTypes = {Type::A, Type::Mx, Type::Ns, Type::Ptr, Type::Txt};
  constexpr std::array kLimits = {std::size_t{512}, std::size_t{1232}, std::size_t{65535}};
  std::size_t cut = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    RandomMessages random(seed);
    const std::string target = "mail.example";
    const Type type = kTypes[random.below(kTypes.size())];
    const ResponseMessage sent = random.message(wire::wire_from_host(target), type);
    const auto message = build_answer(
        UpstreamAnswer{
            .question = sent.question, .sent_name = sent.question_name, .response = sent},
        {}, kReceived);
    if (!message) continue;
    const auto age = static_cast<std::uint32_t>(random.below(20));
    const std::size_t limit = kLimits[random.below(3)];
    const std::size_t links = random.below(limit < wire::kMaxMessageSize ? 7 : 12) + 1;
    const AliasReply got(**message, target, links, limit, age);
    const ResponseMessage expected =
        (*message)->expand(kReceived + age * Millis{1000}, Freshness::Fresh);

    auto answer = texts(got.reply.answer);
    while (!answer.empty() && answer.front().find(" 5 CNAME ") != std::string::npos)
      answer.erase(answer.begin());
    auto whole = texts(expected.answer);
    if (got.reply.truncated) {
      ++cut;
      ASSERT_LT(answer.size(), whole.size()) << "seed " << seed;
      EXPECT_TRUE(got.reply.authority.empty());
    } else {
      if (type == Type::A) {  // begun at another address
        std::ranges::sort(answer);
        std::ranges::sort(whole);
      }
      ASSERT_EQ(answer, whole) << "seed " << seed;
      const auto authority = texts(got.reply.authority);
      if (!authority.empty()) {
        EXPECT_EQ(authority, texts(expected.authority)) << "seed " << seed;
      }
    }
    if (type == Type::A) continue;
    whole.resize(answer.size());
    ASSERT_EQ(answer, whole) << "seed " << seed;
  }
  EXPECT_GT(cut, 50U);
}

}  // namespace
}  // namespace meshdns::dnsd
