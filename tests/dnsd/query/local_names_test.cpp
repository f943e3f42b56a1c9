// SPDX-License-Identifier: Apache-2.0
// The hosts file, overrides and DNS64: what this machine's operator makes of outside names.
#include "dnsd/query/local_names.hpp"

#include "dnsd/query/dns64.hpp"
#include "tests/dnsd/query/query_fixture.hpp"

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
        "apiVersion: networking.istio.io/v1\n"
        "kind: ServiceEntry\n"
        "metadata: { name: api, namespace: default }\n"
        "spec: { hosts: [api.example.org], addresses: [10.0.0.7], resolution: STATIC }\n");
    const std::map<std::string, Override> overrides = {
        {"ads.example.org", {OverrideAction::NxDomain, {}}},
        {"good.ads.example.org", {OverrideAction::Addresses, {*IpAddress::parse("192.0.2.8")}}},
        {"secret.example.org", {OverrideAction::Refused, {}}},
    };
    settings_.local = std::make_shared<const LocalNames>(parse_hosts(kHosts), overrides);
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
      {"ads.example.net. A", "ads.example.net. 5 A 0.0.0.0"},
      {"7.2.0.192.in-addr.arpa. PTR",
       "7.2.0.192.in-addr.arpa. 5 PTR printer., 7.2.0.192.in-addr.arpa. 5 PTR "
       "printer.example.org."},
  });
}

TEST_F(LocalNamesTest, LeavesTheRestToTheUpstream) {
  expect({
      {"printer.example.org. MX", "FORWARD"},
      {"a.printer.example.org. A", "FORWARD"},
      {"example.org. A", "FORWARD"},
      {"8.2.0.192.in-addr.arpa. PTR", "FORWARD"},
      {"0.0.0.0.in-addr.arpa. PTR", "FORWARD"},
  });
}

TEST_F(LocalNamesTest, TheMeshComesFirst) {
  expect({{"api.example.org. A", "api.example.org. 30 A 10.0.0.7"},
          {"api.example.org. AAAA", "NODATA api.example.org."},
          {"localhost. A", "localhost. 5 A 127.0.0.1"}});
}

TEST_F(LocalNamesTest, OverridesHoldAtAndBelowTheirSuffix) {
  expect({
      {"ads.example.org. A", "NXDOMAIN ads.example.org."},
      {"a.b.ads.example.org. TXT", "NXDOMAIN ads.example.org."},
      {"xads.example.org. A", "FORWARD"},
      {"secret.example.org. A", "not aa, REFUSED, EDE 15"},
      {"x.secret.example.org. MX", "not aa, REFUSED, EDE 15"},
      {"good.ads.example.org. A", "good.ads.example.org. 5 A 192.0.2.8"},
      {"x.good.ads.example.org. A", "x.good.ads.example.org. 5 A 192.0.2.8"},
      {"x.good.ads.example.org. AAAA", "NODATA good.ads.example.org."},
      {"x.good.ads.example.org. MX", "NODATA good.ads.example.org."},
  });
  ask("ads.example.org. A");
  ASSERT_EQ(message_.extended_errors.size(), 1u);
  EXPECT_EQ(message_.extended_errors[0].first, 15u);
}

