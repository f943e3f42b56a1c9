// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/flight_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/resolver/cache/messages.hpp"

namespace meshdns::dnsd::test {
namespace {

using Admission = FlightTable::Admission;

class FlightTableTest : public ::testing::Test {
 protected:
  Admission enter(const std::string& name, const char* client = "192.0.2.1") {
    return table_.enter(
        name, wire_name(name), *IpAddress::parse(client),
        [this](const std::string& key, const FlightResult&) { delivered_.push_back(key); });
  }
  FlightTable table_;
  std::vector<std::string> delivered_;  // keys
};

TEST_F(FlightTableTest, LetsOneAskAndOthersWait) {
  EXPECT_EQ(enter("a.example.org."), Admission::Lead);
  EXPECT_EQ(enter("a.example.org."), Admission::Join);
  EXPECT_EQ(enter("a.example.org."), Admission::Join);
  EXPECT_EQ(table_.in_flight(), 1u);
  table_.finish("a.example.org.", {});
  EXPECT_THAT(delivered_, ::testing::ElementsAre("a.example.org.", "a.example.org."));
  EXPECT_EQ(table_.in_flight(), 0u);
  EXPECT_EQ(enter("a.example.org."), Admission::Lead);
}

TEST_F(FlightTableTest, BoundsAllOneClientAndOneZone) {
  table_.set_limit(8);
  EXPECT_EQ(enter("a.zone1.example."), Admission::Lead);
  EXPECT_EQ(enter("a.zone2.example."), Admission::Lead);
  EXPECT_EQ(enter("a.zone3.example."), Admission::FullClient);
  EXPECT_EQ(enter("b.zone1.example.", "192.0.2.2"), Admission::Lead);
  EXPECT_EQ(enter("c.zone1.example.", "192.0.2.2"), Admission::Lead);
  EXPECT_EQ(enter("d.x.zone1.example.", "192.0.2.3"), Admission::Lead);
  EXPECT_EQ(enter("e.y.zone1.example.", "192.0.2.3"), Admission::FullZone);
  EXPECT_EQ(enter("zone1.example.", "192.0.2.3"), Admission::FullZone);
  EXPECT_EQ(enter("a.zone3.example.", "192.0.2.3"), Admission::Lead);
  EXPECT_EQ(enter("a.zone4.example.", "192.0.2.4"), Admission::Lead);
  EXPECT_EQ(enter("b.zone4.example.", "192.0.2.4"), Admission::Lead);
  EXPECT_EQ(enter("a.zone5.example.", "192.0.2.5"), Admission::FullTable);
  // A query that joins a flight takes no place.
  EXPECT_EQ(enter("a.zone1.example.", "192.0.2.1"), Admission::Join);
  table_.finish("a.zone2.example.", {});
  EXPECT_EQ(enter("a.zone5.example.", "192.0.2.1"), Admission::Lead);
}

}  // namespace
}  // namespace meshdns::dnsd::test
