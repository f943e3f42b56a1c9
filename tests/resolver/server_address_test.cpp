// SPDX-License-Identifier: Apache-2.0
#include "resolver/server_address.hpp"

#include <gtest/gtest.h>

namespace meshdns::resolver {
namespace {

TEST(ServerAddressTest, ReadsAddressPortAndScope) {
  const auto v4 = ServerAddress::parse("192.0.2.53:5353");
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->ip, IpAddress::parse("192.0.2.53"));
  EXPECT_EQ(v4->port, 5353);
  const auto v6 = ServerAddress::parse("[2001:db8::53]:53");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->ip, IpAddress::parse("2001:db8::53"));
  const auto scoped = ServerAddress::parse("[fe80::1%lo]:53");
  ASSERT_TRUE(scoped);
  EXPECT_NE(scoped->scope, 0U);
  EXPECT_EQ(scoped->text, "[fe80::1%lo]:53");
}

TEST(ServerAddressTest, RefusesWhatIsNoServer) {
  for (const char* text : {"", "192.0.2.53", "192.0.2.53:", "192.0.2.53:0", "192.0.2.53:65536",
                           "192.0.2.53:53x", "name.example.org:53", "[fe80::1%no-such0]:53"})
    EXPECT_FALSE(ServerAddress::parse(text)) << text;
}

}  // namespace
}  // namespace meshdns::resolver