// An upstream's alias is no way around an override.
TEST_F(LocalNamesTest, OverridesHoldForTheTargetsOfAliases) {
  upstream_.replies["www.example.com. A"] = {
      .answer = {"www.example.com. 60 CNAME x.ads.example.org.",
                 "x.ads.example.org. 60 A 192.0.2.1"}};
  EXPECT_THAT(ask_through("www.example.com. A"), testing::HasSubstr("NXDOMAIN"));
  EXPECT_TRUE(
      std::ranges::none_of(message_.answer, [](const auto& r) { return r.type == wire::Type::A; }));
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

class Dns64QueryTest : public QueryFixture {
 protected:
  Dns64QueryTest() {
    settings_.dns64 = *IpPrefix::parse("64:ff9b::/96");
    upstream_.replies["v4.example.org. A"] = {.answer = {"v4.example.org. 600 A 192.0.2.33"}};
    upstream_.replies["v4.example.org. AAAA"] = {.authority = {"example.org. 30 SOA ns.example."}};
    upstream_.replies["both.example.org. AAAA"] = {
        .answer = {"both.example.org. 60 AAAA 2001:db8::1"}};
    upstream_.replies["mapped.example.org. AAAA"] = {
        .answer = {"mapped.example.org. 60 AAAA ::ffff:192.0.2.1"}};
    upstream_.replies["mapped.example.org. A"] = {.answer = {"mapped.example.org. 60 A 192.0.2.1"}};
    upstream_.replies["alias.example.org. AAAA"] = {
        .answer = {"alias.example.org. 60 CNAME v4.example.org."},
        .authority = {"example.org. 30 SOA ns.example."}};
    upstream_.replies["alias.example.org. A"] = {
        .answer = {"alias.example.org. 60 CNAME v4.example.org.",
                   "v4.example.org. 60 A 192.0.2.33"}};
    upstream_.replies["none.example.org. AAAA"] = {
        .authority = {"example.org. 30 SOA ns.example."}};
    upstream_.replies["none.example.org. A"] = {.authority = {"example.org. 30 SOA ns.example."}};
  }
};

TEST_F(Dns64QueryTest, TranslatesWhatHasIPv4Only) {
  EXPECT_EQ(ask_through("v4.example.org. AAAA"),
            "not aa, v4.example.org. 30 AAAA 64:ff9b::c000:221");
  EXPECT_EQ(ask_through("v4.example.org. A"), "not aa, v4.example.org. 600 A 192.0.2.33");
  EXPECT_EQ(ask_through("both.example.org. AAAA"), "not aa, both.example.org. 60 AAAA 2001:db8::1");
  EXPECT_EQ(ask_through("mapped.example.org. AAAA"),
            "not aa, mapped.example.org. 60 AAAA 64:ff9b::c000:201");
  EXPECT_EQ(ask_through("alias.example.org. AAAA"),
            "not aa, alias.example.org. 60 CNAME v4.example.org., "
            "v4.example.org. 30 AAAA 64:ff9b::c000:221");
}

TEST_F(Dns64QueryTest, TranslatesFromTheCache) {
  upstream_.cached = {"v4.example.org. AAAA", "v4.example.org. A"};
  EXPECT_EQ(ask("v4.example.org. AAAA"), "not aa, v4.example.org. 30 AAAA 64:ff9b::c000:221");
  EXPECT_TRUE(upstream_.asked.empty());
}

TEST_F(Dns64QueryTest, LeavesDenialsAsTheyAre) {
  EXPECT_EQ(ask_through("none.example.org. AAAA"), "not aa, @ example.org. SOA");
  EXPECT_EQ(ask_through("missing.example.org. AAAA"), "not aa, NXDOMAIN, @ . SOA");
  EXPECT_EQ(std::ranges::count(upstream_.asked, "missing.example.org. A"), 0);
}

TEST_F(Dns64QueryTest, LeavesItToClientsThatValidate) {
  std::vector<std::uint8_t> buffer(kUdpBufferSize);
  const std::string name = *wire::name_from_text("v4.example.org.");
  const std::size_t size = wire::build_query(buffer, {.id = 0x1234,
                                                      .name = name,
                                                      .type = wire::Type::Aaaa,
                                                      .checking_disabled = true,
                                                      .dnssec_ok = true});
  EXPECT_EQ(ask_octets(buffer, size), "FORWARD v4.example.org. AAAA");
  upstream_.settle();
  EXPECT_EQ(upstream_.asked.size(), 1u);
}

TEST_F(Dns64QueryTest, NamesTranslatedAddressesByTheirIPv4Name) {
  EXPECT_EQ(ask("1.2.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa. PTR"),
            "FORWARD 33.2.0.192.in-addr.arpa. PTR");
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
  EXPECT_EQ(hosts.first_skipped, 4u);
  EXPECT_EQ(parse_hosts(std::string(1000, '\0')).entries.size(), 0u);
}

}  // namespace
}  // namespace meshdns::dnsd
