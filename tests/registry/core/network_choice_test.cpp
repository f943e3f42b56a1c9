// SPDX-License-Identifier: Apache-2.0
// Endpoints and clients of several networks, with and without gateways: random worlds against a
// simple model of the rules in docs/networks.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "registry/model/labels.hpp"
#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

using Addresses = std::set<std::string>;

// MESHDNS_NETWORK_QUESTIONS=100000 makes this test long.  Sanitizers make each question ten times
// slower.
long network_questions() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr long kUsual = 1'000;
#else
  constexpr long kUsual = 12'000;
#endif
  const char* const text = std::getenv("MESHDNS_NETWORK_QUESTIONS");
  return text == nullptr ? kUsual : std::atol(text);
}

constexpr const char* kClientNetworks[] = {"", "n1", "n2", "n3", "n4"};
constexpr std::string_view kMembersHost = "db.shop.svc.cluster.local";
constexpr std::string_view kEntryHost = "api.example.org";

struct WorldEndpoint {
  std::string cluster;
  std::string address;
  bool ready = true;
  std::string source_network;  // of the object that has it
  std::string label;           // of its Pod, or of the endpoint
  std::string field;           // WorkloadEntry and inline endpoints
  bool is_workload = false;    // a selected WorkloadEntry
};
struct WorldGateway {
  std::string cluster;
  std::string name;
  std::string label;
  std::vector<std::string> addresses;
};
struct NetworkWorld {
  std::map<std::string, std::string> of_cluster;  // the label of the root namespace
  MeshNetworks mesh_networks;
  std::vector<WorldEndpoint> members;
  std::vector<WorldEndpoint> endpoints;
  std::vector<WorldGateway> gateways;
};

// --- the rules ----------------------------------------------------------------------------------

std::string modelled_network(const NetworkWorld& world, const WorldEndpoint& endpoint) {
  for (const std::string& own : {endpoint.field, endpoint.label, endpoint.source_network})
    if (!own.empty()) return own;
  if (const auto known = world.of_cluster.find(endpoint.cluster);
      known != world.of_cluster.end() && !known->second.empty())
    return known->second;
  for (const auto& network : world.mesh_networks)
    for (const auto& registry : network.registries)
      if (registry == endpoint.cluster) return network.name;
  // The prefixes of these worlds are all of one length.
  for (const auto& network : world.mesh_networks)
    for (const auto& prefix : network.prefixes)
      if (prefix.contains(*IpAddress::parse(endpoint.address))) return network.name;
  return "";
}

Addresses modelled_gateways(const NetworkWorld& world, const std::string& network,
                            const std::string& cluster) {
  Addresses own;
  Addresses all;
  const auto add = [&](const std::string& of_cluster, const std::string& address) {
    all.insert(address);
    if (of_cluster == cluster) own.insert(address);
  };
  for (const auto& mesh_network : world.mesh_networks)
    if (mesh_network.name == network)
      for (const auto& address : mesh_network.gateways) add("-", address.to_string());
  for (const auto& gateway : world.gateways) {
    bool is_of_network = gateway.label == network;
    if (gateway.label.empty())
      for (const auto& mesh_network : world.mesh_networks)
        for (const auto& service : mesh_network.gateway_services)
          if (mesh_network.name == network &&
              service == gateway.name + ".gateways.svc.cluster.local" &&
              std::ranges::count(mesh_network.registries, gateway.cluster) != 0)
            is_of_network = true;
    if (is_of_network)
      for (const auto& address : gateway.addresses) add(gateway.cluster, address);
  }
  return own.empty() ? all : own;
}

Addresses modelled_answer(const NetworkWorld& world, const std::vector<WorldEndpoint>& endpoints,
                          const std::string& client, NetworkChoice choice) {
  Addresses answer;
  for (const auto& endpoint : endpoints) {
    if (!endpoint.ready) continue;
    const std::string network = modelled_network(world, endpoint);
    if (choice == NetworkChoice::Off || client.empty() || network.empty() || client == network)
      answer.insert(endpoint.address);
    else if (choice == NetworkChoice::Gateways)
      answer.merge(modelled_gateways(world, network, endpoint.cluster));
  }
  return answer;
}

