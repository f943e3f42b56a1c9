// SPDX-License-Identifier: Apache-2.0
#include "registry/base/handle.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace meshdns {
namespace {

TEST(CheckLoopTest, LetsSuccessPass) {
  check_loop(0, "start a timer");
  check_loop(7, "start a timer");
}

TEST(CheckLoopDeathTest, EndsTheProcessWithTheReason) {
  EXPECT_DEATH(check_loop(-EMFILE, "make an epoll set"),
               "the event loop fails to make an epoll set: Too many open files");
}

}  // namespace
}  // namespace meshdns
