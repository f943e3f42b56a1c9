// SPDX-License-Identifier: Apache-2.0
#include "registry/base/counted.hpp"

#include <gtest/gtest.h>

namespace meshdns::registry {
namespace {

TEST(CountedTest, OneIsSingularAndAllOthersArePlural) {
  EXPECT_EQ(counted(1, "error"), "1 error");
  for (const std::uint64_t number :
       {std::uint64_t{0}, std::uint64_t{2}, std::uint64_t{11}, UINT64_MAX})
    EXPECT_EQ(counted(number, "error"), std::to_string(number) + " errors");
}

TEST(CountedTest, KnowsTheRegularEndings) {
  EXPECT_EQ(counted(2, "entry"), "2 entries");
  EXPECT_EQ(counted(2, "query"), "2 queries");
  EXPECT_EQ(counted(2, "key"), "2 keys");
  EXPECT_EQ(counted(2, "day"), "2 days");
  EXPECT_EQ(counted(2, "address"), "2 addresses");
  EXPECT_EQ(counted(2, "miss"), "2 misses");
  EXPECT_EQ(counted(2, "box"), "2 boxes");
  EXPECT_EQ(counted(2, "match"), "2 matches");
  EXPECT_EQ(counted(2, "upstream server"), "2 upstream servers");
  EXPECT_EQ(counted(1, "entry"), "1 entry");
}

}  // namespace
}  // namespace meshdns::registry
