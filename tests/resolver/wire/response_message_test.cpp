// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/response_message.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "octets.hpp"
#include "resolver/wire/ldns.hpp"
#include "resolver/wire/rdata_shape.hpp"
#include "resolver/wire/record_text.hpp"

namespace meshdns::wire {
namespace {

constexpr unsigned kReply = 0x8180;  // QR, RD, RA

Result<ResponseMessage> parse(const Octets& message) {
  const auto exact = std::make_unique<std::uint8_t[]>(message.size());
  std::copy(message.begin(), message.end(), exact.get());
  return parse_response({exact.get(), message.size()});
}

// One answer of `type` with `rdata` under the question's name.
Octets answer_of(Type type, std::string_view rdata, std::uint32_t ttl = 60) {
  return Message()
      .header(kReply, 1, 1)
      .question("a.example", type)
      .pointer(12)
      .record(type, ttl, rdata);
}

std::string text(const char* presentation) { return *name_from_text(presentation); }

TEST(ResponseMessageTest, ReadsFlagsQuestionAndSections) {
  const Octets message =
      Message()
          .header(0x87b3, 1, 1, 1, 1)
          .question("WWW.example.org")
          .pointer(12)
          .record(Type::Cname, 30, Message().u8(1).text("b").pointer(16).string())
          .pointer(16)
          .record(Type::Ns, 31, Message().u8(2).text("ns").pointer(16).string())
          .u8(2)
          .text("ns")
          .pointer(16)
          .record(Type::A, 32, Message().u8(192).u8(0).u8(2).u8(1).string());
  const auto response = parse(message);
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(response->id, 0x1234);
  EXPECT_EQ(response->rcode, Rcode::NxDomain);
  EXPECT_TRUE(response->authoritative && response->truncated && response->recursion_available &&
              response->authentic_data && response->checking_disabled);
  EXPECT_EQ(response->question_name, text("WWW.example.org"));
  EXPECT_EQ(response->question.name, text("www.example.org"));
  ASSERT_EQ(response->answer.size(), 1u);
  EXPECT_EQ(record_to_text(response->answer[0]), "WWW.example.org. 30 IN CNAME b.example.org.");
  EXPECT_EQ(record_to_text(response->authority[0]), "example.org. 31 IN NS ns.example.org.");
  EXPECT_EQ(record_to_text(response->additional[0]), "ns.example.org. 32 IN A 192.0.2.1");
}

TEST(ResponseMessageTest, RefusesWhatIsMalformed) {
  const std::string a = Message().u8(192).u8(0).u8(2).u8(1).string();
  const struct {
    const char* what;
    Octets message;
    const char* complaint;
  } cases[] = {
      {"nothing", {}, "shorter than a header"},
      {"QR=0", Message().header(0x0100, 1).question("a.example"), "QR=0"},
      {"opcode NOTIFY", Message().header(0xa000, 1).question("a.example"), "opcode"},
      {"two questions", Message().header(kReply, 2).question("a.example").question("a.example"),
       "more than one question"},
      {"question cut", Message().header(kReply, 1).name("a.example").u8(0), "question cut short"},
      {"question pointing at itself", Message().header(kReply, 1).pointer(12).u32(1),
       "name in the question"},
      {"trailing octet", Message().header(kReply, 1).question("a.example").u8(0), "after the last"},
      {"too few records", Message().header(kReply, 1, 1).question("a.example"), "name of a record"},
      {"more records than can be",
       Message().header(kReply, 1, 65535, 65535, 65535).question("a.example"), "more records"},
      {"owner pointing at itself",
       Message().header(kReply, 1, 1).question("a.example").pointer(27).record(Type::A, 1, a),
       "name of a record"},
      {"owner pointing forward",
       Message().header(kReply, 1, 1).question("a.example").pointer(40).record(Type::A, 1, a),
       "name of a record"},
      {"owner pointing into the header",
       Message().header(kReply, 1, 1).question("a.example").pointer(11).record(Type::A, 1, a),
       "name of a record"},
      {"two pointers that point at each other",
       Message()
           .header(kReply, 1, 2)
           .question("a.example")
           .pointer(12)
           .record(Type::Cname, 1, Message().u8(1).text("x").pointer(43).string()),
       "do not fit"},
      {"TTL missing",
       Message().header(kReply, 1, 1).question("a.example").pointer(12).u16(1).u16(1),
       "record cut short"},
      {"RDLENGTH beyond the end",
       Message()
           .header(kReply, 1, 1)
           .question("a.example")
           .pointer(12)
           .u16(1)
           .u16(1)
           .u32(1)
           .u16(5)
           .text(a),
       "data cut short"},
      {"A of 3 octets", answer_of(Type::A, "abc"), "do not fit"},
      {"A of 5 octets", answer_of(Type::A, "abcde"), "do not fit"},
      {"A of 0 octets", answer_of(Type::A, ""), "do not fit"},
      {"AAAA of 15 octets", answer_of(Type::Aaaa, "abcdefghijklmno"), "do not fit"},
      {"AAAA of 17 octets", answer_of(Type::Aaaa, "abcdefghijklmnopq"), "do not fit"},
      {"NS of nothing", answer_of(Type::Ns, ""), "do not fit"},
      {"CNAME with octets behind the name", answer_of(Type::Cname, text("b.example") + "x"),
       "do not fit"},
      {"CNAME that runs out", answer_of(Type::Cname, "\3ab"), "do not fit"},
      {"MX without name", answer_of(Type::Mx, "ab"), "do not fit"},
      {"SRV of six octets", answer_of(Type::Srv, "abcdef"), "do not fit"},
      {"SOA one octet short", answer_of(Type::Soa, text("a") + text("b") + std::string(19, 'x')),
       "do not fit"},
      {"SOA one octet long", answer_of(Type::Soa, text("a") + text("b") + std::string(21, 'x')),
       "do not fit"},
      {"TXT of nothing", answer_of(Type::Txt, ""), "do not fit"},
      {"TXT string beyond its end", answer_of(Type::Txt, "\5abc"), "do not fit"},
      {"HINFO of one string", answer_of(Type::Hinfo, "\1a"), "do not fit"},
      {"NAPTR without replacement", answer_of(Type{35}, "abcd\1u\1v\1w"), "do not fit"},
      {"DNAME of label type 01, the letter A", answer_of(Type::Dname, std::string(66, 'A')),
       "do not fit"},
      {"two OPT", Message().header(kReply, 1, 0, 0, 2).question("a.example").opt().opt(),
       "more than one OPT"},
      {"OPT in answer", Message().header(kReply, 1, 1).question("a.example").opt(), "OPT outside"},
      {"OPT at a name",
       Message()
           .header(kReply, 1, 0, 0, 1)
           .question("a.example")
           .name("b")
           .record(Type::Opt, 0, ""),
       "not at the root"},
      {"option cut", Message().header(kReply, 1, 0, 0, 1).question("a.example").opt(1232, "abc"),
       "option cut"},
      {"cookie of 15",
       Message()
           .header(kReply, 1, 0, 0, 1)
           .question("a.example")
           .opt(1232, Message().option(10, std::string(15, 'c')).string()),
       "cookie"},
      {"extended error of one octet",
       Message()
           .header(kReply, 1, 0, 0, 1)
           .question("a.example")
           .opt(1232, Message().option(15, "x").string()),
       "extended error"},
  };
  for (const auto& c : cases) {
    const auto response = parse(c.message);
    ASSERT_FALSE(response.has_value()) << c.what;
    EXPECT_NE(response.error().message.find(c.complaint), std::string::npos)
        << c.what << ": " << response.error().message;
  }
}

TEST(ResponseMessageTest, RefusesEveryPrefix) {
  const Octets whole =
      Message()
          .header(kReply, 1, 1, 0, 1)
          .question("a.example", Type::Mx)
          .pointer(12)
          .record(Type::Mx, 1, Message().u16(10).u8(1).text("m").pointer(12).string())
          .opt(1232, Message().option(15, Message().u16(3).text("x").string()).string());
  ASSERT_TRUE(parse(whole).has_value());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(
        parse(Octets(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))).has_value())
        << size;
}

TEST(ResponseMessageTest, GivesATruncatedMessageWithoutItsRecords) {
  const Octets whole = Message()
                           .header(kReply | 0x0200, 1, 2)
                           .question("a.example")
                           .pointer(12)
                           .record(Type::A, 1, "abcd")
                           .pointer(12);
  const auto response = parse(whole);
  ASSERT_TRUE(response.has_value());
  EXPECT_TRUE(response->truncated);
  EXPECT_TRUE(response->answer.empty());
}

TEST(ResponseMessageTest, DrawsTheLineAtNamesOf255) {
  // The question is 193 octets; a label of `last` octets before a pointer to it.
  const std::string three =
      std::string(63, 'a') + "." + std::string(63, 'b') + "." + std::string(63, 'c');
  for (unsigned last = 58; last <= 63; ++last) {
    const Octets message = Message()
                               .header(kReply, 1, 1)
                               .question(three)
                               .u8(last)
                               .text(std::string(last, 'd'))
                               .pointer(12)
                               .record(Type::A, 1, "abcd");
    EXPECT_EQ(parse(message).has_value(), 193 + last + 1 <= 255) << last;
  }
}

TEST(ResponseMessageTest, FollowsPointersToPointers) {
  const Octets message =
      Message()
          .header(kReply, 1, 2)
          .question("a.example", Type::Cname)
          .pointer(12)                                             // at 27
          .record(Type::Cname, 1, Message().pointer(12).string())  // rdata at 39
          .pointer(39)
          .record(Type::Cname, 1, Message().u8(1).text("b").pointer(27).string());
  const auto response = parse(message);
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(response->answer[1].owner, text("a.example"));
  EXPECT_EQ(response->answer[1].rdata, text("b.a.example"));
}

TEST(ResponseMessageTest, BoundsTtls) {
  const struct {
    std::uint32_t sent;
    std::uint32_t read;
  } cases[] = {{0, 0},
               {1, 1},
               {kMaxTtl, kMaxTtl},
               {kMaxTtl + 1, kMaxTtl},
               {0x7fffffff, kMaxTtl},
               {0x80000000, 0},
               {0xffffffff, 0}};
  for (const auto& c : cases)
    EXPECT_EQ(parse(answer_of(Type::A, "abcd", c.sent))->answer[0].ttl, c.read);
}

TEST(ResponseMessageTest, KeepsUnknownTypesOctetForOctet) {
  // Data of unknown types has no compression pointers (RFC 3597, section 4).
  const std::string rdata("\xc0\x0c\0\xff", 4);
  for (const Type type : {Type{65280}, Type::Https, Type::Rrsig, Type::Caa}) {
    const auto response = parse(answer_of(type, rdata));
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(response->answer[0].rdata, rdata);
  }
}

TEST(ResponseMessageTest, ReadsEdns) {
  const std::string options = Message()
                                  .option(15, Message().u16(22).text("no reply").string())
                                  .option(10, std::string(24, 'c'))
                                  .option(12, std::string(8, '\0'))
                                  .string();
  Message message;
  message.header(0x8183, 1, 0, 0, 1).question("a.example");
  message.u8(0)
      .u16(41)
      .u16(1400)
      .u8(1)
      .u8(0)
      .u16(0)
      .u16(static_cast<unsigned>(options.size()))
      .text(options);
  const auto response = parse(message);
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(static_cast<int>(response->rcode), 16 + 3);
  EXPECT_EQ(response->udp_payload, 1400);
  EXPECT_EQ(response->cookie, std::string(24, 'c'));
  ASSERT_EQ(response->extended_errors.size(), 1u);
  EXPECT_EQ(response->extended_errors[0].second, "no reply");
}

TEST(ResponseMessageTest, IgnoresTsig) {
  const auto response = parse(Message()
                                  .header(kReply, 1, 0, 0, 2)
                                  .question("a.example")
                                  .u8(0)
                                  .record(Type::Tsig, 0, "xx")
                                  .u8(0)
                                  .record(Type::Tsig, 0, "yy"));
  ASSERT_TRUE(response.has_value());
  EXPECT_TRUE(response->additional.empty());
}

TEST(ResponseMessageTest, ReadsWhatLdnsBuilds) {
  const std::vector<std::string> records = {
      "www.example.org. 60 IN A 192.0.2.1",
      "www.example.org. 60 IN AAAA 2001:db8::1",
      "example.org. 60 IN NS ns.example.org.",
      "alias.example.org. 60 IN CNAME www.example.org.",
      "example.org. 60 IN SOA ns.example.org. hostmaster.example.org. 1 2 3 4 5",
      "1.2.0.192.in-addr.arpa. 60 IN PTR www.example.org.",
      "example.org. 60 IN MX 10 mail.example.org.",
      "example.org. 60 IN TXT \"one\" \"two words\"",
      "_http._tcp.example.org. 60 IN SRV 1 2 80 www.example.org.",
      "example.org. 60 IN HINFO \"RFC8482\" \"\"",
      "sub.example.org. 60 IN DNAME example.net.",
      "example.org. 60 IN NAPTR 1 2 \"u\" \"E2U+sip\" \"!^.*$!sip:a@example.org!\" .",
      "odd\\.label.\\000x.example.org. 60 IN A 192.0.2.1",
      "example.org. 60 IN RP a.example.org. b.example.org.",
      "example.org. 60 IN KX 1 a.example.org.",
  };
  ldns_pkt* packet = ldns_pkt_query_new(ldns_dname_new_frm_str("example.org."), LDNS_RR_TYPE_ANY,
                                        LDNS_RR_CLASS_IN, LDNS_RD | LDNS_QR);
  std::vector<std::string> expected;
  for (const std::string& record : records) {
    ldns_rr* rr = nullptr;
    ASSERT_EQ(ldns_rr_new_frm_str(&rr, record.c_str(), 0, nullptr, nullptr), LDNS_STATUS_OK)
        << record;
    ldns_pkt_push_rr(packet, LDNS_SECTION_ANSWER, rr);
    char* const printed = ldns_rr2str(rr);
    std::string tidy = printed;
    std::free(printed);
    std::replace(tidy.begin(), tidy.end(), '\t', ' ');
    tidy.pop_back();
    expected.push_back(tidy);
  }
  std::uint8_t* octets = nullptr;
  std::size_t size = 0;
  ASSERT_EQ(ldns_pkt2wire(&octets, packet, &size), LDNS_STATUS_OK);
  const auto response = parse_response({octets, size});
  std::free(octets);
  ldns_pkt_free(packet);
  ASSERT_TRUE(response.has_value()) << response.error().message;
  std::vector<std::string> read;
  for (const ResponseRecord& record : response->answer) read.push_back(record_to_text(record));
  EXPECT_EQ(read, expected);
}

TEST(ResponseMessageTest, SurvivesDamage) {
  Random random(2);
  const Octets whole =
      Message()
          .header(kReply, 1, 3, 1, 1)
          .question("www.example.org", Type::Mx)
          .pointer(12)
          .record(Type::Mx, 1, Message().u16(10).u8(1).text("m").pointer(16).string())
          .pointer(12)
          .record(Type::Txt, 1, "\3one\3two")
          .pointer(12)
          .record(Type::Srv, 1, Message().u16(0).u16(1).u16(80).name("a.b").string())
          .pointer(16)
          .record(Type::Soa, 1,
                  Message().pointer(12).pointer(16).text(std::string(20, 'x')).string())
          .opt(1232, Message().option(15, Message().u16(3).string()).string());
  ASSERT_TRUE(parse(whole).has_value());
  for (int i = 0; i < 100'000; ++i) {
    Octets damaged = whole;
    for (unsigned n = 1 + random() % 4; n > 0; --n)
      damaged[random() % damaged.size()] = static_cast<std::uint8_t>(random());
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    const auto response = parse(damaged);
    if (!response) continue;
    for (const ResponseRecord& record : response->answer) {
      ASSERT_TRUE(is_wire_name(record.owner));
      ASSERT_FALSE(record_to_text(record).empty());
    }
  }
}

// Chains of pointers, names of 255 octets in every record: expansion stays bounded.
TEST(ResponseMessageTest, ReadsTheWorstMessageInBoundedTime) {
  Message message;
  const unsigned records = kMaxResponseRecords;
  message.header(kReply, 1, records);
  for (int i = 0; i < 3; ++i) message.u8(63).text(std::string(63, 'a'));
  message.u8(61).text(std::string(61, 'b')).u8(0).u16(5).u16(1);
  std::size_t last = 12;
  for (unsigned i = 0; i < records; ++i) {
    message.pointer(12).record(
        Type::Cname, 1,
        Message().pointer(static_cast<unsigned>(i % 120 == 0 ? 12 : last)).string());
    last = message.size() - 2 <= 0x3fff ? message.size() - 2 : 12;
  }
  ASSERT_LE(message.size(), kMaxMessageSize);
  const auto response = parse(message);
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(response->answer.back().rdata.size(), 255u);
}

// Rdata of `shape` whose names are `name`.
std::string rdata_of(std::string_view shape, const std::string& name) {
  std::string rdata;
  for (const char c : shape) {
    if (c == 'n')
      rdata += name;
    else if (c == 's' || c == 'S')
      rdata += "\1x";
    else
      rdata.append(static_cast<std::size_t>(c - '0'), '\1');
  }
  return rdata;
}

// A message with a record of each type whose shape is known, in each section.
struct ManyTypes {
  explicit ManyTypes(unsigned first) {
    for (unsigned type = 1; type <= 0xffff; ++type)
      if (rdata_shape(static_cast<Type>(type), Class::In) != nullptr) types.push_back(type);
    const auto each = static_cast<unsigned>(types.size());
    message.header(kReply, 1, each, each, each).question("a.example");
    for (int section = 0; section < 3; ++section)
      for (unsigned i = 0; i < each; ++i) {
        const auto type = static_cast<Type>(types[(first + i) % each]);
        message.pointer(12).record(type, 60, rdata_of(rdata_shape(type, Class::In), kPointer));
      }
  }
  inline static const std::string kPointer = Message().pointer(12).string();
  std::vector<unsigned> types;
  Message message;
};

TEST(ResponseMessageTest, RefusesCountsThatLieWhateverTheTypes) {
  const std::size_t types = ManyTypes(0).types.size();
  ASSERT_GT(types, 10u);
  for (unsigned first = 0; first < types; ++first) {
    Octets message = ManyTypes(first).message;
    const auto good = parse(message);
    ASSERT_TRUE(good.has_value()) << good.error().message;
    for (const std::size_t at : {4u, 6u, 8u, 10u}) {
      const unsigned count = message[at] << 8U | message[at + 1];
      for (const unsigned lie : {0u, count - 1, count + 1, 255u, 4096u, 65535u}) {
        if (lie == count) continue;
        Octets wrong = message;
        wrong[at] = static_cast<std::uint8_t>(lie >> 8U);
        wrong[at + 1] = static_cast<std::uint8_t>(lie);
        EXPECT_FALSE(parse(wrong).has_value()) << at << ": " << lie;
      }
    }
  }
}

TEST(ResponseMessageTest, RefusesNamesThatDoNotEndWithTheirRecord) {
  for (const unsigned number : ManyTypes(0).types) {
    const auto type = static_cast<Type>(number);
    const std::string shape = rdata_shape(type, Class::In);
    if (shape.find('n') == std::string::npos) continue;
    for (const std::string& name :
         {std::string("\x3f"
                      "a"),
          std::string("\1a"), std::string("\1a\xc0"), std::string("\xc0"),
          Message().pointer(0x3fff).string(), std::string("\1a\0\0", 4)}) {
      // The octets behind the record would end the name.
      const Octets message = Message()
                                 .header(kReply, 1, 1, 0, 1)
                                 .question("a.example", type)
                                 .pointer(12)
                                 .record(type, 60, rdata_of(shape, name))
                                 .u8(0)
                                 .record(Type::A, 60, "\1\1\1\1");
      EXPECT_FALSE(parse(message).has_value()) << number << " " << shape;
    }
  }
}

TEST(ResponseMessageTest, ReadsAMessageOfTheLargestSizeOfEachType) {
  for (const unsigned number : ManyTypes(0).types) {
    const auto type = static_cast<Type>(number);
    const std::string rdata = rdata_of(rdata_shape(type, Class::In), ManyTypes::kPointer);
    const auto count = static_cast<unsigned>(
        std::min(kMaxResponseRecords, (kMaxMessageSize - 30) / (rdata.size() + 12)));
    Message message;
    message.header(kReply, 1, count).question("a.example", type);
    for (unsigned i = 0; i < count; ++i) message.pointer(12).record(type, 60, rdata);
    ASSERT_LE(message.size(), kMaxMessageSize);
    const auto response = parse(message);
    ASSERT_TRUE(response.has_value()) << number << ": " << response.error().message;
    EXPECT_EQ(response->answer.size(), count);
  }
}

TEST(ResponseMessageTest, KeepsLittleOfAnOptionThatComesThousandsOfTimes) {
  for (const unsigned code : {3u, 8u, 10u, 11u, 12u, 15u, 18u, 65001u}) {
    std::string options;
    for (int i = 0; i < 5'000; ++i) options += Message().option(code, "12345678").string();
    const auto response =
        parse(Message().header(kReply, 1, 0, 0, 1).question("a.example").opt(1232, options));
    ASSERT_TRUE(response.has_value()) << code << ": " << response.error().message;
    EXPECT_LE(response->extended_errors.size(), 16u);
    EXPECT_LE(response->cookie.size(), 40u);
  }
}

TEST(IsReplyToTest, WantsEverythingToMatch) {
  const std::string name = text("wWw.example.org");
  const struct {
    const char* what;
    Octets message;
    bool accepted;
  } cases[] = {
      {"the reply", Message().header(kReply, 1).question("wWw.example.org"), true},
      {"an error", Message().header(0x8182, 1).question("wWw.example.org"), true},
      {"other id", Message().header(kReply, 1, 0, 0, 0, 0x1235).question("wWw.example.org"), false},
      {"QR=0", Message().header(0x0180, 1).question("wWw.example.org"), false},
      {"opcode", Message().header(0xa180, 1).question("wWw.example.org"), false},
      {"no question", Message().header(kReply, 0), false},
      {"two questions", Message().header(kReply, 2).question("wWw.example.org"), false},
      {"other type", Message().header(kReply, 1).question("wWw.example.org", Type::Aaaa), false},
      {"other class",
       Message().header(kReply, 1).question("wWw.example.org", Type::A, Class::Chaos), false},
      {"other name", Message().header(kReply, 1).question("wWw.example.net"), false},
      {"longer name", Message().header(kReply, 1).question("wWw.example.org.x"), false},
      {"other case", Message().header(kReply, 1).question("www.example.org"), false},
      {"cut", Message().header(kReply, 1).name("wWw.example.org").u16(1), false},
      {"nothing", {}, false},
  };
  for (const auto& c : cases) {
    bool case_differs = true;
    EXPECT_EQ(is_reply_to(c.message, 0x1234, name, Type::A, Class::In, &case_differs), c.accepted)
        << c.what;
    EXPECT_EQ(case_differs, std::string_view(c.what) == "other case") << c.what;
  }
}

}  // namespace
}  // namespace meshdns::wire
