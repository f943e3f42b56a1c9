// SPDX-License-Identifier: Apache-2.0
#include "registry/view/view_explanation.hpp"

#include <gtest/gtest.h>

#include "fixture.hpp"

namespace meshdns::registry {
namespace {

std::string text_of_addresses(const std::string& addresses, std::size_t max) {
  TestRegistry registry;
  registry.load(
      "ServiceEntry shop/api\nspec: { hosts: [api.example.org], resolution: STATIC, addresses: [" +
      addresses + "] }\n");
  return answer_text(registry.view(), registry.view().lookup("api.example.org").service, max);
}

TEST(AnswerTextTest, NamesTheSameAddressesInEachOrder) {
  EXPECT_EQ(text_of_addresses("10.0.0.9, 10.0.0.10, 10.0.0.1, 2001:db8::1", 8),
            "10.0.0.1, 10.0.0.10, 10.0.0.9, 2001:db8::1");
  EXPECT_EQ(text_of_addresses("10.0.0.9, 10.0.0.2, 10.0.0.1, 2001:db8::1", 2),
            "10.0.0.1, 10.0.0.2 and 2 more addresses");
  EXPECT_EQ(text_of_addresses("2001:db8::1, 10.0.0.1, 10.0.0.2, 10.0.0.9", 2),
            "10.0.0.1, 10.0.0.2 and 2 more addresses");
}

TEST(AnswerTextTest, SaysThatNobodyHasTheName) {
  TestRegistry registry;
  EXPECT_EQ(answer_text(registry.view(), nullptr, 8), "not a name of the mesh");
}

}  // namespace
}  // namespace meshdns::registry
