// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/query_settings.hpp"
#include "dnsd/query/query_counters.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace meshdns::dnsd {
namespace {

AccessList list(std::initializer_list<const char*> prefixes) {
  std::vector<IpPrefix> parsed;
  for (const char* prefix : prefixes) parsed.push_back(*IpPrefix::parse(prefix));
  return AccessList(parsed);
}

TEST(AccessListTest, AgreesWithItsPrefixes) {
  for (const char* prefix :
       {"10.0.0.0/8", "10.1.2.3/32", "0.0.0.0/0", "192.168.1.77/25", "2001:db8::/32", "::/0",
        "fe80::/10", "2001:db8::1/128", "2001:db8:0:1::/64", "2001:db8:0:1:8000::/65"}) {
    for (const char* address :
         {"10.1.2.3", "10.255.0.1", "11.0.0.0", "192.168.1.1", "192.168.1.128", "2001:db8::1",
          "2001:db8:0:1::5", "2001:db8:0:1:8000::5", "2001:db9::", "fe80::1", "febf::1",
          "fec0::1"}) {
      const IpAddress ip = *IpAddress::parse(address);
      // ::/0 takes in the IPv4-mapped block, as it says.
      if (std::string(prefix) == "::/0") continue;
      EXPECT_EQ(list({prefix}).contains(ip), IpPrefix::parse(prefix)->contains(ip))
          << prefix << " " << address;
    }
  }
  EXPECT_FALSE(list({}).contains(*IpAddress::parse("127.0.0.1")));
}

TEST(QuerySettingsTest, NameServerHasTheBoundAddresses) {
  Config config;
  config.server.listen = {{*IpAddress::parse("127.0.0.1"), 53, ""},
                          {*IpAddress::parse("169.254.20.10"), 53, ""},
                          {*IpAddress::parse("::"), 53, ""}};
  const QuerySettings settings = QuerySettings::from(config);
  ASSERT_EQ(settings.server_addresses.size(), 1U);
  EXPECT_EQ(settings.server_addresses[0].to_string(), "169.254.20.10");
}

TEST(QueryCountersTest, DurationsFallIntoTheBucketOfTheirLimit) {
  EXPECT_EQ(QueryCounters::duration_bucket(0), 0U);
  for (std::size_t bucket = 0; bucket + 1 < QueryCounters::kDurationBuckets; ++bucket) {
    const auto limit =
        static_cast<std::uint64_t>(std::llround(QueryCounters::duration_limit(bucket) * 1e9));
    EXPECT_EQ(QueryCounters::duration_bucket(limit), bucket);
    EXPECT_EQ(QueryCounters::duration_bucket(limit + 1), bucket + 1);
  }
  EXPECT_EQ(QueryCounters::duration_bucket(~std::uint64_t{0}), QueryCounters::kDurationBuckets - 1);
  EXPECT_TRUE(std::isinf(QueryCounters::duration_limit(QueryCounters::kDurationBuckets - 1)));
}

TEST(QueryCountersTest, EveryTypeAndRcodeHasASlotWithAName) {
  for (unsigned type = 0; type < 65536; ++type) {
    const std::size_t slot = QueryCounters::type_slot(static_cast<wire::Type>(type));
    ASSERT_LT(slot, QueryCounters::kTypeSlots);
  }
  EXPECT_EQ(QueryCounters::type_name(QueryCounters::type_slot(wire::Type::Aaaa)), "AAAA");
  EXPECT_EQ(QueryCounters::type_name(QueryCounters::type_slot(wire::Type::Axfr)), "other");
  EXPECT_EQ(QueryCounters::rcode_name(QueryCounters::rcode_slot(wire::Rcode::NxDomain)),
            "NXDOMAIN");
  EXPECT_EQ(QueryCounters::rcode_name(QueryCounters::rcode_slot(wire::Rcode::BadVers)), "other");
  std::set<std::string_view> sources;
  for (std::size_t i = 0; i < kAnswerSources; ++i)
    sources.insert(to_string(static_cast<AnswerSource>(i)));
  EXPECT_EQ(sources.size(), kAnswerSources);
  EXPECT_FALSE(sources.contains(""));
}

}  // namespace
}  // namespace meshdns::dnsd
