// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/published_health.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshdns::dnsd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

class PublishedHealthTest : public testing::Test {
 protected:
  unsigned health_after(milliseconds time) {
    now_ += time;
    return board_.health(now_).status;
  }
  PublishedHealth::Time now_{seconds{1'000}};
  PublishedHealth board_{now_};
};

TEST_F(PublishedHealthTest, IsHealthyWhileTheControlThreadIsBusyForSeconds) {
  EXPECT_EQ(health_after(seconds{29}), 200U);
  board_.beat(now_);
  EXPECT_EQ(health_after(seconds{29}), 200U);
}

TEST_F(PublishedHealthTest, FailsWhenTheControlThreadIsSilent) {
  EXPECT_EQ(health_after(seconds{31}), 200U) << "the first check that finds it is confirmed first";
  EXPECT_EQ(health_after(milliseconds{999}), 200U);
  EXPECT_EQ(health_after(milliseconds{1}), 503U);
  EXPECT_THAT(board_.health(now_).body, HasSubstr("silent for 32 s"));
  board_.beat(now_);
  EXPECT_EQ(health_after(seconds{1}), 200U);
}

TEST_F(PublishedHealthTest, DoesNotBlameTheControlThreadForAStoppedProcess) {
  EXPECT_EQ(health_after(seconds{3'600}), 200U);
  board_.beat(now_);
  EXPECT_EQ(health_after(seconds{1}), 200U);
  EXPECT_EQ(health_after(seconds{3'600}), 200U) << "a second suspension is another silence";
}

TEST_F(PublishedHealthTest, TellsWhatIsPublished) {
  EXPECT_FALSE(board_.readiness().is_ready()) << "before anything is published";
  board_.publish("worker 1 hangs", {});
  EXPECT_EQ(board_.health(now_).status, 503U);
  EXPECT_EQ(board_.health(now_).body, "worker 1 hangs\n");
  EXPECT_TRUE(board_.readiness().is_ready());
  board_.publish("", {.not_ready = {{"stopping", "this daemon is ending"}}, .degraded = {}});
  EXPECT_EQ(board_.health(now_).body, "ok\n");
  EXPECT_EQ(board_.readiness().first_reason(), "stopping");
  EXPECT_THAT(board_.readiness().effects(), ElementsAre("this daemon is ending"));
}

TEST(ReadinessTest, NamesEachEffectOnceAndThoseThatKeepClientsWaitingFirst) {
  Readiness readiness;
  EXPECT_THAT(readiness.effects(), testing::IsEmpty());
  EXPECT_EQ(readiness.first_reason(), "");
  readiness.degraded = {{"a: is down", "b"}, {"c: is down", "d"}, {"e: is down", "b"}};
  EXPECT_THAT(readiness.effects(), ElementsAre("b", "d"));
  EXPECT_EQ(readiness.first_reason(), "a: is down");
  readiness.not_ready = {{"files:shop: not read yet", "names of the mesh may be missing"}};
  EXPECT_THAT(readiness.effects(), ElementsAre("names of the mesh may be missing", "b", "d"));
  EXPECT_EQ(readiness.first_reason(), "files:shop: not read yet");
}

}  // namespace
}  // namespace meshdns::dnsd
