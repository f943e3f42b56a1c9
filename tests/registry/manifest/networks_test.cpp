// SPDX-License-Identifier: Apache-2.0
// The label that names networks, MeshNetworks, and the external addresses of Services.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/registry/manifest/collector.hpp"

namespace meshdns::registry {
namespace {

std::string with_networks(const std::string& networks) {
  return "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: istio, namespace: istio-system }\n"
         "data:\n  meshNetworks: |\n" +
         indent(networks, 4);
}

TEST(NetworksManifestTest, MeshNetworksHaveEndpointsAndGateways) {
  const Collected collected = read(with_networks(R"(networks:
  west:
    endpoints: [{ fromRegistry: west }, { fromCidr: 10.2.0.0/16 }, { from_cidr: "2001:db8::/32" }]
    gateways:
    - { registryServiceName: GW.istio-system.svc.cluster.local, port: 15443, locality: a/b }
    - { address: 192.0.2.2, port: 15443 }
  east: {}
  none:)"));
  EXPECT_EQ(collected.all(), "");
  const MeshNetworks networks = only<MeshConfig>(collected).networks;
  const MeshNetwork west{
      .name = "west",
      .registries = {"west"},
      .prefixes = {*IpPrefix::parse("10.2.0.0/16"), *IpPrefix::parse("2001:db8::/32")},
      .gateways = {*IpAddress::parse("192.0.2.2")},
      .gateway_services = {"gw.istio-system.svc.cluster.local"}};
  MeshNetwork east;
  east.name = "east";
  MeshNetwork none;
  none.name = "none";
  EXPECT_EQ(networks, (MeshNetworks{east, none, west}));
}

TEST(NetworksManifestTest, AGatewayWithAHostNameIsLeftOutWithAWarning) {
  const Collected collected =
      read(with_networks("networks: { a: { gateways: [{ address: gw.example.org }] } }"));
  EXPECT_TRUE(collected.says("\"gw.example.org\" is no IP address"));
  EXPECT_TRUE(only<MeshConfig>(collected).networks.front().gateways.empty());
}

TEST(NetworksManifestTest, HaveAtMostSoManyPrefixes) {
  std::string text = "networks:\n  a:\n    endpoints:\n";
  for (int i = 0; i < 1'025; ++i)
    text +=
        "    - fromCidr: 10." + std::to_string(i / 256) + "." + std::to_string(i % 256) + ".0/24\n";
  EXPECT_TRUE(read(with_networks(text)).says("more than 1024 prefixes"));
}

TEST(NetworksManifestTest, TheLabelOfAPodWinsOverTheSource) {
  const ManifestOptions options{.path = "test.yaml", .cluster = {}, .network = "source"};
  const std::string pod = "{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {";
  EXPECT_EQ(only<Pod>(read(pod + "topology.istio.io/network: n1}}}", options)).meta.network, "n1");
  EXPECT_EQ(only<Pod>(read(pod + "app: a}}}", options)).meta.network, "source");
}

TEST(NetworksManifestTest, AServiceHasTheAddressesOfItsLoadBalancer) {
  const auto addresses = [](const std::string& type) {
    const KubeService service = only<KubeService>(read(
        "apiVersion: v1\nkind: Service\nmetadata: { name: gw }\nspec: { type: " + type +
        ", clusterIP: 10.96.0.1, externalIPs: [192.0.2.2], ports: [{ port: 443 }] }\n"
        "status: { loadBalancer: { ingress: [{ ip: 192.0.2.1 }, { hostname: gw.example.org }] } "
        "}\n"));
    std::string text;
    for (const IpAddress& address : service.external_addresses) text += address.to_string() + " ";
    return text;
  };
  EXPECT_EQ(addresses("LoadBalancer"), "192.0.2.1 192.0.2.2 ");
  EXPECT_EQ(addresses("ClusterIP"), "192.0.2.2 ");
}

}  // namespace
}  // namespace meshdns::registry
