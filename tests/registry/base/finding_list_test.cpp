// SPDX-License-Identifier: Apache-2.0
#include "registry/base/finding.hpp"

#include <gtest/gtest.h>

namespace meshdns::registry {
namespace {

Finding finding(Severity severity, std::string message) {
  Finding made;
  made.severity = severity;
  made.path = "a.yaml";
  made.message = std::move(message);
  return made;
}

TEST(FindingListTest, KeepsTheFirstAndCountsTheRest) {
  FindingList list(2);
  EXPECT_TRUE(list.empty());
  for (const char* message : {"1", "2", "3", "4", "5"}) list.add(finding(Severity::Error, message));
  const auto findings = std::move(list).take();
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[1].to_string(), "a.yaml: error: 2");
  EXPECT_EQ(findings[2].to_string(), "a.yaml: error: and 3 more findings");
}

TEST(FindingListTest, KeepsAllIfTheyFit) {
  FindingList list(2);
  list.add(finding(Severity::Warning, "1"));
  list.add(finding(Severity::Warning, "2"));
  EXPECT_EQ(std::move(list).take().size(), 2U);
}

// An error that the list leaves out still makes the list an error.
TEST(FindingListTest, IsAnErrorIfAnOmittedFindingIsAnError) {
  for (const Severity last : {Severity::Warning, Severity::Error}) {
    FindingList list(1);
    list.add(finding(Severity::Warning, "1"));
    list.add(finding(Severity::Warning, "2"));
    list.add(finding(last, "3"));
    EXPECT_EQ(std::move(list).take().back().severity, last);
  }
}

}  // namespace
}  // namespace meshdns::registry