// --- the worlds ---------------------------------------------------------------------------------

class NetworkWorlds {
 public:
  explicit NetworkWorlds(std::uint64_t seed) : random_(seed) {}

  NetworkWorld make() {
    NetworkWorld world;
    for (const std::string cluster : {"a", "b"}) {
      if (below(2) == 0) world.of_cluster[cluster] = network();
      const std::string source = below(3) == 0 ? network() : "";
      const std::string net = cluster == "a" ? "1" : "2";
      for (std::size_t i = below(4); i > 0; --i) {
        world.members.push_back(endpoint(cluster, "10." + net + ".0." + std::to_string(i), source));
        world.members.back().field = "";
      }
      for (std::size_t i = below(3); i > 0; --i) {
        world.endpoints.push_back(
            endpoint(cluster, "10." + net + ".1." + std::to_string(i), source));
        world.endpoints.back().is_workload = true;
      }
      if (below(2) == 0) world.gateways.push_back(gateway(cluster, net));
    }
    const std::string source = below(3) == 0 ? network() : "";
    for (std::size_t i = below(3); i > 0; --i) {
      world.endpoints.push_back(endpoint("a", "10.1.2." + std::to_string(i), source));
      world.endpoints.back().ready = true;
    }
    if (below(2) == 0) world.mesh_networks = mesh_networks();
    return world;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  std::string network() { return "n" + std::to_string(1 + below(3)); }
  std::string maybe_network() { return below(3) == 0 ? network() : ""; }

  WorldEndpoint endpoint(const std::string& cluster, const std::string& address,
                         const std::string& source) {
    return {cluster, address, below(4) != 0, source, maybe_network(), maybe_network()};
  }
  WorldGateway gateway(const std::string& cluster, const std::string& net) {
    WorldGateway gateway{cluster, "gw", below(2) == 0 ? network() : "", {}};
    for (std::size_t i = below(3); i > 0; --i)
      gateway.addresses.push_back("192.0.2." + net + std::to_string(i));
    return gateway;
  }
  MeshNetworks mesh_networks() {
    MeshNetworks networks;
    for (const std::string name : {"n1", "n2", "n3"}) {
      if (below(3) == 0) continue;
      MeshNetwork& network = networks.emplace_back();
      network.name = name;
      for (const std::string cluster : {"a", "b"})
        if (below(3) == 0) network.registries.push_back(cluster);
      if (below(2) == 0)
        network.prefixes.push_back(*IpPrefix::parse("10." + std::to_string(1 + below(2)) + "." +
                                                    std::to_string(below(3)) + ".0/24"));
      if (below(2) == 0)
        network.gateways.push_back(*IpAddress::parse("198.51.100." + std::to_string(1 + below(3))));
      if (below(2) == 0) network.gateway_services.push_back("gw.gateways.svc.cluster.local");
    }
    return networks;
  }

  std::mt19937_64 random_;
};

// --- the worlds as resources --------------------------------------------------------------------

ObjectMeta meta_in(std::string ns, std::string name, std::string cluster) {
  ObjectMeta meta;
  meta.ns = std::move(ns);
  meta.name = std::move(name);
  meta.cluster = std::move(cluster);
  return meta;
}

void add_member(const WorldEndpoint& member, std::size_t index, std::vector<Resource>& to) {
  const std::string name = "db-" + std::to_string(index);
  if (!member.label.empty()) {
    Pod pod;
    pod.meta = meta_in("shop", name, member.cluster);
    pod.meta.labels = {{std::string(kNetworkLabel), member.label}};
    pod.meta.network = member.label;
    pod.ips = {*IpAddress::parse(member.address)};
    to.emplace_back(pod);
  }
  EndpointSlice slice;
  slice.meta = meta_in("shop", name, member.cluster);
  slice.meta.network = member.source_network;
  slice.service = "db";
  auto& subset = slice.subsets.emplace_back();
  subset.ports.push_back({80, 0, "http", "TCP"});
  Endpoint endpoint;
  endpoint.addresses = {*IpAddress::parse(member.address)};
  endpoint.ready = member.ready;
  endpoint.target_name = name;
  subset.endpoints.push_back(endpoint);
  to.emplace_back(slice);
}

WorkloadSpec spec_of(const WorldEndpoint& endpoint) {
  WorkloadSpec spec;
  spec.address = endpoint.address;
  // As the readers of manifests join them.
  spec.network = endpoint.field.empty() ? endpoint.label : endpoint.field;
  return spec;
}

void add_entry(const NetworkWorld& world, std::vector<Resource>& to) {
  ServiceEntry entry;
  entry.meta = meta_in("shop", "api", "a");
  entry.hosts = {std::string(kEntryHost)};
  entry.ports.push_back({80, 0, "http", "HTTP"});
  entry.resolution = Resolution::Static;
  entry.workload_selector = Labels{{"app", "api"}};
  std::size_t index = 0;
  for (const auto& endpoint : world.endpoints) {
    if (!endpoint.is_workload) {
      entry.endpoints.push_back(spec_of(endpoint));
      entry.meta.network = endpoint.source_network;
      continue;
    }
    WorkloadEntry workload;
    workload.meta = meta_in("shop", "api-" + std::to_string(++index), endpoint.cluster);
    workload.meta.labels = {{"app", "api"}};
    workload.meta.network = endpoint.source_network;
    workload.spec = spec_of(endpoint);
    workload.healthy = endpoint.ready;
    to.emplace_back(workload);
  }
  to.emplace_back(entry);
}

std::vector<Resource> resources_of(const NetworkWorld& world) {
  std::vector<Resource> resources;
  for (const std::string cluster : {"a", "b"}) {
    KubeService service;
    service.meta = meta_in("shop", "db", cluster);
    service.headless = true;
    service.ports.push_back({80, 0, "http", "TCP"});
    resources.emplace_back(service);
  }
  for (std::size_t i = 0; i < world.members.size(); ++i) add_member(world.members[i], i, resources);
  add_entry(world, resources);
  for (const auto& [cluster, network] : world.of_cluster) {
    Namespace root;
    root.meta = meta_in("", "istio-system", cluster);
    root.meta.labels = {{std::string(kNetworkLabel), network}};
    resources.emplace_back(root);
  }
  for (const auto& gateway : world.gateways) {
    KubeService service;
    service.meta = meta_in("gateways", gateway.name, gateway.cluster);
    if (!gateway.label.empty()) service.meta.labels = {{std::string(kNetworkLabel), gateway.label}};
    service.cluster_ips = {*IpAddress::parse("10.96.0.9")};
    for (const auto& address : gateway.addresses)
      service.external_addresses.push_back(*IpAddress::parse(address));
    resources.emplace_back(service);
  }
  MeshConfig config;
  config.meta = meta_in("istio-system", "istio", "a");
  config.networks = world.mesh_networks;
  resources.emplace_back(config);
  return resources;
}

void replace_all(Registry& registry, const std::vector<Resource>& resources) {
  const std::string origin = "world.yaml";
  Transaction transaction;
  transaction.replace_origin(origin);
  for (const Resource& resource : resources) transaction.upsert(resource, origin, 1);
  registry.commit(std::move(transaction));
}

// Networks are told apart once two of them are known.
void name_networks(Registry& registry) {
  WorkloadEntry workload;
  workload.meta = meta_in("elsewhere", "vm", "a");
  workload.spec.address = "10.9.0.1";
  Transaction transaction;
  for (const std::string network : {"n1", "n2"}) {
    workload.meta.name = network;
    workload.spec.network = network;
    transaction.upsert(workload, "elsewhere.yaml", 1);
  }
  registry.commit(std::move(transaction));
}

Addresses addresses_at(const View& view, std::string_view host) {
  const Match match = view.lookup(host);
  Addresses addresses;
  if (!match) return addresses;
  for (const auto& octets : view.addresses(*match.service).v4)
    addresses.insert(IpAddress::v4(octets).to_string());
  return addresses;
}

// The answers for single endpoints, together.
Addresses addresses_of_each(const View& view, std::string_view host) {
  const Match match = view.lookup(host);
  Addresses addresses;
  if (!match || match.service->endpoints() == nullptr) return addresses;
  for (const EndpointEntry& entry : match.service->endpoints()->entries) {
    if (!entry.ready) continue;
    if (view.reaches(entry)) addresses.insert(entry.address.to_string());
    for (const auto& gateway : view.gateways_to(entry))
      addresses.insert(gateway.address.to_string());
  }
  return addresses;
}

TEST(NetworkChoiceTest, AnswersOfRandomWorldsFollowTheRules) {
  NetworkWorlds worlds(20261126);
  const long wanted = network_questions();
  long questions = 0;
  while (questions < wanted)
    for (const auto choice :
         {NetworkChoice::Off, NetworkChoice::Reachable, NetworkChoice::Gateways}) {
      MeshSettings settings;
      settings.networks = choice;
      Registry registry(settings);
      name_networks(registry);
      for (int change = 0; change < 4; ++change) {
        const NetworkWorld world = worlds.make();
        replace_all(registry, resources_of(world));
        for (const std::string network : kClientNetworks) {
          ClientIdentity identity;
          identity.ns = "shop";
          identity.network = network;
          const auto snapshot = registry.current();
          const Ref<const Client> client = registry.client_of(identity);
          const View view(*snapshot, *client);
          const auto members = modelled_answer(world, world.members, network, choice);
          ASSERT_EQ(addresses_at(view, kMembersHost), members)
              << "network " << network << ", choice " << static_cast<int>(choice) << ", question "
              << questions;
          ASSERT_EQ(addresses_of_each(view, kMembersHost), members)
              << "network " << network << ", choice " << static_cast<int>(choice);
          ASSERT_EQ(addresses_at(view, kEntryHost),
                    modelled_answer(world, world.endpoints, network, choice))
              << "network " << network << ", choice " << static_cast<int>(choice) << ", question "
              << questions;
          questions += 3;
        }
      }
    }
  RecordProperty("questions", std::to_string(questions));
}

// --- single rules -------------------------------------------------------------------------------

ServiceEntry entry_in(const std::vector<std::pair<std::string, std::string>>& endpoints) {
  ServiceEntry entry;
  entry.meta = meta_in("shop", "api", "");
  entry.hosts = {std::string(kEntryHost)};
  entry.resolution = Resolution::Static;
  for (const auto& [address, network] : endpoints) {
    WorkloadSpec& spec = entry.endpoints.emplace_back();
    spec.address = address;
    spec.network = network;
  }
  return entry;
}

const ServiceRecord& record_at(const TestRegistry& registry) {
  return *registry.snapshot().find_host(kEntryHost)->records()[0];
}

TEST(NetworkChoiceTest, AMeshOfOneNetworkKeepsNoCopies) {
  TestRegistry registry;
  registry.add({entry_in({{"10.1.0.1", "n1"}})});
  EXPECT_TRUE(record_at(registry).has_single_v4);
  EXPECT_FALSE(registry.snapshot().gateways);
  ClientIdentity client;
  client.network = "n1";
  registry.be(client);
  EXPECT_TRUE(record_at(registry).has_single_v4);
  EXPECT_EQ(registry.ask(kEntryHost), "exact endpoints 10.1.0.1");
  // The first client of another network tells them apart.
  client.network = "n2";
  registry.be(client);
  EXPECT_FALSE(record_at(registry).has_single_v4);
  EXPECT_EQ(registry.ask(kEntryHost), "exact endpoints");
}

TEST(NetworkChoiceTest, GatewaysHaveTheWeightOfTheEndpointsBehindThem) {
  MeshSettings settings;
  settings.networks = NetworkChoice::Gateways;
  settings.mesh_networks = {
      {.name = "n2",
       .registries = {},
       .prefixes = {},
       .gateways = {*IpAddress::parse("192.0.2.1"), *IpAddress::parse("192.0.2.2")},
       .gateway_services = {}}};
  TestRegistry registry(settings);
  ServiceEntry entry =
      entry_in({{"10.1.0.1", "n1"}, {"10.2.0.1", "n2"}, {"10.2.0.2", "n2"}, {"10.2.0.3", "n2"}});
  entry.endpoints[1].weight = 4;
  ClientIdentity client;
  client.network = "n1";
  registry.be(client);
  registry.add({entry});
  EXPECT_EQ(registry.ask(kEntryHost), "exact endpoints 10.1.0.1 192.0.2.1 192.0.2.2");
  const View view = registry.view();
  const AddressView addresses = view.addresses(record_at(registry));
  EXPECT_EQ(std::vector(addresses.v4_weights.begin(), addresses.v4_weights.end()),
            (std::vector<std::uint32_t>{1, 3, 3}));
}

TEST(NetworkChoiceTest, WithStrictClaimsOnlyGatewaysOfTheRootNamespaceCountByTheirLabel) {
  for (const Claims claims : {Claims::Istio, Claims::Strict}) {
    MeshSettings settings;
    settings.networks = NetworkChoice::Gateways;
    settings.claims = claims;
    TestRegistry registry(settings);
    ClientIdentity client;
    client.network = "n1";
    registry.be(client);
    KubeService service;
    service.meta = meta_in("istio-system", "gw", "");
    service.meta.labels = {{std::string(kNetworkLabel), "n2"}};
    service.external_addresses = {*IpAddress::parse("192.0.2.1")};
    KubeService tenant = service;
    tenant.meta.ns = "tenant";
    tenant.external_addresses = {*IpAddress::parse("192.0.2.66")};
    Gateway remote;
    remote.meta = service.meta;
    remote.remote_addresses = {*IpAddress::parse("192.0.2.2")};
    Gateway remote_of_tenant;
    remote_of_tenant.meta = tenant.meta;
    remote_of_tenant.remote_addresses = {*IpAddress::parse("192.0.2.67")};
    registry.add({service, tenant, remote, remote_of_tenant, entry_in({{"10.2.0.1", "n2"}})});
    EXPECT_EQ(registry.ask(kEntryHost),
              claims == Claims::Istio ? "exact endpoints 192.0.2.1 192.0.2.2 192.0.2.66 192.0.2.67"
                                      : "exact endpoints 192.0.2.1 192.0.2.2");
  }
}

TEST(NetworkChoiceTest, AnEndpointThatIsNotReachedHasNoReverseName) {
  TestRegistry registry;
  name_networks(registry.registry());
  std::vector<Resource> resources = resources_of({});
  for (const std::string network : {"n1", "n2"}) {
    EndpointSlice slice;
    slice.meta = meta_in("shop", "db-" + network, "a");
    slice.meta.network = network;
    slice.service = "db";
    auto& subset = slice.subsets.emplace_back();
    subset.ports.push_back({80, 0, "http", "TCP"});
    Endpoint& endpoint = subset.endpoints.emplace_back();
    endpoint.addresses = {*IpAddress::parse(network == "n1" ? "10.1.0.1" : "10.2.0.1")};
    endpoint.hostname = "in-" + network;
    resources.emplace_back(slice);
  }
  registry.add(resources);
  ClientIdentity client;
  client.network = "n1";
  registry.be(client);
  const View view = registry.view();
  const auto reached = view.reverse(*IpAddress::parse("10.1.0.1"));
  ASSERT_EQ(reached.size(), 1U);
  EXPECT_EQ(reached[0].name, "in-n1.db.shop.svc.cluster.local");
  EXPECT_TRUE(view.reverse(*IpAddress::parse("10.2.0.1")).empty());
}

TEST(NetworkChoiceTest, OfPrefixesTheWidestCounts) {
  const auto of_prefix = [](std::string name, const char* prefix) {
    MeshNetwork network;
    network.name = std::move(name);
    network.prefixes = {*IpPrefix::parse(prefix)};
    return network;
  };
  const MeshNetworks networks = {of_prefix("narrow", "10.1.0.0/16"),
                                 of_prefix("wide", "10.0.0.0/8")};
  EXPECT_EQ(network_of(networks, "", *IpAddress::parse("10.1.0.1")), "wide");
  EXPECT_EQ(network_of(networks, "", *IpAddress::parse("192.0.2.1")), "");
}

}  // namespace
}  // namespace meshdns::registry
