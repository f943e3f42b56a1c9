// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/announcement.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "registry/registry.hpp"

namespace meshdns::dnsd {
namespace {

std::string steps(const std::string& listen, const std::vector<std::string>& admin,
                  const std::string& host = {}) {
  registry::Registry registry({});
  if (!host.empty()) {
    registry::ServiceEntry entry;
    entry.meta.name = "api";
    entry.meta.ns = "shop";
    entry.hosts = {host};
    entry.addresses = {IpPrefix::parse("10.0.0.7").value()};
    registry::Transaction transaction;
    transaction.upsert(entry, "shop.yaml", 1);
    registry.commit(std::move(transaction));
  }
  const std::array addresses{parse_socket_address(listen).value()};
  std::vector<AdminAddress> pages;
  for (const std::string& address : admin) pages.push_back(parse_admin_address(address).value());
  return first_steps(*registry.current(), addresses, pages);
}

TEST(FirstStepsTest, NameAnAddressThatAnswersForAWildcard) {
  EXPECT_EQ(steps("0.0.0.0:53", {"0.0.0.0:15054"}, "api.example.org"),
            "To ask:          dig @127.0.0.1 api.example.org\n"
            "The status page: http://127.0.0.1:15054/\n"
            "To stop:         Ctrl+C\n");
  EXPECT_EQ(steps("[::]:5353", {"[::]:15054"}, "api.example.org"),
            "To ask:          dig @::1 -p 5353 api.example.org\n"
            "The status page: http://[::1]:15054/\n"
            "To stop:         Ctrl+C\n");
}

TEST(FirstStepsTest, SayHowToReadThePageAtAUnixSocketAndWhereItIsOff) {
  EXPECT_NE(steps("10.0.0.1:53", {"unix:/run/meshdns/admin.sock"})
                .find("page: curl --unix-socket /run/meshdns/admin.sock http://localhost/\n"),
            std::string::npos);
  EXPECT_NE(steps("10.0.0.1:53", {}).find("page: off (admin.listen)\n"), std::string::npos);
}

TEST(FirstStepsTest, NameTheAddressThatABrowserTakes) {
  EXPECT_NE(steps("10.0.0.1:53", {"unix:/run/meshdns/admin.sock", "127.0.0.1:15054"})
                .find("page: http://127.0.0.1:15054/\n"),
            std::string::npos);
}

TEST(FirstStepsTest, AskForAForwardedNameWhereTheRegistryHasNone) {
  EXPECT_NE(steps("10.0.0.1:53", {}).find("dig @10.0.0.1 example.org\n"), std::string::npos);
}

}  // namespace
}  // namespace meshdns::dnsd
