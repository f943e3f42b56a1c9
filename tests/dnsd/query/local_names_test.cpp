// SPDX-License-Identifier: Apache-2.0
// The hosts file, and the translation of addresses; tests/scenarios/forwarding/03-operator.yaml has
// overrides and DNS64.
#include "dnsd/answer/local_names.hpp"

#include "dnsd/answer/dns64.hpp"
#include "tests/dnsd/query/query_fixture.hpp"
#include "tests/resolver/cache/messages.hpp"

namespace meshdns::dnsd {
namespace {

constexpr const char* kHosts =
    "127.0.0.1 localhost\n"
    "192.0.2.7 Printer.Example.org printer # by the door\n"
    "2001:db8::7 printer.example.org\n"
    "0.0.0.0 ads.example.net\n"
    "192.0.2.9 api.example.org\n";

class LocalNamesTest : public QueryFixture {
 protected:
  LocalNamesTest() {
    load(
        "ServiceEntry default/api\nspec: { hosts: [api.example.org], addresses: [10.0.0.7], "
        "resolution: STATIC }\n");
    settings_.local = std::make_shared<const LocalNames>(
        parse_hosts(kHosts), std::map<std::string, Override>{}, std::nullopt);
  }
  void expect(std::initializer_list<Row> rows) {
    for (const Row& row : rows) EXPECT_EQ(ask(row.question), row.answer) << row.question;
  }
};

TEST_F(LocalNamesTest, AnswersFromTheHostsFile) {
  expect({
      {"printer.example.org. A", "printer.example.org. 5 A 192.0.2.7"},
      {"PRINTER.example.org. A", "PRINTER.example.org. 5 A 192.0.2.7"},
      {"printer.example.org. AAAA", "printer.example.org. 5 AAAA 2001:db8::7"},
      {"printer. A", "printer. 5 A 192.0.2.7"},
      {"printer. AAAA", "NODATA printer."},
      {"printer. HTTPS", "NODATA printer."},
      {"printer. CNAME", "NODATA printer."},
      {"printer. SVCB", "NODATA printer."},
      {"printer. ANY", "printer. 8482 HINFO \"ANY obsoleted\" \"See RFC 8482\""},
      {"ads.example.net. A", "ads.example.net. 5 A 0.0.0.0"},
      {"7.2.0.192.in-addr.arpa. PTR",
       "7.2.0.192.in-addr.arpa. 5 PTR printer., 7.2.0.192.in-addr.arpa. 5 PTR "
       "printer.example.org."},
      {"7.2.0.192.in-addr.arpa. TXT", "NODATA 7.2.0.192.in-addr.arpa."},
      {"7.2.0.192.in-addr.arpa. A", "NODATA 7.2.0.192.in-addr.arpa."},
      {"7.2.0.192.in-addr.arpa. ANY",
       "7.2.0.192.in-addr.arpa. 8482 HINFO \"ANY obsoleted\" \"See RFC 8482\""},
  });
}

TEST_F(LocalNamesTest, LeavesTheRestToTheUpstream) {
  expect({
      {"printer.example.org. MX", "FORWARD"},
      {"a.printer.example.org. A", "FORWARD"},
      {"example.org. A", "FORWARD"},
      {"8.8.8.8.in-addr.arpa. PTR", "FORWARD"},
      {"ipv4only.arpa. A", "FORWARD"},
      {"8.2.0.192.in-addr.arpa. PTR", "NXDOMAIN 2.0.192.in-addr.arpa."},
      {"0.0.0.0.in-addr.arpa. PTR", "NXDOMAIN 0.in-addr.arpa."},
  });
}

TEST_F(LocalNamesTest, TheMeshComesFirst) {
  expect({{"api.example.org. A", "api.example.org. 30 A 10.0.0.7"},
          {"api.example.org. AAAA", "NODATA api.example.org."},
          {"localhost. A", "localhost. 5 A 127.0.0.1"}});
}

// "api.corp.example" is in both, "www.corp.example" below an override alone.
TEST_F(LocalNamesTest, TheHostsFileComesBeforeOverrides) {
  const OverrideAction actions[] = {OverrideAction::NxDomain, OverrideAction::Refused,
                                    OverrideAction::Addresses};
  for (const OverrideAction action : actions) {
    Override overriding{.action = action, .addresses = {}};
    if (action == OverrideAction::Addresses)
      overriding.addresses = {*IpAddress::parse("198.51.100.1")};
    settings_.local = std::make_shared<const LocalNames>(
        parse_hosts("192.0.2.8 db.corp.example\n"),
        std::map<std::string, Override>{{"corp.example", overriding},
                                        {"8.2.0.192.in-addr.arpa", overriding}},
        std::nullopt);
    handler().reconfigure(settings_);
    expect({
        {"db.corp.example. A", "db.corp.example. 5 A 192.0.2.8"},
        {"db.corp.example. AAAA", "NODATA db.corp.example."},
        {"db.corp.example. HTTPS", "NODATA db.corp.example."},
        {"8.2.0.192.in-addr.arpa. PTR", "8.2.0.192.in-addr.arpa. 5 PTR db.corp.example."},
    });
    for (const char* const question :
         {"www.corp.example. A", "x.db.corp.example. A", "db.corp.example. MX"}) {
      const std::string answer = ask(question);
      EXPECT_NE(answer, "FORWARD") << question;
      EXPECT_EQ(answer.find("192.0.2.8"), std::string::npos) << question;
    }
  }
}

// A name that stands for many addresses is the name of none of them.
TEST_F(LocalNamesTest, PartsOfReverseNamesAreNoAddresses) {
  settings_.local = std::make_shared<const LocalNames>(
      parse_hosts("11.0.0.0 net.example\n2002:: net6.example\n11.1.2.3 host.example\n"),
      std::map<std::string, Override>{}, std::nullopt);
  handler().reconfigure(settings_);
  for (const char* const question :
       {"11.in-addr.arpa. PTR", "0.11.in-addr.arpa. PTR", "0.0.11.in-addr.arpa. PTR",
        "2.1.11.in-addr.arpa. PTR", "2.0.0.2.ip6.arpa. PTR", "0.2.0.0.2.ip6.arpa. PTR"})
    EXPECT_EQ(ask(question), "FORWARD") << question;
  expect({{"0.0.0.11.in-addr.arpa. PTR", "0.0.0.11.in-addr.arpa. 5 PTR net.example."},
          {"3.2.1.11.in-addr.arpa. PTR", "3.2.1.11.in-addr.arpa. 5 PTR host.example."}});
}

struct Translation {
  const char* prefix;
  const char* address;
};

// RFC 6052, section 2.4.
TEST(Dns64Test, TranslatesAsTheStandardsTableDoes) {
  const IpAddress v4 = *IpAddress::parse("192.0.2.33");
  for (const Translation& each :
       std::initializer_list<Translation>{{"2001:db8::/32", "2001:db8:c000:221::"},
                                          {"2001:db8:100::/40", "2001:db8:1c0:2:21::"},
                                          {"2001:db8:122::/48", "2001:db8:122:c000:2:2100::"},
                                          {"2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"},
                                          {"2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"},
                                          {"2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"},
                                          {"64:ff9b::/96", "64:ff9b::192.0.2.33"}}) {
    const IpPrefix prefix = *IpPrefix::parse(each.prefix);
    EXPECT_EQ(translate(prefix, v4), *IpAddress::parse(each.address)) << each.prefix;
    EXPECT_EQ(translate_back(prefix, *IpAddress::parse(each.address)), v4) << each.prefix;
  }
  EXPECT_EQ(translate_back(*IpPrefix::parse("64:ff9b::/96"), *IpAddress::parse("64:ff9c::1")),
            std::nullopt);
}

TEST(Dns64Test, AsksForIpv4WhereNoIpv6AddressIs) {
  using test::cached;
  using test::question;
  using test::record;
  using test::response;
  constexpr Millis kAsked = 1'000'000;
  const auto asked = question("www.example.org.", wire::Type::Aaaa);
  const auto lacks = [&](const std::vector<wire::ResponseRecord>& answer) {
    auto message = response(asked, {});
    message.answer = answer;
    return lacks_ipv6(*cached(message, kAsked));
  };
  const wire::ResponseRecord alias = record("www.example.org. 60 CNAME a.example.org.");
  const wire::ResponseRecord real = record("a.example.org. 60 AAAA 2001:db8::1");
  wire::ResponseRecord mapped = real;
  mapped.rdata.assign("\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\1", 16);
  EXPECT_TRUE(lacks({alias, mapped}));
  EXPECT_FALSE(lacks({alias, real}));
  EXPECT_FALSE(lacks({alias, mapped, real}));
  EXPECT_TRUE(lacks({alias, record("a.example.org. 60 TXT text")}));
  constexpr std::string_view kSoa = "example.org. 60 SOA 60";
  EXPECT_TRUE(lacks_ipv6(*cached(response(asked, {}, {kSoa}), kAsked)));
  EXPECT_FALSE(lacks_ipv6(*cached(response(asked, {}, {kSoa}, wire::Rcode::NxDomain), kAsked)));
  for (const bool is_unreachable : {false, true}) {
    FailureText text;
    text.text = "test";
    text.unreachable = is_unreachable;
    const MessageRef failure = build_failure(CacheKey(asked, false, false), text, kAsked);
    EXPECT_EQ(lacks_ipv6(*failure), !is_unreachable);
  }
}

TEST(Dns64Test, KnowsTheSignatureOfIpv4Addresses) {
  const std::string of_a("\0\1\10", 3);
  EXPECT_TRUE(is_signature_of_a(wire::Type::Rrsig, of_a));
  EXPECT_FALSE(is_signature_of_a(wire::Type::Txt, of_a));
  EXPECT_FALSE(is_signature_of_a(wire::Type::Rrsig, std::string_view("\0\5\10", 3)));
  EXPECT_FALSE(is_signature_of_a(wire::Type::Rrsig, std::string_view(of_a).substr(0, 1)));
}

// A server that denies a name above that of a translated address denies this one, too (RFC 8020).
TEST(Dns64Test, KnowsTheNamesAboveTranslatedAddresses) {
  const IpPrefix prefix = *IpPrefix::parse("2001:db8::/32");
  for (const char* const name :
       {"ip6.arpa", "2.ip6.arpa", "8.b.d.0.1.0.0.2.ip6.arpa", "c.8.b.d.0.1.0.0.2.ip6.arpa",
        "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.2.2.0.0.0.0.c.8.b.d.0.1.0.0.2.ip6.arpa"})
    EXPECT_TRUE(is_translated_or_above(prefix, name)) << name;
  for (const char* const name :
       {"3.ip6.arpa", "9.b.d.0.1.0.0.2.ip6.arpa", "8.b.d.0.2.0.0.2.ip6.arpa", "x.ip6.arpa",
        "10.in-addr.arpa", "arpa", "32.ip6.arpa",
        "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.2.2.0.0.0.0.c.8.b.d.0.1.0.0.2.ip6.arpa"})
    EXPECT_FALSE(is_translated_or_above(prefix, name)) << name;
}

TEST(HostsFileTest, SkipsWhatItCannotUnderstand) {
  const HostsFile hosts = parse_hosts(
      "# comment\n\n192.0.2.1\tone two\r\nnonsense\n192.0.2.2\n192.0.2.3 bad..name good\n"
      "fe80::1%eth0 router");
  ASSERT_EQ(hosts.entries.size(), 3u);
  EXPECT_THAT(hosts.entries[0].names, testing::ElementsAre("one", "two"));
  EXPECT_THAT(hosts.entries[1].names, testing::ElementsAre("good"));
  EXPECT_EQ(hosts.entries[2].address, *IpAddress::parse("fe80::1"));
  EXPECT_EQ(hosts.skipped, 3u);
  ASSERT_EQ(hosts.problems.size(), 3u);
  EXPECT_EQ(hosts.problems.front().line, 4u);
  EXPECT_EQ(parse_hosts(std::string(1000, '\0')).entries.size(), 0u);
}

// Lists for other programs are often given as hosts files.
TEST(HostsFileTest, NamesTheReasonAndTheRemedyOfALine) {
  struct Case {
    const char* line;
    const char* message;
  };
  for (
      const auto& [line, message] : {
          Case{
              "address=/ads.example/0.0.0.0",
              R"("address=/ads.example/0.0.0.0" is not an IP address; this is a line of dnsmasq; write ADDRESS NAME)"},
          {"ads.example 192.0.2.1",
           R"("ads.example" is not an IP address; write the address before the name)"},
          {"ads.example # blocked",
           R"("ads.example" is not an IP address; write "0.0.0.0 NAME" to block a name)"},
          {"||ads.example^",
           R"("||ads.example^" is not an IP address; this is a rule of a content blocker; write ADDRESS NAME)"},
          {"192.0.2.1", R"("192.0.2.1" has no name)"},
          {"0.0.0.0 *.ads.example",
           R"("*.ads.example" is not a domain name; write "ads.example", which covers all names below it)"},
      }) {
    const HostsFile hosts = parse_hosts(line);
    ASSERT_EQ(hosts.problems.size(), 1u) << line;
    EXPECT_EQ(hosts.problems.front().message, message);
  }
  std::string many;
  for (int i = 0; i < 200; ++i) many += "ads.example\n";
  EXPECT_EQ(parse_hosts(many).skipped, 200u);
  EXPECT_EQ(parse_hosts(many).problems.size(), HostsFile::kMaxProblems);
}

}  // namespace
}  // namespace meshdns::dnsd
