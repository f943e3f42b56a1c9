// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/istio_vm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace meshdns::dnsd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(EnvFileTest, ReadsTheQuotesOfTheShell) {
  const auto values = parse_env_file(
      "# comment\n"
      "PLAIN=a/b:c,d=e\n"
      "SINGLE='{\"app\":\"v m\"}'  # comment\n"
      "APOSTROPHE='it'\"'\"'s'\n"
      "export DOUBLE=\"a \\\"b\\\" 'c'\"\n"
      "ESCAPED=a\\ b\n"
      "KEPT=\"a\\b\\\\\"\n"
      "LINES='a\nb'\r\n"
      "EMPTY=''\n"
      "NONE=\n"
      "SIGN='$(id)'\n"
      "PLAIN=last");
  ASSERT_TRUE(values.has_value()) << values.error().message;
  const auto text = [&](std::string_view name) { return values->find(name)->second.text; };
  EXPECT_EQ(text("PLAIN"), "last");
  EXPECT_EQ(text("SINGLE"), R"({"app":"v m"})");
  EXPECT_EQ(text("APOSTROPHE"), "it's");
  EXPECT_EQ(text("DOUBLE"), R"(a "b" 'c')");
  EXPECT_EQ(text("ESCAPED"), "a b");
  EXPECT_EQ(text("KEPT"), R"(a\b\)");
  EXPECT_EQ(text("LINES"), "a\nb");
  EXPECT_EQ(text("EMPTY"), "");
  EXPECT_EQ(text("NONE"), "");
  EXPECT_EQ(text("SIGN"), "$(id)");
  EXPECT_EQ(values->find("EMPTY")->second.line, 10);
}

TEST(EnvFileTest, RefusesTextThatNeedsAShell) {
  const std::pair<const char*, const char*> cases[] = {
      {"A=1\nB=$HOME\n", "B: has an unquoted \"$\""},
      {"A=1\nB=\"`id`\"\n", "B: has an unquoted \"`\""},
      {"A=1\nrm -rf /\n", "is not an assignment"},
      {"A=1\n=b\n", "is not an assignment"},
      {"A=1\nB='b", "B: has a quote that does not end"},
      {"A=1\nB=b\\", "B: ends with a backslash"},
      {"A=1\nB=a&id\n", "B: has an unquoted \"&\""},
      {"A=1\nB=$\n\nC=2\n", "B: has an unquoted \"$\""},
  };
  for (const auto& [text, reason] : cases) {
    const auto values = parse_env_file(text);
    ASSERT_FALSE(values.has_value()) << text;
    EXPECT_THAT(values.error().message, HasSubstr(reason)) << text;
    EXPECT_EQ(values.error().line, 2) << text;
  }
}

class IstioVmTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(directory_);
    write("cluster.env", environment());
    write("mesh.yaml",
          "defaultConfig:\n  discoveryAddress: istiod-rev-1.istio-system.svc:15012\n"
          "  proxyMetadata:\n    ISTIO_META_DNS_CAPTURE: \"true\"\n");
    write("hosts", "192.0.2.10 istiod-rev-1.istio-system.svc\n");
    write("root-cert.pem", "-----BEGIN CERTIFICATE-----\n");
    write("istio-token", "token");
  }

  void TearDown() override { std::filesystem::remove_all(directory_); }

  // As istioctl writes it.
  static std::string environment(std::string_view change = {}) {
    return "CANONICAL_REVISION=latest\nCANONICAL_SERVICE=vm\nISTIO_INBOUND_PORTS='*'\n"
           "ISTIO_METAJSON_LABELS='{\"app\":\"vm\",\"service.istio.io/canonical-name\":\"vm\"}'\n"
           "ISTIO_META_CLUSTER_ID=east\nISTIO_META_DNS_CAPTURE=true\nISTIO_META_MESH_ID=''\n"
           "ISTIO_META_NETWORK=net-1\nISTIO_NAMESPACE=shop\nISTIO_SVC_IP=10.0.0.5\n"
           "POD_NAMESPACE=shop\nSERVICE_ACCOUNT=vm\nTRUST_DOMAIN=cluster.local\n" +
           std::string(change);
  }

  void write(const std::string& file, std::string_view text) {
    std::ofstream(directory_ + "/" + file) << text;
  }

  std::vector<std::string> read() {
    std::vector<std::string> lines;
    for (const auto& finding : add_istio_vm(directory_, machine_, config_))
      lines.push_back(finding.to_string());
    return lines;
  }

  const IstiodSource& source() const { return std::get<IstiodSource>(config_.sources.at(0)); }

  const std::string directory_ = testing::TempDir() + "istio_vm_test-" + std::to_string(getpid());
  Machine machine_{"vm-1", {*IpAddress::parse("10.0.0.6"), *IpAddress::parse("2001:db8::6")}};
  Config config_;
};

