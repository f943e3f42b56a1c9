// SPDX-License-Identifier: Apache-2.0
// The checks that come before the name is looked up.
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

class ProtocolTest : public QueryFixture {
 protected:
  void SetUp() override { load_api(); }
  // A header of these octets, then a question if there is one.
  std::string ask_bytes(std::initializer_list<int> octets) {
    std::vector<std::uint8_t> buffer(kUdpBufferSize);
    std::ranges::transform(octets, buffer.begin(),
                           [](int o) { return static_cast<std::uint8_t>(o); });
    const std::string later = ask_octets(buffer, octets.size());
    return later.empty() ? summary(reply_) : later;
  }
};

TEST_F(ProtocolTest, OverTheRateLimitUdpIsTruncatedOrDroppedAndTcpAnswered) {
  settings_.rate_limit = {.responses_per_second = 2, .slip = 2};
  EXPECT_EQ(ask("api.example.org. A"), "api.example.org. 30 A 10.0.0.7");
  EXPECT_EQ(ask("api.example.org. A"), "api.example.org. 30 A 10.0.0.7");
  EXPECT_EQ(ask("api.example.org. A"), "NO REPLY");
  EXPECT_EQ(ask("api.example.org. A"), "not aa, TC");
  EXPECT_EQ(ask("nowhere.example.org. A"), "NO REPLY") << "no upstream is asked, either";
  EXPECT_EQ(ask("api.example.org. A", {.tcp = true}), "api.example.org. 30 A 10.0.0.7");
  EXPECT_EQ(ask("api.example.org. A", {.from = "127.0.0.2"}), "api.example.org. 30 A 10.0.0.7");
  EXPECT_EQ(handler().counters().limited_dropped.value(), 2U);
  EXPECT_EQ(handler().counters().limited_truncated.value(), 1U);
}

TEST_F(ProtocolTest, ResponsesAndScrapsGetNoReply) {
  EXPECT_EQ(ask_bytes({}), "NO REPLY");
  EXPECT_EQ(ask_bytes({0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0}), "NO REPLY");
  EXPECT_EQ(ask_bytes({0x12, 0x34, 0x81, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1}), "NO REPLY");
}

TEST_F(ProtocolTest, MalformedQueriesGetFormerr) {
  EXPECT_EQ(ask_bytes({0x12, 0x34, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}), "not aa, FORMERR");
  // a compression pointer in the question
  EXPECT_EQ(ask_bytes({0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1}),
            "not aa, FORMERR");
}

TEST_F(ProtocolTest, OtherOpcodesAreNotImplemented) {
  for (int opcode = 1; opcode < 16; ++opcode) {
    ask_bytes({0x12, 0x34, opcode << 3, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1});
    ASSERT_GE(reply_.size(), 12U) << opcode;
    EXPECT_EQ(reply_[0] << 8 | reply_[1], 0x1234) << opcode;
    EXPECT_EQ(reply_[2], 0x80 | opcode << 3) << opcode;
    EXPECT_EQ(reply_[3] & 0x0f, 4) << opcode;
  }
}

TEST_F(ProtocolTest, LaterEdnsVersionsGetBadvers) {
  EXPECT_EQ(ask_bytes({0x12,
                       0x34,
                       1,
                       0,
                       0,
                       1,
                       0,
                       0,
                       0,
                       0,
                       0,
                       1,
                       0,
                       0,
                       1,
                       0,
                       1,
                       /* OPT, version 1 */ 0,
                       0,
                       41,
                       4,
                       208,
                       0,
                       1,
                       0,
                       0,
                       0,
                       0}),
            "not aa, BADVERS");
  EXPECT_TRUE(message_.has_edns);
}

TEST_F(ProtocolTest, RecursionIsNotNeededForOwnNames) {
  EXPECT_EQ(ask("api.example.org. A", {.recursion_desired = false}),
            "api.example.org. 30 A 10.0.0.7");
  EXPECT_EQ(ask("www.example.org. A", {.recursion_desired = false}), "FORWARD");
  EXPECT_FALSE(upstream_.requests.back().recursion_desired);
}

