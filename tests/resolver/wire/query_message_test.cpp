// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/query_message.hpp"

#include <gtest/gtest.h>

#include "octets.hpp"
#include "resolver/wire/ldns.hpp"

namespace meshdns::wire {
namespace {

using enum ParseOutcome;

ParseOutcome outcome_of(const Octets& datagram) {
  // Exactly as much memory as octets: a sanitizer sees the first one read beyond.
  const auto exact = std::make_unique<std::uint8_t[]>(datagram.size());
  std::copy(datagram.begin(), datagram.end(), exact.get());
  QueryMessage query;
  return parse_query({exact.get(), datagram.size()}, query);
}

std::string label(std::size_t size, char c = 'a') { return std::string(size, c); }

TEST(QueryMessageTest, ReadsHeaderQuestionAndName) {
  const Octets datagram =
      Message().header(0x0130, 1).question("WWW.Example.org", Type::Aaaa, Class::Chaos);
  QueryMessage query;
  ASSERT_EQ(parse_query(datagram, query), Ok);
  EXPECT_EQ(query.id, 0x1234);
  EXPECT_TRUE(query.recursion_desired);
  EXPECT_TRUE(query.checking_disabled);
  EXPECT_TRUE(query.authentic_data);
  EXPECT_EQ(query.qname(), "www.example.org");
  EXPECT_EQ(query.qname_size, 17u);
  EXPECT_EQ(query.qtype, Type::Aaaa);
  EXPECT_EQ(query.qclass, Class::Chaos);
  EXPECT_EQ(query.question.data(), datagram.data() + 12);
  EXPECT_EQ(query.question.size(), 21u);
  EXPECT_FALSE(query.has_odd_octets);
  EXPECT_FALSE(query.has_edns);
}

TEST(QueryMessageTest, ReadsTheRoot) {
  QueryMessage query;
  const Octets datagram = query_for(".", Type::Ns);
  ASSERT_EQ(parse_query(datagram, query), Ok);
  EXPECT_EQ(query.qname(), "");
  EXPECT_EQ(query.qname_size, 1u);
}

// The copy goes in blocks with tails of every size; each must be lower-cased to the last octet.
TEST(QueryMessageTest, LowerCasesNamesOfEveryLength) {
  for (std::size_t size = 1; size <= 253; ++size) {
    std::string name = label(size, static_cast<char>('A' + size % 26));
    for (std::size_t dot = 63; dot + 1 < size; dot += 64) name[dot] = '.';
    if (size % 64 == 0) name[1] = '.', name[size - 2] = '.';  // 63 octets and no room for another
    std::string lower = name;
    for (char& c : lower) c = c == '.' ? c : static_cast<char>(c + 32);
    for (const Octets& datagram : {query_for(name), edns_query_for(name)}) {
      QueryMessage query;
      ASSERT_EQ(parse_query(datagram, query), Ok) << size;
      EXPECT_EQ(query.qname(), lower);
      EXPECT_FALSE(query.has_odd_octets) << size;
    }
  }
}

TEST(QueryMessageTest, LowersLettersOnly) {
  std::string name = "x";
  for (int c = 0; c < 256; ++c)
    if (c != 0 && c != '.') name += static_cast<char>(c);
  Message message;
  message.header(0x0100, 1);
  for (std::size_t i = 0; i < name.size(); i += 60) {
    const std::string part = name.substr(i, 60);
    if (message.size() - 12 + part.size() > 240) break;
    message.u8(static_cast<unsigned>(part.size())).text(part);
  }
  message.u8(0).u16(1).u16(1);
  QueryMessage query;
  ASSERT_EQ(parse_query(message.octets(), query), Ok);
  std::size_t at = 0;
  for (const char c : query.qname()) {
    const char sent = static_cast<char>(message.octets()[13 + at]);
    const bool dot = at > 0 && c == '.';
    const bool upper = sent >= 'A' && sent <= 'Z';
    if (!dot) {
      EXPECT_EQ(c, upper ? static_cast<char>(sent + 32) : sent) << at;
    }
    ++at;
  }
}

TEST(QueryMessageTest, MarksDotsAndNulsInLabels) {
  const struct {
    const char* what;
    std::string name;
    bool odd;
  } cases[] = {
      {"dot", "a\\.b.example.org", true},
      {"NUL", "a\\000b.example.org", true},
      {"NUL at the end", "example.or\\000", true},
      {"dot in a long name", label(60) + "." + label(40) + "\\.", true},
      {"a label of 46 octets, whose length is a dot", label(46) + ".example.org", false},
      {"nothing odd", "a-b_c.example.org", false},
  };
  for (const auto& c : cases) {
    for (const Octets& datagram : {query_for(c.name), edns_query_for(c.name)}) {
      QueryMessage query;
      ASSERT_EQ(parse_query(datagram, query), Ok) << c.what;
      EXPECT_EQ(query.has_odd_octets, c.odd) << c.what;
    }
  }
}

TEST(QueryMessageTest, KnowsEveryOutcome) {
  const Octets q = query_for("www.example.org");
  const std::string rr = Message().u8(0).record(Type::A, 1, "abcd").string();
  const struct {
    const char* what;
    Octets datagram;
    ParseOutcome outcome;
  } cases[] = {
      {"nothing", {}, Drop},
      {"eleven octets", Octets(11, 0), Drop},
      {"QR=1", Message().header(0x8100, 1).question("example.org"), Drop},
      {"QR=1 and otherwise broken", Message().header(0x8100, 7), Drop},
      {"no question", Message().header(0x0100, 0), FormErr},
      {"two questions", Message().header(0x0100, 2).question("example.org").question("example.org"),
       FormErr},
      {"IQUERY", Message().header(0x0900, 1).question("example.org"), NotImp},
      {"STATUS", Message().header(0x1100, 1).question("example.org"), NotImp},
      {"NOTIFY", Message().header(0x2100, 1).question("example.org", Type::Soa), NotImp},
      {"UPDATE", Message().header(0x2800, 1).question("example.org", Type::Soa), NotImp},
      {"DSO without question", Message().header(0x3000, 0), NotImp},
      {"opcode 15", Message().header(0x7800, 1).question("example.org"), NotImp},
      {"trailing octets", Message().header(0x0100, 1).question("example.org").u8(0), FormErr},
      {"compressed question", Message().header(0x0100, 1).pointer(12).u16(1).u16(1), FormErr},
      {"pointer behind a label",
       Message().header(0x0100, 1).u8(1).text("a").pointer(12).u16(1).u16(1), FormErr},
      {"label type 01", Message().header(0x0100, 1).u8(0x41).text(label(65)).u8(0).u32(1), FormErr},
      {"label type 10", Message().header(0x0100, 1).u8(0x81).text(label(65)).u8(0).u32(1), FormErr},
      {"an answer in a query", Message().header(0x0100, 1, 1).question("example.org").text(rr), Ok},
      {"IXFR's SOA", Message().header(0x0100, 1, 0, 1).question("example.org", Type::Ixfr).text(rr),
       Ok},
      {"an additional record",
       Message().header(0x0100, 1, 0, 0, 1).question("example.org").text(rr), Ok},
      {"counts that lie", Message().header(0x0100, 1, 65535, 65535, 65535).question("example.org"),
       FormErr},
      {"one record too few", Message().header(0x0100, 1, 0, 0, 2).question("example.org").text(rr),
       FormErr},
      {"an owner pointing back",
       Message()
           .header(0x0100, 1, 0, 0, 1)
           .question("example.org")
           .pointer(12)
           .record(Type::Tsig, 0, "abc"),
       Ok},
      {"an owner pointing at itself",
       Message()
           .header(0x0100, 1, 0, 0, 1)
           .question("example.org")
           .pointer(29)
           .record(Type::Tsig, 0, "abc"),
       FormErr},
      {"an owner pointing into the header",
       Message()
           .header(0x0100, 1, 0, 0, 1)
           .question("example.org")
           .pointer(2)
           .record(Type::Tsig, 0, "abc"),
       FormErr},
      {"EDNS", Message().header(0x0100, 1, 0, 0, 1).question("example.org").opt(), Ok},
      {"EDNS and TSIG",
       Message()
           .header(0x0100, 1, 0, 0, 2)
           .question("example.org")
           .opt()
           .u8(0)
           .record(Type::Tsig, 0, "abc"),
       Ok},
      {"two OPT", Message().header(0x0100, 1, 0, 0, 2).question("example.org").opt().opt(),
       FormErr},
      {"OPT in answer", Message().header(0x0100, 1, 1).question("example.org").opt(), FormErr},
      {"OPT in authority", Message().header(0x0100, 1, 0, 1).question("example.org").opt(),
       FormErr},
      {"OPT at a name",
       Message()
           .header(0x0100, 1, 0, 0, 1)
           .question("example.org")
           .name("a")
           .record(Type::Opt, 0, ""),
       FormErr},
      {"OPT at a pointer",
       Message()
           .header(0x0100, 1, 0, 0, 1)
           .question("example.org")
           .pointer(24)
           .record(Type::Opt, 0, ""),
       FormErr},
      {"EDNS version 1",
       Message().header(0x0100, 1, 0, 0, 1).question("example.org").opt(1232, "", 1), BadVers},
      {"EDNS version 255, options of its own",
       Message().header(0x0100, 1, 0, 0, 1).question("example.org").opt(1232, "x", 255), BadVers},
      {"EDNS version 1 and trailing octets",
       Message().header(0x0100, 1, 0, 0, 1).question("example.org").opt(1232, "", 1).u8(1),
       FormErr},
      {"an option cut short",
       Message()
           .header(0x0100, 1, 0, 0, 1)
           .question("example.org")
           .opt(1232, std::string_view("\0\x0a\0", 3)),
       FormErr},
      {"an unknown option",
       Message()
           .header(0x0100, 1, 0, 0, 1)
           .question("example.org")
           .opt(1232, Message().option(65001, "xyz").string()),
       Ok},
      {"unknown type and class",
       Message().header(0x0100, 1).question("example.org", Type{65280}, Class{4711}), Ok},
      {"all flags", Message().header(0x07ff, 1).question("example.org"), Ok},
  };
  for (const auto& c : cases) EXPECT_EQ(outcome_of(c.datagram), c.outcome) << c.what;
}

TEST(QueryMessageTest, AcceptsCookiesOfTheRightLengthsOnly) {
  for (std::size_t length = 0; length <= 64; ++length) {
    const std::string options = Message().option(10, std::string(length, 'c')).string();
    const Octets datagram = edns_query_for("example.org", Type::A, options);
    const bool right = length == 8 || (length >= 16 && length <= 40);
    QueryMessage query;
    EXPECT_EQ(parse_query(datagram, query), right ? Ok : FormErr) << length;
    if (right) {
      EXPECT_EQ(query.edns.cookie_length, length);
    }
  }
}

TEST(QueryMessageTest, TakesTheFirstOfSeveralCookies) {
  const std::string options = Message().option(10, "12345678").option(10, "abc").string();
  QueryMessage query;
  ASSERT_EQ(parse_query(edns_query_for("example.org", Type::A, options), query), Ok);
  ASSERT_EQ(query.edns.cookie_length, 8);
  EXPECT_EQ(query.edns.cookie[0], '1');
}

// RFC 7873, section 5.4.
TEST(QueryMessageTest, KnowsACookieWithoutAQuestion) {
  const std::string cookie = Message().option(10, "12345678").string();
  const std::string nsid = Message().option(3, "").string();
  const struct {
    const char* what;
    Octets datagram;
    ParseOutcome outcome;
  } cases[] = {
      {"a cookie", Message().header(0x0100, 0, 0, 0, 1).opt(1232, cookie), CookieOnly},
      {"a cookie of a wrong length",
       Message().header(0x0100, 0, 0, 0, 1).opt(1232, Message().option(10, "1234567").string()),
       FormErr},
      {"no cookie", Message().header(0x0100, 0, 0, 0, 1).opt(1232, nsid), FormErr},
      {"no OPT", Message().header(0x0100, 0), FormErr},
      {"a later version", Message().header(0x0100, 0, 0, 0, 1).opt(1232, cookie, 1), FormErr},
      {"octets behind", Message().header(0x0100, 0, 0, 0, 1).opt(1232, cookie).u8(0), FormErr},
      {"a record that is not there", Message().header(0x0100, 0, 0, 0, 2).opt(1232, cookie),
       FormErr},
      {"in the answer section", Message().header(0x0100, 0, 1).opt(1232, cookie), FormErr},
      {"another opcode", Message().header(0x2100, 0, 0, 0, 1).opt(1232, cookie), NotImp},
      {"with a question",
       Message().header(0x0100, 1, 0, 0, 1).question("example.org").opt(1232, cookie), Ok},
  };
  for (const auto& c : cases) EXPECT_EQ(outcome_of(c.datagram), c.outcome) << c.what;

  QueryMessage query;
  ASSERT_EQ(parse_query(cases[0].datagram, query), CookieOnly);
  EXPECT_TRUE(query.question.empty());
  EXPECT_EQ(query.qname(), "");
  EXPECT_EQ(query.edns.cookie_length, 8);
}

TEST(QueryMessageTest, ReadsWhatOptSays) {
  const std::string options = Message()
                                  .option(3, "")
                                  .option(11, "")
                                  .option(12, std::string(30, '\0'))
                                  .option(10, "12345678")
                                  .string();
  const Octets datagram =
      Message().header(0x0100, 1, 0, 0, 1).question("example.org").opt(4096, options, 0, true);
  QueryMessage query;
  ASSERT_EQ(parse_query(datagram, query), Ok);
  ASSERT_TRUE(query.has_edns);
  EXPECT_EQ(query.edns.udp_payload, 4096);
  EXPECT_TRUE(query.edns.dnssec_ok);
  EXPECT_TRUE(query.edns.nsid);
  EXPECT_TRUE(query.edns.keepalive);
  EXPECT_TRUE(query.edns.padding);
  EXPECT_EQ(query.edns.cookie_length, 8);

  // Nothing of it is left for the next query that uses the same memory.
  ASSERT_EQ(parse_query(edns_query_for("example.org"), query), Ok);
  EXPECT_FALSE(query.edns.nsid || query.edns.keepalive || query.edns.padding ||
               query.edns.dnssec_ok || query.edns.cookie_length != 0);
}

TEST(QueryMessageTest, DrawsTheLineAtLabelsOf63AndNamesOf255) {
  for (std::size_t size = 60; size <= 70; ++size) {
    const Octets datagram = Message()
                                .header(0x0100, 1)
                                .u8(static_cast<unsigned>(size))
                                .text(label(size))
                                .u8(0)
                                .u16(1)
                                .u16(1);
    EXPECT_EQ(outcome_of(datagram), size <= 63 ? Ok : FormErr) << size;
  }
  for (std::size_t last = 55; last <= 63; ++last) {
    Message message;
    message.header(0x0100, 1);
    for (int i = 0; i < 3; ++i) message.u8(63).text(label(63));
    message.u8(static_cast<unsigned>(last)).text(label(last)).u8(0).u16(1).u16(1);
    const std::size_t name = std::size_t{3} * 64 + last + 2;
    EXPECT_EQ(outcome_of(message), name <= 255 ? Ok : FormErr) << name;
  }
  for (int labels = 125; labels <= 130; ++labels) {
    Message message;
    message.header(0x0100, 1);
    for (int i = 0; i < labels; ++i) message.u8(1).text("a");
    message.u8(0).u16(1).u16(1);
    EXPECT_EQ(outcome_of(message), labels <= 127 ? Ok : FormErr) << labels;
  }
}

TEST(QueryMessageTest, RefusesEveryPrefix) {
  const Octets whole = Message()
                           .header(0x0100, 1, 0, 0, 1)
                           .question("www.example.org")
                           .opt(1232, Message().option(10, "12345678").string());
  ASSERT_EQ(outcome_of(whole), Ok);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Octets part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(outcome_of(part), size < 12 ? Drop : FormErr) << size;
  }
}

TEST(QueryMessageTest, KeepsTheQuestionForErrorRepliesWhenItIsWhole) {
  QueryMessage query;
  const Octets trailing = Message().header(0x0100, 1).question("example.org").u8(0);
  ASSERT_EQ(parse_query(trailing, query), FormErr);
  EXPECT_EQ(query.question.size(), 17u);
  const Octets notify = Message().header(0x2100, 1).question("example.org");
  ASSERT_EQ(parse_query(notify, query), NotImp);
  EXPECT_EQ(query.question.size(), 17u);
  const Octets cut = Message().header(0x0100, 1).text("\3www");
  ASSERT_EQ(parse_query(cut, query), FormErr);
  EXPECT_TRUE(query.question.empty());
  EXPECT_EQ(query.qname(), "");
}

TEST(QueryMessageTest, ReadsWhatLdnsBuilds) {
  const char* const names[] = {".", "a.", "www.example.org.", "_http._tcp.Example.ORG.",
                               "a\\.b.example.org."};
  for (const char* text : names) {
    for (const bool edns : {false, true}) {
      ldns_rdf* const name = ldns_dname_new_frm_str(text);
      ldns_pkt* packet = ldns_pkt_query_new(name, LDNS_RR_TYPE_AAAA, LDNS_RR_CLASS_IN, LDNS_RD);
      ldns_pkt_set_id(packet, 0x4711);
      if (edns) {
        ldns_pkt_set_edns_udp_size(packet, 1400);
        ldns_pkt_set_edns_do(packet, true);
      }
      std::uint8_t* octets = nullptr;
      std::size_t size = 0;
      ASSERT_EQ(ldns_pkt2wire(&octets, packet, &size), LDNS_STATUS_OK);
      QueryMessage query;
      EXPECT_EQ(parse_query({octets, size}, query), Ok) << text;
      EXPECT_EQ(query.id, 0x4711);
      EXPECT_EQ(query.qtype, Type::Aaaa);
      EXPECT_EQ(query.has_edns, edns);
      if (edns) {
        EXPECT_EQ(query.edns.udp_payload, 1400);
      }
      const std::string_view wire(reinterpret_cast<const char*>(query.question.data()),
                                  query.qname_size);
      const auto expected = name_from_text(text);
      ASSERT_TRUE(expected.has_value());
      EXPECT_EQ(wire, *expected);
      std::free(octets);
      ldns_pkt_free(packet);
    }
  }
}

// Damaged queries: whatever comes out, nothing is read out of bounds and the question is whole or
// empty.
TEST(QueryMessageTest, SurvivesDamage) {
  Random random(1);
  const Octets whole = Message()
                           .header(0x0100, 1, 1, 0, 2)
                           .question("www.example.org")
                           .pointer(12)
                           .record(Type::A, 1, "abcd")
                           .opt(1232, Message().option(10, "12345678").string())
                           .u8(0)
                           .record(Type::Tsig, 0, "abcdef");
  for (int i = 0; i < 200'000; ++i) {
    Octets damaged = whole;
    for (unsigned n = 1 + random() % 4; n > 0; --n)
      damaged[random() % damaged.size()] = static_cast<std::uint8_t>(random());
    damaged.resize(random() % 4 == 0 ? random() % damaged.size() : damaged.size());
    const auto exact = std::make_unique<std::uint8_t[]>(damaged.size());
    std::copy(damaged.begin(), damaged.end(), exact.get());
    QueryMessage query;
    const ParseOutcome outcome = parse_query({exact.get(), damaged.size()}, query);
    if (outcome == Drop) continue;
    if (query.question.empty()) {
      EXPECT_TRUE(outcome == FormErr || outcome == NotImp || outcome == CookieOnly);
    } else {
      EXPECT_EQ(query.question.size(), query.qname_size + 4);
    }
  }
}

}  // namespace
}  // namespace meshdns::wire
