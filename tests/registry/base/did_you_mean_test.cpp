// SPDX-License-Identifier: Apache-2.0
#include "registry/base/did_you_mean.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

namespace meshdns {
namespace {

TEST(DidYouMeanTest, EditDistanceCountsChangesWithoutCase) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("hosts", "HOSTS"), 0U);
  EXPECT_EQ(edit_distance("host", "hosts"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("lables", "labels"), 1U) << "two letters changed places";
  EXPECT_EQ(edit_distance("abcd", "badc"), 2U);
}

TEST(DidYouMeanTest, SuggestsOnlySimilarWords) {
  const std::array<std::string_view, 3> known = {"hosts", "addresses", "resolution"};
  EXPECT_EQ(nearest_word("host", known), "hosts");
  EXPECT_EQ(nearest_word("adresses", known), "addresses");
  EXPECT_EQ(nearest_word("adress", known), std::nullopt);
  EXPECT_EQ(nearest_word("RESOLUTION", known), "resolution");
  EXPECT_EQ(nearest_word("resoltuino", known), "resolution");
  EXPECT_EQ(nearest_word("completely", known), std::nullopt);
  EXPECT_EQ(nearest_word("", known), std::nullopt);
  EXPECT_EQ(nearest_word(std::string(1000, 'h'), known), std::nullopt);
}

TEST(DidYouMeanTest, SuggestsNothingWhenTwoWordsAreEquallyNear) {
  const std::array<std::string_view, 3> known = {"port", "host", "ip"};
  EXPECT_EQ(nearest_word("post", known), std::nullopt);
  EXPECT_EQ(nearest_word("ports", known), "port");
  EXPECT_EQ(nearest_word("Host", known), "host");
  EXPECT_EQ(nearest_word("ID", known), std::nullopt) << "too short to guess at";
  EXPECT_EQ(nearest_word("IP", known), "ip");
}

}  // namespace
}  // namespace meshdns
