// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/message_writer.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "octets.hpp"
#include "resolver/wire/ldns.hpp"
#include "resolver/wire/record_text.hpp"
#include "resolver/wire/response_message.hpp"

namespace meshdns::wire {
namespace {

// A query in the front of a buffer, as a datagram lies, and a writer on the same memory.
class Reply {
 public:
  explicit Reply(const Octets& query, std::size_t limit = 65535) : buffer_(65535) {
    std::copy(query.begin(), query.end(), buffer_.begin());
    outcome = parse_query(std::span(buffer_).first(query.size()), message_);
    writer.emplace(buffer_, limit, message_);
  }
  MessageWriter* operator->() { return &*writer; }
  std::span<const std::uint8_t> finish() {
    return std::span<const std::uint8_t>(buffer_).first(writer->finish());
  }
  ResponseMessage parsed() {
    auto response = parse_response(finish());
    EXPECT_TRUE(response.has_value()) << response.error().message;
    return response.value_or(ResponseMessage{});
  }

  ParseOutcome outcome;
  std::optional<MessageWriter> writer;

 private:
  std::vector<std::uint8_t> buffer_;
  QueryMessage message_;
};

std::vector<std::string> texts(const std::vector<ResponseRecord>& records) {
  std::vector<std::string> all;
  for (const ResponseRecord& record : records) all.push_back(record_to_text(record));
  return all;
}

// Returns the records that ldns, as an independent parser, finds in our message.
std::vector<std::string> read_by_ldns(std::span<const std::uint8_t> message,
                                      ldns_pkt_section section) {
  ldns_pkt* packet = nullptr;
  EXPECT_EQ(ldns_wire2pkt(&packet, message.data(), message.size()), LDNS_STATUS_OK);
  std::vector<std::string> all;
  if (packet == nullptr) return all;
  ldns_rr_list* const records = ldns_pkt_get_section_clone(packet, section);
  for (std::size_t i = 0; i < ldns_rr_list_rr_count(records); ++i) {
    char* const text = ldns_rr2str(ldns_rr_list_rr(records, i));
    std::string tidy = text;
    std::free(text);
    std::replace(tidy.begin(), tidy.end(), '\t', ' ');
    while (!tidy.empty() && tidy.back() == '\n') tidy.pop_back();
    all.push_back(tidy);
  }
  ldns_rr_list_deep_free(records);
  ldns_pkt_free(packet);
  return all;
}

const IpAddress kAddress = *IpAddress::parse("192.0.2.1");
const IpAddress kAddress6 = *IpAddress::parse("2001:db8::1");
constexpr auto kQuestion = MessageWriter::kQuestionName;

TEST(MessageWriterTest, EchoesIdFlagsAndQuestionAsAsked) {
  Reply reply(Message().header(0x0110, 1, 0, 0, 0, 0xbeef).question("wWw.eXample.org"));
  reply->set_authoritative(true);
  reply->set_rcode(Rcode::NxDomain);
  const auto message = reply.finish();
  const Octets expected = Message().header(0x8593, 1, 0, 0, 0, 0xbeef).question("wWw.eXample.org");
  EXPECT_EQ(Octets(message.begin(), message.end()), expected);
}

TEST(MessageWriterTest, SetsAndClearsFlags) {
  Reply reply(query_for("example.org"));
  reply->set_authoritative(true);
  reply->set_truncated();
  reply->set_authoritative(false);
  const ResponseMessage response = reply.parsed();
  EXPECT_FALSE(response.authoritative);
  EXPECT_TRUE(response.truncated);
  EXPECT_TRUE(response.recursion_available);
}

TEST(MessageWriterTest, AnswersWithoutAQuestionWhereThereWasNone) {
  Reply reply(Message().header(0x0100, 3).text("\3ab"));
  EXPECT_EQ(reply.outcome, ParseOutcome::FormErr);
  reply->set_rcode(Rcode::FormErr);
  const auto message = reply.finish();
  const Octets expected = Message().header(0x8181, 0);
  EXPECT_EQ(Octets(message.begin(), message.end()), expected);
}

TEST(MessageWriterTest, WritesEveryKindOfRecordAndLdnsReadsThem) {
  for (const auto& query :
       {query_for("www.Example.org", Type::Any), edns_query_for("www.Example.org", Type::Any)}) {
    Reply reply(query);
    ASSERT_TRUE(reply->add_address(Section::Answer, kQuestion, 30, kAddress));
    ASSERT_TRUE(reply->add_address(Section::Answer, kQuestion, 30, kAddress6));
    MessageWriter::NameRef target = 0;
    ASSERT_TRUE(reply->add_name_record(Section::Answer, kQuestion, Type::Cname, 5, "a.example.org",
                                       &target));
    ASSERT_TRUE(reply->add_address(Section::Answer, target, 7, kAddress));
    ASSERT_TRUE(
        reply->add_srv(Section::Answer, kQuestion, 30, 1, 2, 8080, "b.a.example.org", &target));
    ASSERT_TRUE(reply->add_address(Section::Answer, target, 8, kAddress6));
    const std::string_view strings[] = {"one", "two \"quoted\"", ""};
    ASSERT_TRUE(reply->add_txt(Section::Answer, kQuestion, 0, strings));
    const std::uint8_t rdata[] = {1, 2, 3};
    ASSERT_TRUE(
        reply->add_record(Section::Answer, "x.example.org", Type{65280}, Class::In, 9, rdata));
    ASSERT_TRUE(reply->add_soa(Section::Authority, "example.org", 5, "ns.dns.example.org",
                               "hostmaster.example.org", 1, 7200, 1800, 86400, 5));
    ASSERT_TRUE(reply->add_name_record(Section::Additional, kQuestion, Type::Ptr, 1, "."));
    const auto message = reply.finish();

    const std::vector<std::string> answer = {
        "www.Example.org. 30 IN A 192.0.2.1",
        "www.Example.org. 30 IN AAAA 2001:db8::1",
        "www.Example.org. 5 IN CNAME a.Example.org.",
        "a.Example.org. 7 IN A 192.0.2.1",
        "www.Example.org. 30 IN SRV 1 2 8080 b.a.example.org.",
        "b.a.example.org. 8 IN AAAA 2001:db8::1",
        "www.Example.org. 0 IN TXT \"one\" \"two \\\"quoted\\\"\" \"\"",
        "x.Example.org. 9 IN TYPE65280 \\# 3 010203"};
    const std::vector<std::string> authority = {
        "Example.org. 5 IN SOA ns.dns.Example.org. hostmaster.Example.org. 1 7200 1800 86400 5"};
    EXPECT_EQ(read_by_ldns(message, LDNS_SECTION_ANSWER), answer);
    EXPECT_EQ(read_by_ldns(message, LDNS_SECTION_AUTHORITY), authority);
    const auto ours = parse_response(message);
    ASSERT_TRUE(ours.has_value()) << ours.error().message;
    EXPECT_EQ(texts(ours->answer), answer);
    EXPECT_EQ(texts(ours->authority), authority);
    EXPECT_EQ(texts(ours->additional), std::vector<std::string>{"www.Example.org. 1 IN PTR ."});
  }
}

TEST(MessageWriterTest, CompressesAgainstQuestionAndEarlierNames) {
  Reply reply(query_for("www.example.org"));
  const std::size_t start = reply->size();
  ASSERT_TRUE(
      reply->add_name_record(Section::Answer, kQuestion, Type::Cname, 1, "api.example.org"));
  EXPECT_EQ(reply->size() - start, 2u + 10 + 4 + 2);  // "api" and a pointer to example.org
  const std::size_t second = reply->size();
  ASSERT_TRUE(
      reply->add_name_record(Section::Answer, kQuestion, Type::Cname, 1, "API.Example.ORG."));
  EXPECT_EQ(reply->size() - second, 2u + 10 + 2);  // all of it
  EXPECT_EQ(reply->find_name("www.example.org"), kQuestion);
  EXPECT_EQ(reply->find_name("Example.org"), kQuestion + 4);
  EXPECT_EQ(reply->find_name("api.example.org"), start + 12);
  EXPECT_EQ(reply->find_name("i.example.org"), 0);
  EXPECT_EQ(reply->find_name("net"), 0);
}

TEST(MessageWriterTest, FindsTheQuestionBeforeAnythingIsWritten) {
  Reply reply(query_for("WWW.example.org"));
  EXPECT_EQ(reply->find_name("www.example.org"), kQuestion);
  EXPECT_EQ(reply->find_name("example.org"), 0);
  EXPECT_EQ(reply->find_name(""), 0);
}

// "a\.b.org" in the question is not the name a.b.org.
TEST(MessageWriterTest, DoesNotTakeADotInALabelForTwoLabels) {
  Reply reply(query_for("a\\.b.org"));
  EXPECT_EQ(reply->find_name("a.b.org"), 0);
  ASSERT_TRUE(reply->add_name_record(Section::Answer, kQuestion, Type::Cname, 1, "a.b.org"));
  const ResponseMessage response = reply.parsed();
  EXPECT_EQ(texts(response.answer), std::vector<std::string>{"a\\.b.org. 1 IN CNAME a.b.org."});
}

TEST(MessageWriterTest, RefusesWhatIsNoName) {
  Reply reply(query_for("example.org"));
  const std::size_t size = reply->size();
  const std::string long_label(64, 'a');
  std::string long_name;
  for (int i = 0; i < 127; ++i) long_name += "a.";
  long_name += "bb";
  for (const std::string& name :
       {std::string("a..b"), std::string(".a"), long_label, long_name, std::string("..")}) {
    EXPECT_FALSE(reply->add_name_record(Section::Answer, kQuestion, Type::Cname, 1, name)) << name;
    EXPECT_EQ(reply->size(), size);
  }
  EXPECT_EQ(reply->answer_count(), 0);
}

// Every limit, so that the cut goes through every field of every record.
TEST(MessageWriterTest, WritesWholeRecordsOrNothing) {
  for (std::size_t limit = 512; limit < 760; ++limit) {
    for (const auto& query : {query_for("www.example.org"), edns_query_for("www.example.org")}) {
      Reply reply(query, limit);
      const bool edns = query.size() > 33;
      const std::string_view strings[] = {"some text"};
      int written = 0;
      for (int i = 0; i < 40; ++i) {
        const std::string name = "host-" + std::to_string(i) + ".sub.example.net";
        const std::size_t before = reply->size();
        bool fits = true;
        switch (i % 4) {
          case 0:
            fits = reply->add_name_record(Section::Answer, kQuestion, Type::Cname, 1, name);
            break;
          case 1:
            fits = reply->add_srv(Section::Answer, kQuestion, 1, 0, 0, 80, name);
            break;
          case 2:
            fits = reply->add_txt(Section::Answer, kQuestion, 1, strings);
            break;
          default:
            fits = reply->add_soa(Section::Answer, name, 1, "ns.example.com", "x.example.com", 1, 2,
                                  3, 4, 5);
            break;
        }
        written += fits;
        if (!fits) {
          EXPECT_EQ(reply->size(), before);
        }
        EXPECT_LE(reply->size() + (edns ? 11 : 0), limit);
      }
      EXPECT_EQ(reply->answer_count(), written);
      const ResponseMessage response = reply.parsed();
      EXPECT_EQ(response.answer.size(), static_cast<std::size_t>(written));
      EXPECT_EQ(response.has_edns, edns);
      EXPECT_LE(reply->size(), limit);
    }
  }
}

// A name that was taken back must not be pointed at.
TEST(MessageWriterTest, ForgetsNamesOfRecordsThatDidNotFit) {
  Reply reply(query_for("www.example.org"), 512);
  const std::string filler(200, 'x');
  const std::string_view strings[] = {filler, filler};
  ASSERT_TRUE(reply->add_txt(Section::Answer, kQuestion, 1, strings));
  std::string name = "gone.example.net";
  while (reply->add_srv(Section::Answer, kQuestion, 1, 0, 0, 80, name)) name = "x" + name;
  EXPECT_EQ(reply->find_name(name), 0);
  reply->add_name_record(Section::Answer, kQuestion, Type::Cname, 1, "net");
  reply.parsed();
}

TEST(MessageWriterTest, WritesAThousandNamesAndOwnersBeyondPointers) {
  Reply reply(edns_query_for("_http._tcp.web.shop.svc.cluster.local", Type::Srv));
  std::vector<MessageWriter::NameRef> targets;
  std::vector<std::string> expected;
  for (int i = 0; i < 600; ++i) {
    const std::string name = "pod-" + std::to_string(i) + ".web.shop.svc.cluster.local";
    MessageWriter::NameRef target = 0;
    ASSERT_TRUE(reply->add_srv(Section::Answer, kQuestion, 30, 0, 1, 80, name, &target)) << i;
    targets.push_back(target);
    expected.push_back(name + ". 30 IN A 192.0.2.1");
  }
  EXPECT_GT(targets.back(), 0x3fff);
  for (const auto target : targets)
    ASSERT_TRUE(reply->add_address(Section::Additional, target, 30, kAddress));
  const ResponseMessage response = reply.parsed();
  EXPECT_EQ(response.answer.size(), 600u);
  EXPECT_EQ(texts(response.additional), expected);
}

TEST(MessageWriterTest, RepeatsACompressedNameBeyondPointers) {
  Reply reply(query_for("www.example.org"));
  const std::string filler(250, 'x');
  const std::string_view strings[] = {filler};
  while (reply->size() < 0x4100)
    ASSERT_TRUE(reply->add_txt(Section::Answer, kQuestion, 1, strings));
  MessageWriter::NameRef target = 0;
  ASSERT_TRUE(reply->add_name_record(Section::Answer, kQuestion, Type::Cname, 1, "far.example.org",
                                     &target));
  ASSERT_TRUE(reply->add_address(Section::Answer, target, 2, kAddress));
  EXPECT_EQ(record_to_text(reply.parsed().answer.back()), "far.example.org. 2 IN A 192.0.2.1");
}

TEST(MessageWriterTest, WorksInThePlaceOfTheQueryAndElsewhere) {
  const Octets query = edns_query_for("www.example.org");
  for (const std::size_t shift : {0u, 1u, 2u, 7u, 200u}) {
    std::vector<std::uint8_t> memory(4096);
    std::copy(query.begin(), query.end(), memory.begin() + 100);
    QueryMessage message;
    ASSERT_EQ(parse_query(std::span(memory).subspan(100, query.size()), message), ParseOutcome::Ok);
    for (const int sign : {-1, 1}) {
      if (sign < 0 && shift > 100) continue;
      std::vector<std::uint8_t> copy = memory;
      ASSERT_EQ(parse_query(std::span(copy).subspan(100, query.size()), message), ParseOutcome::Ok);
      const std::size_t at = sign < 0 ? 100 - shift : 100 + shift;
      MessageWriter writer(std::span<std::uint8_t>(copy).subspan(at), 1232, message);
      ASSERT_TRUE(writer.add_address(Section::Answer, kQuestion, 1, kAddress));
      const auto response = parse_response(std::span(copy).subspan(at, writer.finish()));
      ASSERT_TRUE(response.has_value());
      EXPECT_EQ(texts(response->answer),
                std::vector<std::string>{"www.example.org. 1 IN A 192.0.2.1"});
    }
  }
}

TEST(MessageWriterTest, AnswersEdnsIfAndOnlyIfAsked) {
  Reply plain(query_for("example.org"));
  plain->set_extended_error(Ede::StaleAnswer, "stale");
  plain->set_nsid("node");
  EXPECT_FALSE(plain.parsed().has_edns);

  Reply reply(Message().header(0x0100, 1, 0, 0, 1).question("example.org").opt(4096, "", 0, true));
  reply->set_rcode(Rcode::BadCookie);
  reply->set_extended_error(Ede::StaleAnswer, "stale");
  reply->set_extended_error(Ede::NetworkError, "");
  reply->set_nsid("node");
  reply->set_keepalive(100);
  reply->set_cookie(std::vector<std::uint8_t>(16, 'c'));
  const auto message = reply.finish();
  const auto response = parse_response(message);
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->rcode, Rcode::BadCookie);
  EXPECT_EQ(response->udp_payload, 1232);
  const std::vector<std::pair<std::uint16_t, std::string>> errors = {{3, "stale"}, {23, ""}};
  EXPECT_EQ(response->extended_errors, errors);
  EXPECT_EQ(response->cookie, std::string(16, 'c'));
  ldns_pkt* packet = nullptr;
  ASSERT_EQ(ldns_wire2pkt(&packet, message.data(), message.size()), LDNS_STATUS_OK);
  EXPECT_TRUE(ldns_pkt_edns_do(packet));
  EXPECT_EQ(ldns_pkt_edns_version(packet), 0);
  ldns_pkt_free(packet);
}

TEST(MessageWriterTest, CutsTheTextOfAnExtendedErrorToTheRoomLeft) {
  for (std::size_t fill = 380; fill < 460; ++fill) {
    Reply reply(edns_query_for("www.example.org"), 512);
    const std::string filler(fill / 2, 'x');
    const std::string rest(fill - fill / 2, 'y');
    const std::string_view strings[] = {filler, rest};
    if (!reply->add_txt(Section::Answer, kQuestion, 1, strings)) continue;
    std::string text;
    for (int i = 0; i < 40; ++i) text += "\u00e4";  // two octets each
    reply->set_extended_error(Ede::Other, text);
    const ResponseMessage response = reply.parsed();
    EXPECT_LE(reply->size(), 512u);
    for (const auto& [code, cut] : response.extended_errors) {
      EXPECT_EQ(cut.size() % 2, 0u);
      EXPECT_EQ(text.substr(0, cut.size()), cut);
    }
  }
}

TEST(MessageWriterTest, GivesChaosAnswersTheirClass) {
  Reply reply(Message().header(0x0100, 1).question("version.bind", Type::Txt, Class::Chaos));
  const std::string_view strings[] = {"meshdns"};
  ASSERT_TRUE(reply->add_txt(Section::Answer, kQuestion, 0, strings));
  EXPECT_EQ(texts(reply.parsed().answer),
            std::vector<std::string>{"version.bind. 0 CH TXT \"meshdns\""});
}

TEST(MessageWriterTest, SplitsLongStrings) {
  Reply reply(query_for("example.org", Type::Txt));
  const std::string text(600, 'x');
  const std::string_view strings[] = {text};
  ASSERT_TRUE(reply->add_txt(Section::Answer, kQuestion, 0, strings));
  ASSERT_TRUE(reply->add_txt(Section::Answer, kQuestion, 0, {}));
  const ResponseMessage response = reply.parsed();
  ASSERT_EQ(response.answer.size(), 2u);
  EXPECT_EQ(response.answer[0].rdata.size(), 603u);
  EXPECT_EQ(response.answer[1].rdata, std::string(1, '\0'));
}

}  // namespace
}  // namespace meshdns::wire
