// SPDX-License-Identifier: Apache-2.0
#include "registry/base/ip_address.hpp"

#include <gtest/gtest.h>

namespace meshdns {
namespace {

std::string of(std::string_view address) { return reverse_name(*IpAddress::parse(address)); }

TEST(ReverseNameTest, NamesAWholeAddress) {
  EXPECT_EQ(of("192.0.2.10"), "10.2.0.192.in-addr.arpa");
  // RFC 3596, section 2.5.
  EXPECT_EQ(of("4321:0:1:2:3:4:567:89ab"),
            "b.a.9.8.7.6.5.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.0.0.0.0.1.2.3.4.ip6.arpa");
}

TEST(ReverseNameTest, NamesTheFrontOfAnAddress) {
  const IpAddress v4 = *IpAddress::parse("192.0.2.10");
  const IpAddress v6 = *IpAddress::parse("2001:db8::1");
  EXPECT_EQ(reverse_name(v4, 0), "in-addr.arpa");
  EXPECT_EQ(reverse_name(v4, 1), "192.in-addr.arpa");
  EXPECT_EQ(reverse_name(v4, 3), "2.0.192.in-addr.arpa");
  EXPECT_EQ(reverse_name(v6, 0), "ip6.arpa");
  EXPECT_EQ(reverse_name(v6, 8), "8.b.d.0.1.0.0.2.ip6.arpa");
  EXPECT_EQ(reverse_label_value(v6, 5), 0xdU);
  EXPECT_EQ(reverse_label(v6, 0xd), "d");
}

}  // namespace
}  // namespace meshdns
