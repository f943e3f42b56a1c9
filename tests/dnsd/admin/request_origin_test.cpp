// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/http_request.hpp"

#include <gtest/gtest.h>

#include <string>

namespace meshdns::dnsd {
namespace {

TEST(RequestOriginTest, AcceptsAddressesAndLocalhost) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:15054", "[::1]", "[::1]:15054", "[2001:DB8::1]:1", "localhost",
        "LocalHost:65535", "10.0.0.7:0", "[::ffff:127.0.0.1]:80"})
    EXPECT_TRUE(is_own_host(host)) << host;
}

TEST(RequestOriginTest, RefusesEverythingElse) {
  for (const char* host : {"",
                           "example.org",
                           "[::1].example.org",
                           "[::1].example.org:80",
                           "[::1]x",
                           "[::1]:",
                           "[::1",
                           "[]",
                           "[127.0.0.1]",
                           "[localhost]",
                           "::1",
                           "::1:80",
                           "127.0.0.1.example.org",
                           "127.0.0.1.",
                           "127.0.0.1.:80",
                           "localhost.",
                           "localhost.example.org",
                           "localhost:80@example.org",
                           "localhost@example.org",
                           "example.org@localhost",
                           "localhost:80:80",
                           "localhost:",
                           "localhost:65536",
                           "localhost:-1",
                           "localhost:+1",
                           "localhost: 80",
                           "localhost:8o",
                           " localhost",
                           "localhost ",
                           "localhost/",
                           "localhost,example.org",
                           "[fe80::1%eth0]",
                           "[fe80::1%25eth0]:80",
                           "127.1",
                           "0x7f.0.0.1",
                           "2130706433",
                           "127.0.0.01",
                           "127.0.0.1/8",
                           ":80",
                           "[::1]:80x"})
    EXPECT_FALSE(is_own_host(host)) << host;
  EXPECT_FALSE(is_own_host(std::string_view("localhost\0.example.org", 22)));
}

TEST(RequestOriginTest, ComparesTheOriginWithTheHost) {
  EXPECT_TRUE(is_own_origin("http://127.0.0.1:15054", "127.0.0.1:15054"));
  EXPECT_TRUE(is_own_origin("http://LOCALHOST", "localhost"));
  for (const char* origin : {"null", "", "http://", "https://127.0.0.1:15054", "http://127.0.0.1",
                             "http://127.0.0.1:15054.example.org", "http://127.0.0.1:15054/"})
    EXPECT_FALSE(is_own_origin(origin, "127.0.0.1:15054")) << origin;
}

}  // namespace
}  // namespace meshdns::dnsd