// A client with a forged address must not make us send more than it sends.
TEST_F(ProtocolTest, RepliesToStrangersAreNoLargerThanTheQuery) {
  Config config;
  config.server.allow = {*IpPrefix::parse("127.0.0.0/8")};
  settings_ = QuerySettings::from(config);
  settings_.nsid = std::string(200, 'n');
  settings_.cookies = CookieMode::On;
  settings_.cookie_secrets = CookieSecrets{{1, 2, 3}, {}};
  const std::vector<std::string> options = {
      "",
      std::string("\0\x03\0\0", 4),                           // NSID
      std::string("\0\x0a\0\x08", 4) + "12345678",            // a client's cookie
      std::string("\0\x0a\0\x18", 4) + std::string(24, 'c'),  // and a server's
      std::string("\0\x0a\0\x05", 4) + "12345",               // a broken one
      std::string("\0\x0b\0\0", 4),                           // keepalive
      std::string("\0\x0c\0\x10", 4) + std::string(16, '\0')};
  std::size_t replies = 0;
  for (const int opcode : {0, 1, 2, 4, 5, 15})
    for (const int questions : {0, 1, 2})
      for (const int version : {-1, 0, 1})
        for (const std::string& option : options)
          for (const int type : {0, 1, 12, 16, 28, 33, 41, 128, 250, 251, 252, 255, 65535})
            for (const int qclass : {0, 1, 3, 4, 255})
              for (const char* name : {".", "a.", "api.example.org.", "whoami.meshdns."}) {
                std::string octets("\x12\x34\0\0\0\0\0\0\0\0\0\0", 12);
                octets[2] = static_cast<char>(opcode << 3);
                octets[5] = static_cast<char>(questions);
                octets[11] = version >= 0 ? 1 : 0;
                if (questions > 0)
                  octets += *wire::name_from_text(name) + static_cast<char>(type >> 8) +
                            static_cast<char>(type) + '\0' + static_cast<char>(qclass);
                if (version >= 0)
                  octets += std::string("\0\0\x29\xff\xff\0", 6) + static_cast<char>(version) +
                            std::string("\x80\0\0", 3) + static_cast<char>(option.size()) + option;
                std::vector<std::uint8_t> buffer(kUdpBufferSize);
                std::ranges::copy(octets, buffer.begin());
                if (!ask_octets(buffer, octets.size(), {.from = "192.0.2.1"}).empty()) continue;
                ++replies;
                ASSERT_LE(reply_.size(), octets.size())
                    << "opcode " << opcode << ", " << questions << " questions, EDNS " << version
                    << ", type " << type << ", class " << qclass << ", name " << name;
                if (version < 1) {
                  ASSERT_NE(reply_[3] & 0x0f, 0);
                }
              }
  EXPECT_GT(replies, 10'000U);
}

TEST_F(ProtocolTest, RepliesToUnknownClientsAreNoLargerThanTheQuery) {
  registry_.registry().set_clients({{}, true, registry::UnknownClient::Refuse});
  for (const char* question : {"a. A", "api.example.org. A", "whoami.meshdns. CH TXT"})
    for (const std::string& cookie : {std::string(), std::string(8, 'c')}) {
      EXPECT_EQ(ask(question, {.cookie = cookie, .from = "10.4.0.1"}), "not aa, REFUSED");
      const std::size_t name = std::string_view(question).find(' ') + 1;
      const std::size_t query = 12 + name + 4 + 11 + (cookie.empty() ? 0 : 12);
      EXPECT_LE(reply_.size(), query) << question;
    }
}

// RFC 6895, section 3.1: 0 is reserved, 128 to 255 are meta-types and queries.
TEST_F(ProtocolTest, TypesThatNoRecordHasAreRefusedAndNeverForwarded) {
  for (int type = 0; type < 300; ++type) {
    const std::string text = "TYPE" + std::to_string(type);
    const bool invalid = type == 0 || (type >= 128 && type <= 248);
    const bool refused = type == 41 || (type >= 249 && type <= 254);
    for (const char* name : {"victim.example.net. ", "api.example.org. "}) {
      const std::string got = ask_raw(name + text);
      if (invalid || refused) {
        ASSERT_EQ(got, "") << text;
        EXPECT_EQ(summary(reply_), invalid ? "not aa, FORMERR, EDE 30" : "not aa, REFUSED, EDE 18")
            << text;
      }
    }
    if (invalid || refused) {
      EXPECT_TRUE(upstream_.asked.empty()) << text;
    }
    upstream_.settle();
    upstream_.asked.clear();
  }
}

TEST_F(ProtocolTest, NsidIsSentWhenConfiguredAndAskedFor) {
  settings_.nsid = "node-7";
  std::vector<std::uint8_t> buffer(kUdpBufferSize);
  const std::uint8_t query[] = {
      0x12, 0x34, 1,   0,   0,   1,   0,   0,   0,   0, 0,   1,   3,   'a', 'p',
      'i',  7,    'e', 'x', 'a', 'm', 'p', 'l', 'e', 3, 'o', 'r', 'g', 0,   0,
      1,    0,    1,   0,   0,   41,  4,   208, 0,   0, 0,   0,   0,   4,   /* NSID */ 0,
      3,    0,    0};
  std::ranges::copy(query, buffer.begin());
  ASSERT_EQ(ask_octets(buffer, sizeof query), "");
  const std::string octets(reply_.begin(), reply_.end());
  EXPECT_NE(octets.find(std::string("\0\x03\0\x06node-7", 10)), std::string::npos);
}

TEST_F(ProtocolTest, BatchesAreAnsweredOneByOne) {
  publish();
  std::vector<std::vector<std::uint8_t>> buffers(100, std::vector<std::uint8_t>(kUdpBufferSize));
  std::vector<Datagram> batch;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::string name =
        *wire::name_from_text(i % 2 == 0 ? "api.example.org." : "www.example.net.");
    const std::size_t size =
        wire::build_query(buffers[i], {.id = static_cast<std::uint16_t>(i), .name = name});
    Datagram& datagram = batch.emplace_back();
    datagram.buffer = buffers[i];
    datagram.query_size = i % 10 == 9 ? 3 : size;
    datagram.reply_to.client.address = *IpAddress::parse("127.0.0.1");
  }
  handler().on_batch(batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (i % 10 == 9) {
      EXPECT_EQ(batch[i].reply_size, QuerySink::kNoReply);
    } else if (i % 2 == 1) {
      EXPECT_EQ(batch[i].reply_size, QuerySink::kReplyLater);
    } else {
      EXPECT_EQ(wire::parse_response(std::span(buffers[i]).first(batch[i].reply_size))->id, i);
    }
  }
  EXPECT_EQ(handler().in_flight(), 40U);
}