TEST_F(IstioVmTest, DescribesTheWorkload) {
  EXPECT_THAT(read(), IsEmpty());
  EXPECT_THAT(source().addresses, ElementsAre("192.0.2.10:15012"));
  EXPECT_EQ(source().server_name, "istiod-rev-1.istio-system.svc");
  EXPECT_EQ(source().ca_file, directory_ + "/root-cert.pem");
  EXPECT_EQ(source().token_file, directory_ + "/istio-token");
  const IstiodNode& node = source().node;
  EXPECT_THAT(node.addresses, ElementsAre(*IpAddress::parse("10.0.0.5")));
  EXPECT_EQ(node.name, "vm-1");
  EXPECT_EQ(node.ns, "shop");
  EXPECT_EQ(node.cluster, "east");
  EXPECT_EQ(node.network, "net-1");
  EXPECT_EQ(node.labels,
            (registry::Labels{{"app", "vm"}, {"service.istio.io/canonical-name", "vm"}}));
  EXPECT_EQ(config_.client.default_identity.ns, "shop");
}

// As istio-agent does.
TEST_F(IstioVmTest, TellsIstiodTheMetadataOfTheProxy) {
  write("cluster.env",
        environment("ISTIO_META_DNS_AUTO_ALLOCATE=\"true\"\nISTIO_META_=x\n"
                    "ISTIO_META_POD_PORTS='[{\"name\":\"http\",\"containerPort\":8080}]'\n"));
  EXPECT_THAT(read(), IsEmpty());
  EXPECT_EQ(source().node.metadata,
            (registry::Labels{{"CLUSTER_ID", "east"},
                              {"DNS_AUTO_ALLOCATE", "true"},
                              {"DNS_CAPTURE", "true"},
                              {"NETWORK", "net-1"},
                              {"POD_PORTS", R"([{"name":"http","containerPort":8080}])"}}));
}

TEST_F(IstioVmTest, TheNameOfIstiodsCertificateMayBeAnother) {
  for (const char* hosts : {"192.0.2.10 istiod-rev-1.istio-system.svc\n", ""}) {
    write("cluster.env", environment("ISTIOD_SAN=istiod.example.org\n"));
    write("hosts", hosts);
    read();
    EXPECT_EQ(source().server_name, "istiod.example.org");
    config_ = Config();
  }
}

TEST_F(IstioVmTest, ReadsFilesThatPeopleHaveEdited) {
  write("mesh.yaml", "# no settings of the proxy\ntrustDomain: cluster.local\n");
  write("hosts",
        "# added by hand\n\n127.0.0.1 localhost\n"
        "2001:db8::10\tIstiod.Istio-System.svc istiod # the gateway\n");
  EXPECT_THAT(read(), IsEmpty());
  EXPECT_THAT(source().addresses, ElementsAre("[2001:db8::10]:15012"));
  EXPECT_EQ(source().server_name, "istiod.istio-system.svc");
}

TEST_F(IstioVmTest, TakesFromTheMachineWhatTheFilesLeaveOpen) {
  write("cluster.env", "POD_NAMESPACE=shop\nISTIO_META_NETWORK=''\n");
  write("mesh.yaml", "defaultConfig: {}\n");
  write("hosts", "2001:db8::10 istiod.istio-system.svc\n");
  EXPECT_THAT(read(), IsEmpty());
  EXPECT_THAT(source().node.addresses, ElementsAre(*IpAddress::parse("10.0.0.6")));
  EXPECT_EQ(source().node.name, "vm-1");
  EXPECT_EQ(source().node.network, "");
  EXPECT_THAT(source().addresses, ElementsAre("[2001:db8::10]:15012"));
}

