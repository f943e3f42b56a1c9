// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/served_addresses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <uv.h>

#include <chrono>

#include "tests/dnsd/taken_port.hpp"

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

SocketAddress address_of(const char* text) { return *parse_socket_address(text); }

// The admin endpoints are off, and no worker runs.
class ServedAddressesTest : public testing::Test {
 protected:
  ServedAddressesTest() {
    config_.server.workers = 2;
    config_.server.listen = {address_of("127.0.0.1:0")};
    config_.admin.listen.clear();
    config_.admin.metrics_listen.reset();
  }

  Config config_;
  Log log_{{.level = LogLevel::Off}};
  WorkerPool workers_{log_};
  AdminEndpoint admin_{nullptr, "admin.listen", [] { return HttpRoutes(); }};
  AdminEndpoint metrics_{nullptr, "admin.metrics_listen", [] { return HttpRoutes(); }};
  ServedAddresses addresses_{config_, workers_, admin_, metrics_, log_};
};

TEST_F(ServedAddressesTest, OpensASocketForEachWorker) {
  ASSERT_TRUE(addresses_.open());
  ASSERT_THAT(addresses_.listeners().listeners(), SizeIs(1));
  EXPECT_THAT(addresses_.listeners().listeners().front().udp, SizeIs(2));
  EXPECT_FALSE(addresses_.are_inherited());
  EXPECT_EQ(addresses_.admin_text(), "off");
}

TEST_F(ServedAddressesTest, KeepsAnAddressThroughAChangeOfOthers) {
  ASSERT_TRUE(addresses_.open());
  const SocketAddress first = addresses_.addresses().front();
  config_.server.listen.push_back(address_of("127.0.0.2:0"));
  addresses_.bind();
  EXPECT_THAT(addresses_.addresses(), testing::Contains(first));
  EXPECT_THAT(addresses_.addresses(), SizeIs(2));
  config_.server.listen.pop_back();
  addresses_.bind();
  EXPECT_THAT(addresses_.addresses(), ElementsAre(first));
}

TEST_F(ServedAddressesTest, TriesAnAddressAgainUntilItsOtherUserIsGone) {
  ASSERT_TRUE(addresses_.open());
  test::TakenPort taken;
  config_.server.listen.push_back(taken.address());
  addresses_.bind();
  const auto now = std::chrono::steady_clock::now();
  EXPECT_THAT(addresses_.unbound(), ElementsAre(HasSubstr("cannot listen on 127.0.0.1:")));
  EXPECT_THAT(addresses_.addresses(), SizeIs(1));
  EXPECT_FALSE(addresses_.is_due(now));
  EXPECT_TRUE(addresses_.is_due(now + 1min));
  taken.release();
  addresses_.bind();
  EXPECT_THAT(addresses_.unbound(), IsEmpty());
  EXPECT_THAT(addresses_.addresses(), SizeIs(2));
  EXPECT_FALSE(addresses_.is_due(now + 1min));
}

TEST_F(ServedAddressesTest, TriesAnAdminAddressThatIsTakenAgainAndAnswersQueriesMeanwhile) {
  test::TakenPort taken;
  config_.admin.listen = {taken.address()};
  ASSERT_TRUE(addresses_.open());
  addresses_.open_admin();
  EXPECT_THAT(addresses_.unbound(), ElementsAre(HasSubstr("admin.listen: cannot bind 127.0.0.1:")));
  EXPECT_FALSE(addresses_.is_due(std::chrono::steady_clock::now()));
  EXPECT_TRUE(addresses_.is_due(std::chrono::steady_clock::now() + 1min));
  EXPECT_THAT(addresses_.addresses(), SizeIs(1));
  config_.admin.listen.clear();
  addresses_.bind();
  EXPECT_THAT(addresses_.unbound(), IsEmpty());
}

TEST_F(ServedAddressesTest, ExchangesThePortsOfTwoKeysAtOnce) {
  uv_loop_t loop;
  uv_loop_init(&loop);
  AdminEndpoint admin(&loop, "admin.listen", [] { return HttpRoutes(); });
  AdminEndpoint metrics(&loop, "admin.metrics_listen", [] { return HttpRoutes(); });
  ServedAddresses addresses(config_, workers_, admin, metrics, log_);
  config_.admin.listen = {address_of("127.0.0.1:0")};
  config_.admin.metrics_listen = address_of("127.0.0.1:0");
  ASSERT_TRUE(addresses.open());
  addresses.open_admin();
  ASSERT_THAT(addresses.unbound(), IsEmpty());
  const AdminAddress first = admin.addresses().front();
  const AdminAddress second = metrics.addresses().front();
  config_.admin.listen = {second};
  config_.admin.metrics_listen = first;
  addresses.bind();
  EXPECT_THAT(addresses.unbound(), IsEmpty());
  EXPECT_THAT(admin.addresses(), ElementsAre(second));
  EXPECT_THAT(metrics.addresses(), ElementsAre(first));
  addresses.close_admin();
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

}  // namespace
}  // namespace meshdns::dnsd