TEST_F(ProtocolTest, CountsWhatWasAskedAndAnswered) {
  ask("api.example.org. A");
  ask("api.example.org. A", {.tcp = true, .from = "::1"});
  ask("api.example.org. AXFR");
  ask_through("www.example.net. MX");
  const QueryCounters& counters = handler().counters();
  EXPECT_EQ(counters.requests[0][0][QueryCounters::type_slot(wire::Type::A)].value(), 1U);
  EXPECT_EQ(counters.requests[1][1][QueryCounters::type_slot(wire::Type::A)].value(), 1U);
  EXPECT_EQ(counters.requests[0][0][QueryCounters::type_slot(wire::Type::Axfr)].value(), 1U);
  const auto responses = [&](wire::Rcode rcode, AnswerSource source) {
    return counters.responses[QueryCounters::rcode_slot(rcode)][static_cast<std::size_t>(source)]
        .value();
  };
  EXPECT_EQ(responses(wire::Rcode::NoError, AnswerSource::Registry), 2U);
  EXPECT_EQ(responses(wire::Rcode::Refused, AnswerSource::Refused), 1U);
  EXPECT_EQ(responses(wire::Rcode::NxDomain, AnswerSource::Forward), 1U);
  std::uint64_t durations = 0;
  for (const Counter& bucket : counters.duration) durations += bucket.value();
  EXPECT_EQ(durations, 4U);
}

class KeptLog final : public QueryLog {
 public:
  void on_answer(const AnsweredQuery& answered) override {
    lines.push_back(wire::name_to_text(answered.qname) + " " + wire::to_string(answered.qtype) +
                    " " + std::string(wire::to_string(answered.rcode)) + " " +
                    std::string(to_string(answered.source)) + " " + std::string(answered.identity) +
                    " " + std::string(answered.upstream));
  }
  std::vector<std::string> lines;
};

TEST_F(ProtocolTest, LogIsToldOfEveryAnswer) {
  KeptLog log;
  handler().set_log(&log);
  ask("API.example.org. A");
  ask_through("www.example.net. A");
  EXPECT_EQ(log.lines, (std::vector<std::string>{
                           "API.example.org. A NOERROR registry client.default ",
                           "www.example.net. A NXDOMAIN forward client.default 192.0.2.53:53"}));
}

}  // namespace
}  // namespace meshdns::dnsd