TEST_F(IstioVmTest, AnAddressOfTheUserWinsOverTheMachine) {
  write("cluster.env", environment("POD_NAME=vm-7\nISTIO_SVC_IP=2001:db8::7\n"));
  EXPECT_THAT(read(), IsEmpty());
  EXPECT_EQ(source().node.name, "vm-7");
  EXPECT_THAT(source().node.addresses, ElementsAre(*IpAddress::parse("2001:db8::7")));
}

TEST_F(IstioVmTest, WarnsWithoutAnAddressOfIstiod) {
  write("hosts", "");
  EXPECT_THAT(read(), ElementsAre(AllOf(HasSubstr("hosts: warning: has no address of istiod-rev-1"),
                                        HasSubstr("--ingressIP"))));
  EXPECT_THAT(source().addresses, ElementsAre("istiod-rev-1.istio-system.svc:15012"));
  EXPECT_EQ(source().server_name, "");
}

TEST_F(IstioVmTest, NamesEachMissingFile) {
  for (const char* file : {"cluster.env", "mesh.yaml", "root-cert.pem", "istio-token"}) {
    SetUp();
    std::filesystem::remove(directory_ + "/" + file);
    EXPECT_THAT(read(), ElementsAre(AllOf(HasSubstr(std::string(file) + ": error: No such file"),
                                          HasSubstr("istioctl x workload entry configure"))));
    write(file, "\n");
    EXPECT_THAT(read(), ElementsAre(HasSubstr(std::string(file) + ": error: is empty")));
    EXPECT_THAT(config_.sources, IsEmpty());
  }
}

TEST_F(IstioVmTest, SaysWhereAValueIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"POD_NAMESPACE=Shop\n", "cluster.env:14: error: POD_NAMESPACE: \"Shop\""},
      {"ISTIO_SVC_IP=ten\n", "cluster.env:14: error: ISTIO_SVC_IP: \"ten\""},
      {"POD_NAME='a~b'\n", "cluster.env:14: error: POD_NAME: \"a~b\""},
      {"ISTIO_METAJSON_LABELS='{'\n",
       "cluster.env:14: error: ISTIO_METAJSON_LABELS: is not a JSON"},
      {"ISTIO_METAJSON_LABELS='{\"a\":[1]}'\n", "the label \"a\" is not a text"},
      {"A=$B\n", "cluster.env:14: error: A: has an unquoted"},
  };
  for (const auto& [change, message] : cases) {
    write("cluster.env", environment(change));
    EXPECT_THAT(read(), ElementsAre(HasSubstr(message))) << change;
  }
  write("cluster.env", environment());
  write("mesh.yaml", "defaultConfig:\n  discoveryAddress: 'a b'\n");
  EXPECT_THAT(
      read(),
      ElementsAre(HasSubstr("mesh.yaml:2: error: defaultConfig.discoveryAddress: \"a b\" is not")));
  write("mesh.yaml", "a: [\n");
  EXPECT_THAT(read(), ElementsAre(HasSubstr("mesh.yaml:")));
}

TEST_F(IstioVmTest, NeedsAnAddressOfTheWorkload) {
  machine_.addresses.clear();
  write("cluster.env", "POD_NAMESPACE=shop\n");
  EXPECT_THAT(read(), ElementsAre(HasSubstr("cluster.env: error: ISTIO_SVC_IP: is missing")));
}

TEST_F(IstioVmTest, TheConfigurationFileWins) {
  config_.client.default_identity.ns = "bank";
  EXPECT_THAT(read(), IsEmpty());
  EXPECT_EQ(config_.client.default_identity.ns, "bank");
  EXPECT_THAT(read(), ElementsAre(HasSubstr("the configuration file has one, too")));
}

}  // namespace
}  // namespace meshdns::dnsd
