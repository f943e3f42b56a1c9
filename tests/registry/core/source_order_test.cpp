// SPDX-License-Identifier: Apache-2.0
// Sources that arrive in any order give the same answers (docs/istiod.md, "Several sources").
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

Resource table_name(const std::string& host, const std::string& ns, const char* address,
                    bool is_kubernetes = false) {
  NameTableEntry entry;
  entry.meta.name = host;
  entry.meta.ns = ns;
  entry.ips = {*IpAddress::parse(address)};
  entry.kubernetes = is_kubernetes;
  return entry;
}

std::string manifest_entry(const std::string& ns, const std::string& host,
                           const std::string& address) {
  return "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: " + host +
         ", namespace: " + ns + ", creationTimestamp: \"2024-01-01T00:00:00Z\"}\nspec: {hosts: [" +
         host + "], addresses: [" + address + "], resolution: STATIC}\n";
}

std::string manifest_service(const std::string& ns, const std::string& name,
                             const std::string& address) {
  return "---\napiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: " + ns +
         ", creationTimestamp: \"2024-01-01T00:00:00Z\"}\nspec: {clusterIP: " + address +
         ", ports: [{port: 80}]}\n";
}

// The same host is in several sources, each with an address of its own.
std::vector<std::pair<std::string, std::vector<Resource>>> all_sources() {
  const std::string pod =
      "Pod bank/web-1\nstatus: {phase: Running, podIP: 10.60.1.6, podIPs: [{ip: 10.60.1.6}]}\n";
  return {
      {"istiod:192.0.2.10:15012",
       {table_name("web.shop.svc.cluster.local", "shop", "10.1.0.1", true),
        table_name("own.example.org", "shop", "10.1.0.2"),
        table_name("other.example.org", "", "10.1.0.3"),
        table_name("both.example.org", "", "10.1.0.4")}},
      {"istiod:192.0.2.9:15012", {table_name("both.example.org", "", "10.2.0.4")}},
      {"kubernetes:in-cluster", parse(pod + manifest_service("shop", "web", "10.3.0.1"))},
      {"/etc/meshdns/resources/own.yaml",
       parse(manifest_entry("shop", "own.example.org", "10.4.0.2") +
             manifest_entry("bank", "other.example.org", "10.4.0.3") +
             manifest_entry("shop", "both.example.org", "10.4.0.4"))},
  };
}

std::string answers_of_all(const TestRegistry& registry) {
  std::string text;
  for (const char* name :
       {"web.shop.svc.cluster.local", "own.example.org", "other.example.org", "both.example.org"})
    text += registry.ask(name) + "; ";
  const Client* const pod = registry.snapshot().client_at(*IpAddress::parse("10.60.1.6"));
  return text + std::string(pod == nullptr ? "no client" : pod->ns->text());
}

void deliver(TestRegistry& registry, const std::string& origin,
             const std::vector<Resource>& resources) {
  Transaction transaction;
  for (const Resource& resource : resources) transaction.upsert(resource, origin, 1);
  transaction.replace_origin(origin);
  registry.registry().commit(std::move(transaction));
}

TEST(SourceOrderTest, AnyOrderOfArrivalGivesTheSameAnswers) {
  auto sources = all_sources();
  std::ranges::sort(sources, {}, &std::pair<std::string, std::vector<Resource>>::first);
  std::map<std::string, int> found;
  do {
    TestRegistry registry;
    ClientSettings clients;
    clients.default_identity.ns = "shop";
    clients.by_source_address = true;
    registry.registry().set_clients(clients);
    for (const auto& [origin, resources] : sources) deliver(registry, origin, resources);
    ++found[answers_of_all(registry)];
    // A source that goes away for a while and comes back changes nothing.
    deliver(registry, sources.front().first, {});
    deliver(registry, sources.front().first, sources.front().second);
    ++found[answers_of_all(registry)];
  } while (std::ranges::next_permutation(sources, {},
                                         &std::pair<std::string, std::vector<Resource>>::first)
               .found);
  // The Service, the name of istiod in the namespace, istiod before another namespace's entry, and
  // the client's own entry; and the Pod is the client.
  EXPECT_THAT(found, testing::ElementsAre(testing::Pair(
                         "exact vips 10.3.0.1; exact vips 10.1.0.2; exact vips 10.1.0.3; "
                         "exact vips 10.4.0.4; bank",
                         48)));
}

// Without the client's own entry, both istiods have an equal claim.
TEST(SourceOrderTest, TheSourceOfTheLeastNameHasTheSharedName) {
  for (const bool is_reversed : {false, true}) {
    auto sources = all_sources();
    sources.resize(2);
    if (is_reversed) std::ranges::reverse(sources);
    TestRegistry registry;
    registry.be_in("shop");
    for (const auto& [origin, resources] : sources) deliver(registry, origin, resources);
    EXPECT_EQ(registry.ask("both.example.org"), "exact vips 10.1.0.4") << is_reversed;
  }
}

}  // namespace
}  // namespace meshdns::registry
