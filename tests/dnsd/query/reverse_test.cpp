// SPDX-License-Identifier: Apache-2.0
// The parser of reverse names; tests/scenarios/reverse has the answers.
#include "dnsd/answer/reverse_zone.hpp"

#include <gtest/gtest.h>

namespace meshdns::dnsd {
namespace {

TEST(ReverseNameTest, ReadsWholeAndPartialAddresses) {
  EXPECT_EQ(parse_reverse_name("1.2.3.10.in-addr.arpa")->address.to_string(), "10.3.2.1");
  EXPECT_EQ(parse_reverse_name("3.10.in-addr.arpa")->missing, 2U);
  EXPECT_EQ(parse_reverse_name("in-addr.arpa")->missing, 4U);
  EXPECT_EQ(parse_reverse_name("8.b.d.0.1.0.0.2.ip6.arpa")->missing, 24U);
  for (const char* name :
       {"1.2.3.4.5.in-addr.arpa", "256.in-addr.arpa", "00.in-addr.arpa", "-1.in-addr.arpa",
        "1..in-addr.arpa", "g.ip6.arpa", "10.ip6.arpa", "example.org"})
    EXPECT_FALSE(parse_reverse_name(name)) << name;
}

}  // namespace
}  // namespace meshdns::dnsd
