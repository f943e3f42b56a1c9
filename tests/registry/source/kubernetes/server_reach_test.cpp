// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/change_batch.hpp"

#include <gtest/gtest.h>

namespace meshdns::registry::kubernetes {
namespace {

using Change = ServerReach::Change;
using Trouble = ReflectorStatus::Trouble;

TEST(ServerReachTest, OnlyOneAsksAServerThatDoesNotAnswer) {
  ServerReach reach;
  const int first = 0;
  const int second = 0;
  EXPECT_TRUE(reach.may_ask(&first));
  EXPECT_TRUE(reach.may_ask(&second));
  EXPECT_EQ(reach.note(&first, Trouble::Unreachable, "refused", Milliseconds(0)), Change::Lost);
  EXPECT_TRUE(reach.may_ask(&first));
  EXPECT_FALSE(reach.may_ask(&second));
  reach.forget(&first);
  EXPECT_TRUE(reach.may_ask(&second));
  EXPECT_FALSE(reach.may_ask(&first));
}

TEST(ServerReachTest, TellsOfEachChangeOnce) {
  ServerReach reach;
  const int who = 0;
  EXPECT_EQ(reach.note(&who, Trouble::Forbidden, "", Milliseconds(0)), Change::Found);
  EXPECT_EQ(reach.note(&who, Trouble::None, "", Milliseconds(0)), Change::None);
  EXPECT_EQ(reach.note(&who, Trouble::Unreachable, "a", Milliseconds(1'000)), Change::Lost);
  EXPECT_EQ(reach.note(&who, Trouble::Unreachable, "b", Milliseconds(2'000)), Change::None);
  EXPECT_EQ(reach.error(Milliseconds(4'500)), "the API server has not answered for 3 s: a");
  EXPECT_EQ(reach.note(&who, Trouble::None, "", Milliseconds(5'000)), Change::Regained);
  EXPECT_TRUE(reach.is_reached());
  EXPECT_EQ(reach.error(Milliseconds(5'000)), "");
}

}  // namespace
}  // namespace meshdns::registry::kubernetes
