// SPDX-License-Identifier: Apache-2.0
#include "registry/base/finding.hpp"

#include <gtest/gtest.h>

namespace meshdns::registry {
namespace {

TEST(FindingTest, PrintsPlaceObjectFieldAndMessage) {
  const Finding finding{Severity::Error,
                        "shop.yaml",
                        14,
                        "ServiceEntry",
                        "shop/api",
                        "spec.hosts[1]",
                        "\"*.*.io\" has a wildcard that is not leftmost"};
  EXPECT_EQ(finding.to_string(),
            "shop.yaml:14: error: ServiceEntry shop/api: spec.hosts[1]: \"*.*.io\" has a wildcard "
            "that is not leftmost");
}

TEST(FindingTest, OmitsUnknownPartsWithTheirSeparators) {
  EXPECT_EQ((Finding{Severity::Warning, "a.yaml", 0, "", "", "", "empty"}).to_string(),
            "a.yaml: warning: empty");
  EXPECT_EQ((Finding{Severity::Error, "", 3, "Pod", "", "", "bad"}).to_string(),
            "3: error: Pod: bad");
  EXPECT_EQ((Finding{Severity::Error, "", 0, "", "shop/api", "", "bad"}).to_string(),
            "error: shop/api: bad");
  EXPECT_EQ((Finding{Severity::Error, "", 0, "", "", "kind", "missing"}).to_string(),
            "error: kind: missing");
}

}  // namespace
}  // namespace meshdns::registry
