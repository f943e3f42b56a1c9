// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/module/ads_session.hpp"

#include <gtest/gtest.h>

namespace meshdns::registry::istiod {
namespace {

// Messages are written by field numbers here: those of the schema could be wrong.
std::string with_length(int number, const std::string& text) {
  const auto tag = static_cast<unsigned>(number << 3 | 2);
  std::string octets;
  if (tag > 0x7F) octets = {static_cast<char>(tag | 0x80), static_cast<char>(tag >> 7)};
  if (tag <= 0x7F) octets = std::string(1, static_cast<char>(tag));
  return octets + std::string(1, static_cast<char>(text.size())) + text;
}

std::string with_number(int number, int value) {
  const auto tag = static_cast<unsigned>(number << 3);
  std::string octets;
  if (tag > 0x7F) octets = {static_cast<char>(tag | 0x80), static_cast<char>(tag >> 7)};
  if (tag <= 0x7F) octets = std::string(1, static_cast<char>(tag));
  return octets + std::string(1, static_cast<char>(value));
}

std::string a_port() { return with_number(1, 80) + with_number(2, 81) + with_number(3, 2); }

template <typename Message>
Message read_as(const std::string& octets) {
  const auto address = make_message_reader()->read_address(octets);
  EXPECT_TRUE(address && std::holds_alternative<Message>(*address));
  return address ? std::get<Message>(*address) : Message();
}

TEST(MessageReaderTest, ReadsAService) {
  const auto service = read_as<ApiService>(with_length(
      2, with_length(1, "name") + with_length(2, "ns") + with_length(3, "host") +
             with_length(4, with_length(1, "net") + with_length(2, "1234") + with_number(3, 0)) +
             with_length(4, "") + with_length(5, a_port()) + with_length(6, "san") +
             with_length(7, "") + with_length(8, with_number(3, 1)) + with_number(9, 1) +
             with_length(10, "") + with_number(11, 1) + with_number(14, 1)));
  EXPECT_EQ(service.ns + " " + service.hostname, "ns host");
  ASSERT_EQ(service.addresses.size(), 2U);
  EXPECT_EQ(service.addresses[0].network + service.addresses[0].octets, "net1234");
  EXPECT_EQ(service.addresses[0].length, 0U);
  EXPECT_EQ(service.addresses[1].length, std::nullopt);
  ASSERT_EQ(service.ports.size(), 1U);
  EXPECT_EQ(service.ports[0].service_port, 80U);
  EXPECT_EQ(service.ports[0].target_port, 81U);
  EXPECT_EQ(service.ports[0].protocol, ApiProtocol::Http2);
  EXPECT_EQ(service.subject_alt_names, std::vector<std::string>{"san"});
  EXPECT_TRUE(service.allows_unhealthy && service.is_canonical && service.is_private);
  EXPECT_EQ(service.ip_families, ApiFamilies::Ipv4Only);
}

TEST(MessageReaderTest, ReadsAWorkload) {
  const std::string service = with_length(1, "ns/host") + with_length(2, with_length(1, a_port()));
  const auto workload = read_as<ApiWorkload>(
      with_length(1, with_length(1, "name") + with_length(2, "ns") + with_length(3, "1234") +
                         with_length(3, "5678") + with_length(4, "net") + with_length(7, "sa") +
                         with_length(9, "node") + with_number(12, 2) + with_number(17, 1) +
                         with_length(18, "cluster") + with_length(20, "uid") +
                         with_length(21, "host") + with_length(22, service) + with_number(25, 1)));
  EXPECT_EQ(workload.uid + " " + workload.ns + " " + workload.hostname, "uid ns host");
  EXPECT_EQ(workload.addresses, (std::vector<std::string>{"1234", "5678"}));
  EXPECT_EQ(workload.network + workload.cluster_id, "netcluster");
  EXPECT_EQ(workload.service_account + workload.node, "sanode");
  ASSERT_EQ(workload.services.size(), 1U);
  EXPECT_EQ(workload.services[0].first, "ns/host");
  EXPECT_EQ(workload.services[0].second.at(0).target_port, 81U);
  EXPECT_FALSE(workload.is_healthy);
  EXPECT_TRUE(workload.is_plain_pod && workload.has_host_network);
}

TEST(MessageReaderTest, AWorkloadIsHealthyUnlessItSaysOtherwise) {
  const auto workload = read_as<ApiWorkload>(with_length(
      1, with_length(24, with_length(1, "r") + with_length(2, "z") + with_length(3, "s"))));
  EXPECT_TRUE(workload.is_healthy);
  EXPECT_FALSE(workload.is_plain_pod || workload.has_host_network);
  EXPECT_EQ(workload.region + workload.zone + workload.subzone, "rzs");
}

TEST(MessageReaderTest, ReadsTextsThatAreNoUtf8AndRefusesDamagedMessages) {
  EXPECT_EQ(read_as<ApiService>(with_length(2, with_length(3, "\xff"))).hostname, "\xff");
  const auto reader = make_message_reader();
  EXPECT_FALSE(reader->read_address("\x12\x02\x1a\x05"));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(*reader->read_address("")));
}

}  // namespace
}  // namespace meshdns::registry::istiod
