// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/load_history.hpp"

#include <gtest/gtest.h>

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;

UpstreamStatus server_with(std::uint64_t fast, std::uint64_t slow) {
  UpstreamStatus status;
  status.name = "192.0.2.53";
  status.latency[0] = fast;
  status.latency[10] = slow;
  return status;
}

TEST(LatencyWindowTest, ForgetsWhatIsOlderThanTwoObservations) {
  LatencyWindow window;
  const LatencyWindow::Time start{100s};
  EXPECT_TRUE(window.is_due(start));
  window.observe({server_with(5, 0)}, start);
  EXPECT_FALSE(window.is_due(start + 29s));
  EXPECT_TRUE(window.is_due(start + 30s));
  EXPECT_EQ(window.recent(server_with(7, 1))[0], 7U);
  window.observe({server_with(8, 2)}, start + 30s);
  EXPECT_EQ(window.recent(server_with(8, 3))[0], 3U);
  EXPECT_EQ(window.recent(server_with(8, 3))[10], 3U);
  window.observe({server_with(8, 3)}, start + 60s);
  EXPECT_EQ(window.recent(server_with(9, 3))[0], 1U);
  EXPECT_EQ(window.recent(server_with(9, 3))[10], 1U);
}

TEST(LatencyWindowTest, TakesAServerThatWasAddedAgainForANewOne) {
  LatencyWindow window;
  window.observe({server_with(5, 5)}, LatencyWindow::Time{100s});
  window.observe({}, LatencyWindow::Time{130s});
  EXPECT_EQ(window.recent(server_with(2, 0))[0], 2U);
}

}  // namespace
}  // namespace meshdns::dnsd
