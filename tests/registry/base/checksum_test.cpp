// SPDX-License-Identifier: Apache-2.0
#include "registry/base/durable_file.hpp"

#include <gtest/gtest.h>

#include <string>

namespace meshdns {
namespace {

TEST(ChecksumTest, IsTheCrc32OfZlibAndGzip) {
  EXPECT_EQ(checksum("123456789"), 0xcbf43926U);  // the check value of CRC-32/ISO-HDLC
  EXPECT_EQ(checksum(""), 0U);
}

TEST(ChecksumTest, ContinuesFromTheBytesBefore) {
  const std::string text = "123456789";
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(checksum(text.substr(cut), checksum(text.substr(0, cut))), checksum(text)) << cut;
  EXPECT_EQ(checksum(std::string_view(), checksum(text)), checksum(text))
      << "no bytes at a null pointer";
}

// The values of draft-eastlake-fnv, appendix C.
TEST(ChecksumTest, StableHashIsFnv1a) {
  EXPECT_EQ(stable_hash(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(stable_hash("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(stable_hash("foobar"), 0x85944171f73967e8ULL);
  EXPECT_EQ(stable_hash32(""), 0x811c9dc5U);
  EXPECT_EQ(stable_hash32("a"), 0xe40c292cU);
  EXPECT_EQ(stable_hash32("foobar"), 0xbf9cf968U);
}

}  // namespace
}  // namespace meshdns
