// SPDX-License-Identifier: Apache-2.0
#include "resolver/names/name_resolver.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshdns::resolver {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

class ResultBatchesTest : public testing::Test {
 protected:
  // Tells the batch that is due at `now_`, which takes `cost`; its namespace, or "".
  std::string tell(milliseconds cost) {
    const auto batch = batches_.take_due(now_);
    if (!batch) return "";
    now_ += cost;
    batches_.told(batch->ns, cost, now_);
    return batch->ns;
  }

  TimePoint now_{seconds{1'000}};
  ResultBatches batches_;
};

TEST_F(ResultBatchesTest, TellsTheFirstResultAtOnce) {
  EXPECT_FALSE(batches_.next());
  batches_.add("shop", "b.example.org");
  batches_.add("shop", "a.example.org");
  batches_.add("shop", "b.example.org");
  EXPECT_LE(*batches_.next(), now_);
  const auto batch = batches_.take_due(now_);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->ns, "shop");
  EXPECT_THAT(batch->hosts, ElementsAre("a.example.org", "b.example.org"));
  EXPECT_FALSE(batches_.take_due(now_));
  EXPECT_FALSE(batches_.next());
}

TEST_F(ResultBatchesTest, NamespaceGetsATwentiethOfTheTime) {
  milliseconds spent{0};
  const TimePoint start = now_;
  while (now_ < start + seconds{10}) {
    batches_.add("shop", "a.example.org");
    now_ = std::max(now_, *batches_.next());
    ASSERT_EQ(tell(milliseconds{7}), "shop");
    spent += milliseconds{7};
  }
  EXPECT_LE(spent, milliseconds{520});
  EXPECT_GE(spent, milliseconds{480});
}

TEST_F(ResultBatchesTest, LongBatchesTogetherGetAFifthOfTheTime) {
  milliseconds spent{0};
  const TimePoint start = now_;
  const auto fill = [&] {
    for (int i = 0; i < 50; ++i) batches_.add("ns" + std::to_string(i), "a.example.org");
  };
  // Each namespace's first batch is of unknown length.
  fill();
  while (!tell(milliseconds{20}).empty()) {
  }
  const TimePoint known = now_;
  while (now_ < known + seconds{20}) {
    fill();
    now_ = std::max(now_, *batches_.next());
    if (!tell(milliseconds{20}).empty()) spent += milliseconds{20};
  }
  EXPECT_LE(known - start, seconds{2});
  EXPECT_LE(spent, milliseconds{4'100});
}

TEST_F(ResultBatchesTest, ShortBatchesDoNotWaitForLongOnes) {
  for (int i = 0; i < 50; ++i) {
    const std::string ns = "ns" + std::to_string(i);
    batches_.add(ns, "a.example.org");
    EXPECT_EQ(tell(milliseconds{20}), ns);
    batches_.add(ns, "b.example.org");
  }
  now_ += seconds{60};
  batches_.add("small", "db.example.org");
  EXPECT_EQ(tell(milliseconds{0}), "small");
  now_ += milliseconds{5};
  EXPECT_THAT(tell(milliseconds{20}), testing::StartsWith("ns"));
  batches_.add("small", "db.example.org");
  EXPECT_EQ(tell(milliseconds{0}), "small");
}

TEST_F(ResultBatchesTest, ForgetsWhatIsNotWatchedAnyMore) {
  batches_.add("shop", "a.example.org");
  batches_.remove("shop", "a.example.org");
  batches_.remove("shop", "b.example.org");
  batches_.remove("bank", "a.example.org");
  EXPECT_FALSE(batches_.next());
  EXPECT_FALSE(batches_.take_due(now_));
}

}  // namespace
}  // namespace meshdns::resolver
