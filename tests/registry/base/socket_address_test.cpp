// SPDX-License-Identifier: Apache-2.0
#include "registry/base/socket_address.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace meshdns::dnsd {
namespace {

using testing::HasSubstr;

TEST(SocketAddressTest, ReadsBackThePrintedForm) {
  for (const std::string_view text :
       {"127.0.0.1:15053", "0.0.0.0:0", "[::]:53", "[2001:db8::1]:65535", "[fe80::1%eth0]:53",
        "[ff02::fb%lo]:5353"}) {
    const auto address = parse_socket_address(text);
    ASSERT_TRUE(address) << text << ": " << address.error().message;
    EXPECT_EQ(address->to_string(), text);
  }
}

TEST(SocketAddressTest, GivesTheDefaultPortToABareAddress) {
  struct Case {
    std::string_view text;
    std::string_view expected;
  };
  for (const auto& [text, expected] : {Case{"10.0.0.53", "10.0.0.53:53"},
                                       {"2001:db8::1", "[2001:db8::1]:53"},
                                       {"[2001:db8::1]", "[2001:db8::1]:53"},
                                       {"fe80::1%eth0", "[fe80::1%eth0]:53"},
                                       {"::1", "[::1]:53"},
                                       {"10.0.0.53:5353", "10.0.0.53:5353"}}) {
    const auto address = parse_socket_address(text, 53);
    ASSERT_TRUE(address) << text << ": " << address.error().message;
    EXPECT_EQ(address->to_string(), expected);
  }
}

TEST(SocketAddressTest, RefusesTextThatIsNotAnAddressWithPort) {
  for (const std::string_view text : {"",
                                      ":",
                                      ":53",
                                      "53",
                                      "localhost:53",
                                      "127.0.0.1",
                                      "::1",
                                      "[::1]",
                                      "127.0.0.1:",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:-1",
                                      "127.0.0.1:53 ",
                                      " 127.0.0.1:53",
                                      "127.0.0.1:0x35",
                                      "[::1",
                                      "[::1]53",
                                      "[::1]:",
                                      "[]:53",
                                      "[127.0.0.1.1]:53",
                                      "127.1:53",
                                      "10.0.0.1%eth0:53",
                                      "[2001:db8::1%eth0]:53",
                                      "[fe80::1%]:53",
                                      "[fe80::1%a/b]:53",
                                      "[fe80::1%sixteen-letters-]:53",
                                      "[fe80::1%a%b]:53"})
    EXPECT_FALSE(parse_socket_address(text)) << text;
}

TEST(SocketAddressTest, SuggestsTheMissingPort) {
  EXPECT_THAT(parse_socket_address("::1").error().message, HasSubstr("\"[::1]:53\""));
  EXPECT_THAT(parse_socket_address("10.0.0.1").error().message, HasSubstr("\"10.0.0.1:53\""));
  EXPECT_THAT(parse_socket_address("[2001:db8::1]").error().message,
              HasSubstr("\"[2001:db8::1]:53\""));
  EXPECT_THAT(parse_socket_address("::1:ab").error().message, HasSubstr("\"[::1:ab]:53\""));
  EXPECT_THAT(parse_socket_address("fe80::1%eth0").error().message,
              HasSubstr("\"[fe80::1%eth0]:53\""));
  // A port inside the brackets, or behind an address without any, is a part of the address.
  for (const char* text : {"[::1:53]", "::1:53"})
    EXPECT_EQ(parse_socket_address(text).error().message,
              "\"" + std::string(text) +
                  "\" is an address without a port; if its end is the port, write \"[::1]:53\"");
}

TEST(SocketAddressTest, ConvertsToASockaddr) {
  sockaddr_storage out{};
  ASSERT_EQ(parse_socket_address("192.0.2.1:53")->to_sockaddr(out).value_or(0),
            sizeof(sockaddr_in));
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(out);
  EXPECT_EQ(v4.sin_family, AF_INET);
  EXPECT_EQ(ntohs(v4.sin_port), 53);
  EXPECT_EQ(ntohl(v4.sin_addr.s_addr), 0xc0000201U);

  ASSERT_EQ(parse_socket_address("[2001:db8::1]:853")->to_sockaddr(out).value_or(0),
            sizeof(sockaddr_in6));
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(out);
  EXPECT_EQ(v6.sin6_family, AF_INET6);
  EXPECT_EQ(ntohs(v6.sin6_port), 853);
  EXPECT_EQ(v6.sin6_addr.s6_addr[0], 0x20);
  EXPECT_EQ(v6.sin6_addr.s6_addr[15], 1);
  EXPECT_EQ(v6.sin6_scope_id, 0U);
}

TEST(SocketAddressTest, ResolvesTheZoneOnThisMachine) {
  sockaddr_storage out{};
  ASSERT_TRUE(parse_socket_address("[fe80::1%7]:53")->to_sockaddr(out));
  EXPECT_EQ(reinterpret_cast<const sockaddr_in6&>(out).sin6_scope_id, 7U);
  const auto unknown = parse_socket_address("[fe80::1%nosuch0]:53")->to_sockaddr(out);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("no such interface: \"nosuch0\""));
}

}  // namespace
}  // namespace meshdns::dnsd
