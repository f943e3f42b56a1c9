// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/counters.hpp"

#include <gtest/gtest.h>

namespace meshdns::dnsd {
namespace {

TEST(SizeHistogramTest, CountsEachSizeInTheBucketOfTheNextLimit) {
  SizeHistogram sizes;
  sizes.add(0);
  for (std::size_t bucket = 0; bucket < SizeHistogram::kBuckets; ++bucket) {
    sizes.add(SizeHistogram::limit(bucket));
    if (bucket > 0) sizes.add(SizeHistogram::limit(bucket - 1) + 1);
  }
  for (std::size_t bucket = 0; bucket < SizeHistogram::kBuckets; ++bucket)
    EXPECT_EQ(sizes.count(bucket), 2U) << SizeHistogram::limit(bucket);
  EXPECT_EQ(SizeHistogram::limit(SizeHistogram::kBuckets - 1), 65'535U);
}

}  // namespace
}  // namespace meshdns::dnsd
