// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/module/ads_session.hpp"

#include <gtest/gtest.h>
#include <xds.pb.h>

namespace meshdns::registry::istiod {
namespace {

constexpr const char* kTypeOfTable = "type.googleapis.com/istio.networking.nds.v1.NameTable";

constexpr const char* kTypeOfAddress = "type.googleapis.com/istio.workload.Address";

// A field with a length below 128.
std::string text_field(int number, const std::string& text) {
  return std::string(1, static_cast<char>(number << 3 | 2)) +
         std::string(1, static_cast<char>(text.size())) + text;
}

AdsSession session(AdsTransport transport) {
  AdsOptions options;
  options.transport = transport;
  options.node.id = "sidecar~10.0.0.5~vm.shop~shop.svc.cluster.local";
  options.held = {{"t", "7"}};
  return AdsSession(std::move(options));
}

std::string any_of(const std::string& table, const std::string& type = kTypeOfTable) {
  return text_field(1, type) + text_field(2, table);
}

std::string a_table() { return text_field(1, text_field(1, "a.example") + text_field(2, "info")); }

TEST(AdsSessionTest, ReadsAResponseOfEitherTransport) {
  const std::string whole = text_field(1, "v1") + text_field(2, any_of(a_table())) +
                            text_field(4, kTypeOfTable) + text_field(5, "n1");
  const AdsResponse first = session(AdsTransport::StateOfTheWorld).read(whole);
  EXPECT_FALSE(first.fault);
  EXPECT_TRUE(first.push.is_whole);
  EXPECT_EQ(first.push.version + first.nonce, "v1n1");
  ASSERT_EQ(first.push.tables.size(), 1U);
  ASSERT_EQ(first.push.tables[0].names.size(), 1U);
  EXPECT_EQ(first.push.tables[0].names[0].host, "a.example");
  EXPECT_EQ(first.push.tables[0].names[0].info, "info");

  const std::string resource =
      text_field(1, "7") + text_field(3, "t") + text_field(2, any_of(a_table()));
  const std::string delta = std::string("\x12", 1) +
                            std::string(1, static_cast<char>(resource.size() | 0x80)) +
                            std::string(1, static_cast<char>(resource.size() >> 7)) + resource +
                            text_field(6, "gone") + text_field(5, "n2");
  const AdsResponse second = session(AdsTransport::Delta).read(delta);
  EXPECT_FALSE(second.fault) << *second.fault;
  EXPECT_FALSE(second.push.is_whole);
  EXPECT_EQ(second.push.tables.at(0).name + second.push.tables.at(0).version, "t7");
  EXPECT_EQ(second.push.removed, std::vector<std::string>{"gone"});
}

TEST(AdsSessionTest, FindsTheNonceOfAResponseThatItRefuses) {
  const std::string message = text_field(2, any_of("", "type.example/Other")) + text_field(5, "n");
  const AdsResponse response = session(AdsTransport::StateOfTheWorld).read(message);
  EXPECT_EQ(response.fault, "the response has a resource of another type than NameTable");
  EXPECT_EQ(response.nonce, "n");
}

TEST(AdsSessionTest, RefusesEveryPartOfAMessage) {
  const std::string whole = text_field(2, any_of(a_table())) + text_field(5, "n1");
  const AdsSession reading = session(AdsTransport::StateOfTheWorld);
  EXPECT_FALSE(reading.read(whole).fault);
  // A part may be a message, of the fields that it has as a whole.
  const std::size_t resource_end = whole.size() - 4;
  for (std::size_t size = 1; size < whole.size(); ++size)
    EXPECT_EQ(reading.read(whole.substr(0, size)).fault.has_value(), size != resource_end) << size;
}

// Other readers of protobuf refuse such a message; to pass over the field would empty the table.
TEST(AdsSessionTest, RefusesAFieldOfNumberZeroAtEveryPlace) {
  const AdsSession reading = session(AdsTransport::StateOfTheWorld);
  for (const std::string& field : {text_field(0, ""), text_field(0, "x"), std::string("\0\0", 2),
                                   std::string("\1\0\0\0\0\0\0\0\0", 9), std::string("\3\4", 2),
                                   std::string("\5\0\0\0\0", 5)}) {
    for (const std::string& table :
         {field, field + a_table(), a_table() + field, text_field(1, field),
          text_field(1, text_field(1, "a") + field)})
      EXPECT_TRUE(reading.read(text_field(2, any_of(table))).fault)
          << testing::PrintToString(table);
    EXPECT_TRUE(reading.read(text_field(2, any_of(a_table()) + field)).fault);
    EXPECT_TRUE(reading.read(text_field(2, any_of(a_table())) + field).fault);
  }
}

TEST(AdsSessionTest, ANackHasTheReasonAndTheVersionThatStays) {
  AdsSession whole = session(AdsTransport::StateOfTheWorld);
  AdsResponse response;
  response.push.version = "v1";
  response.nonce = "n1";
  xds::DiscoveryRequest request;
  ASSERT_TRUE(request.ParseFromString(whole.reply(response, std::nullopt)));
  EXPECT_EQ(request.version_info() + request.response_nonce(), "v1n1");
  EXPECT_FALSE(request.has_error_detail());
  response.push.version = "v2";
  response.nonce = "n2";
  ASSERT_TRUE(request.ParseFromString(whole.reply(response, "why")));
  EXPECT_EQ(request.version_info() + request.response_nonce(), "v1n2");
  EXPECT_EQ(request.error_detail().message(), "why");

  AdsSession delta = session(AdsTransport::Delta);
  xds::DeltaDiscoveryRequest of_delta;
  ASSERT_TRUE(of_delta.ParseFromString(delta.reply(response, "why")));
  EXPECT_EQ(of_delta.response_nonce() + of_delta.error_detail().message(), "n2why");
}

TEST(AdsSessionTest, TheFirstDeltaRequestHasTheVersionsThatAreHeld) {
  xds::DeltaDiscoveryRequest request;
  ASSERT_TRUE(request.ParseFromString(session(AdsTransport::Delta).first_request()));
  EXPECT_EQ(request.initial_resource_versions().at("t"), "7");
  EXPECT_EQ(request.node().id(), "sidecar~10.0.0.5~vm.shop~shop.svc.cluster.local");
  EXPECT_EQ(request.node().metadata().fields().at("DNS_CAPTURE").string_value(), "true");
}

TEST(AdsSessionTest, TheNodeHasTheMetadataOfTheProxy) {
  AdsOptions options;
  options.node.workload = "vm-1";
  options.node.network = "net-1";
  options.node.metadata = {
      {"DNS_AUTO_ALLOCATE", "true"}, {"NETWORK", "other"}, {"WORKLOAD_NAME", "vm"}};
  xds::DeltaDiscoveryRequest request;
  ASSERT_TRUE(request.ParseFromString(AdsSession(std::move(options)).first_request()));
  const auto& fields = request.node().metadata().fields();
  EXPECT_EQ(fields.at("DNS_AUTO_ALLOCATE").string_value(), "true");
  EXPECT_EQ(fields.at("NETWORK").string_value(), "net-1");
  EXPECT_EQ(fields.at("WORKLOAD_NAME").string_value(), "vm");
}

TEST(AdsSessionTest, LimitsTheNamesAndTheTables) {
  std::string tables;
  const std::string table = text_field(2, any_of(""));
  for (std::size_t i = 0; i <= kMaxNames; ++i) tables += table;
  EXPECT_EQ(session(AdsTransport::StateOfTheWorld).read(tables).fault,
            "the response has more than 1000000 names and resources");
}

TEST(AdsSessionTest, RefusesAResourceWithAHugeNameOrVersion) {
  // A text of up to 16,383 octets.
  const auto long_field = [](int number, const std::string& text) {
    return std::string(1, static_cast<char>(number << 3 | 2)) +
           std::string(1, static_cast<char>((text.size() & 0x7f) | 0x80)) +
           std::string(1, static_cast<char>(text.size() >> 7)) + text;
  };
  const auto response_with = [&](std::size_t name, std::size_t version) {
    return long_field(2, long_field(1, std::string(version, 'v')) + long_field(2, any_of("")) +
                             long_field(3, std::string(name, 'n')));
  };
  const AdsSession reading = session(AdsTransport::Delta);
  EXPECT_FALSE(reading.read(response_with(kMaxResourceName, kMaxResourceVersion)).fault);
  for (const auto& response :
       {response_with(kMaxResourceName + 1, 1), response_with(1, kMaxResourceVersion + 1)})
    EXPECT_EQ(reading.read(response).fault, "the name or the version of a resource is too long");
}

TEST(AdsSessionTest, AsksForAllAddressesOfTheWorkloadApi) {
  AdsOptions options;
  options.api = AdsApi::Workloads;
  options.held = {{"shop/a.example", ""}};
  const AdsSession workloads(std::move(options));
  xds::DeltaDiscoveryRequest request;
  ASSERT_TRUE(request.ParseFromString(workloads.first_request()));
  EXPECT_EQ(request.type_url(), kTypeOfAddress);
  ASSERT_EQ(request.resource_names_subscribe_size(), 1);
  EXPECT_EQ(request.resource_names_subscribe(0), "*");
  EXPECT_EQ(request.initial_resource_versions().count("shop/a.example"), 1U);
}

TEST(AdsSessionTest, ReadsAddressesAsTheyAre) {
  AdsOptions options;
  options.api = AdsApi::Workloads;
  const AdsSession workloads(std::move(options));
  const auto response_with = [](const std::string& any) {
    return text_field(2, text_field(1, "7") + text_field(3, "uid") + text_field(2, any)) +
           text_field(6, "gone");
  };
  const std::string good = response_with(any_of("content", kTypeOfAddress));
  const AdsResponse response = workloads.read(good);
  EXPECT_FALSE(response.fault) << *response.fault;
  ASSERT_EQ(response.push.addresses.size(), 1U);
  const PushedAddress& address = response.push.addresses[0];
  EXPECT_EQ(address.name + address.version + std::string(address.content), "uid7content");
  EXPECT_EQ(response.push.removed, std::vector<std::string>{"gone"});
  const std::string other = response_with(any_of("content", "type.example/Other"));
  EXPECT_EQ(workloads.read(other).fault,
            "the response has a resource of another type than Address");
}

}  // namespace
}  // namespace meshdns::registry::istiod
