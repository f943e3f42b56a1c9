// SPDX-License-Identifier: Apache-2.0
// Near endpoints: random worlds of two clusters, two networks and three zones against a simple
// model of the rules in docs/kubernetes.md, "Near endpoints" and "Several clusters", and
// docs/networks.md.
#include "dnsd/answer/endpoint_answer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "registry/registry.hpp"
#include "registry/view/view.hpp"

namespace meshdns::dnsd {
namespace {

using registry::ClientIdentity;
using registry::Endpoint;
using registry::EndpointSlice;
using registry::KubeService;
using registry::LocalityChoice;
using registry::MeshSettings;
using registry::Registry;
using registry::ServiceEntry;
using registry::TrafficDistribution;
using registry::Transaction;
using registry::View;
using registry::WorkloadSpec;

struct PlacedEndpoint {
  std::string address;
  bool ready = true;
  std::string node = {};
  std::string region = {};  // of ServiceEntries only, as the next one
  std::string subzone = {};
  std::string zone = {};
  std::vector<std::string> hinted_zones = {};
  std::vector<std::string> hinted_nodes = {};
  std::string cluster = {};  // of slices only
  std::string network = {};
};

struct PlacedService {
  bool is_entry = false;
  TrafficDistribution distribution = TrafficDistribution::Unset;
  std::vector<PlacedEndpoint> endpoints = {};
};

struct ClientAt {
  std::string node;
  std::string region;
  std::string zone;
  std::string subzone;
  std::string cluster;
  std::string network;
};

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

// The rules in words of the page, without a part of the product.
class NearRules {
 public:
  NearRules(const PlacedService& service, const ClientAt& client)
      : service_(service), client_(client), endpoints_(service.endpoints) {
    // The client's own cluster first.
    const auto is_own = [&](const PlacedEndpoint& e) { return e.cluster == client.cluster; };
    if (!service.is_entry && std::ranges::any_of(endpoints_, [&](const PlacedEndpoint& e) {
          return e.ready && is_own(e);
        }))
      std::erase_if(endpoints_, [&](const PlacedEndpoint& e) { return !is_own(e); });
    has_zone_hints_ = all_ready([](const auto& e) { return !e.hinted_zones.empty(); });
    has_node_hints_ = all_ready([](const auto& e) { return !e.hinted_nodes.empty(); });
  }

  // The ready addresses of the family by their steps on the page, 1 to 5.
  std::map<int, std::set<std::string>> steps(bool v4) const {
    std::map<int, std::set<std::string>> found;
    for (const auto& endpoint : endpoints_)
      if (endpoint.ready && is_reached(endpoint) &&
          (endpoint.address.find(':') == std::string::npos) == v4)
        found[step_of(endpoint)].insert(endpoint.address);
    return found;
  }

 private:
  template <typename Has>
  bool all_ready(const Has& has) const {
    return std::ranges::all_of(endpoints_, [&](const auto& e) { return !e.ready || has(e); });
  }

  bool is_reached(const PlacedEndpoint& e) const {
    return client_.network.empty() || e.network.empty() || e.network == client_.network;
  }

  int step_of(const PlacedEndpoint& e) const {
    const bool by_node = service_.distribution == TrafficDistribution::SameNode;
    if (!by_node && service_.distribution != TrafficDistribution::SameZone && !has_zone_hints_)
      return 5;
    if (service_.distribution == TrafficDistribution::Any) return 5;
    if (by_node && !client_.node.empty() &&
        (has_node_hints_ ? contains(e.hinted_nodes, client_.node) : e.node == client_.node))
      return 1;
    if (has_zone_hints_)
      return !client_.zone.empty() && contains(e.hinted_zones, client_.zone) ? 3 : 5;
    const bool regions_differ =
        !e.region.empty() && !client_.region.empty() && e.region != client_.region;
    if (!client_.zone.empty() && e.zone == client_.zone && !regions_differ)
      return !client_.subzone.empty() && e.subzone == client_.subzone ? 2 : 3;
    return !client_.region.empty() && e.region == client_.region ? 4 : 5;
  }

  const PlacedService& service_;
  const ClientAt& client_;
  std::vector<PlacedEndpoint> endpoints_;  // those that may answer the client
  bool has_zone_hints_ = false;
  bool has_node_hints_ = false;
};

class PlacedWorlds {
 public:
  explicit PlacedWorlds(std::uint64_t seed) : random_(seed) {}

  PlacedService service() {
    PlacedService service;
    service.is_entry = below(3) == 0;
    service.distribution = static_cast<TrafficDistribution>(below(4));
    const bool has_hints = !service.is_entry && below(3) == 0;
    const std::string networks[] = {network(), network()};
    const std::size_t count = 2 + below(8);
    for (std::size_t i = 0; i < count; ++i)
      service.endpoints.push_back(endpoint(i, service.is_entry, has_hints, networks));
    return service;
  }
  ClientAt client() {
    return {one_of({"", "n1", "n2", "n9"}), region(), zone(), subzone(),
            one_of({"", "east", "west"}),   network()};
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  std::string one_of(const std::vector<std::string>& words) { return words[below(words.size())]; }
  std::string region() { return one_of({"", "r1", "r2"}); }
  std::string zone() { return one_of({"", "a", "b", "c"}); }
  std::string network() { return one_of({"", "net-1", "net-2"}); }
  std::string subzone() { return one_of({"", "", "s1"}); }
  std::vector<std::string> some_of(const std::vector<std::string>& words) {
    std::vector<std::string> some;
    for (const auto& word : words)
      if (below(2) == 0) some.push_back(word);
    if (some.empty() && below(10) != 0) some.push_back(words.front());
    return some;
  }

  // `networks`: those of the two clusters.
  PlacedEndpoint endpoint(std::size_t i, bool is_entry, bool has_hints,
                          const std::string (&networks)[2]) {
    PlacedEndpoint e;
    const std::string last = std::to_string(i + 1);
    e.address = below(3) == 0 ? "fd00::" + last : "10.0.0." + last;
    e.ready = is_entry || below(5) != 0;
    e.zone = zone();
    if (is_entry) {
      e.region = region();
      e.subzone = subzone();
      e.network = network();
      return e;
    }
    const std::size_t cluster = below(2);
    e.cluster = cluster == 0 ? "east" : "west";
    e.network = networks[cluster];
    e.node = one_of({"", "n1", "n2", "n3"});
    if (!has_hints) return e;
    e.hinted_zones = some_of({"a", "b"});
    e.hinted_nodes = some_of({"n1", "n2"});
    return e;
  }

  std::mt19937_64 random_;
};

// The Service of each cluster that has endpoints, and its slice.
void append_slices(const PlacedService& from, Transaction& transaction, const std::string& origin) {
  std::map<std::string, EndpointSlice> slices;
  for (const auto& e : from.endpoints) {
    EndpointSlice& slice = slices[e.cluster];
    slice.meta.ns = "shop";
    slice.meta.name = "db-1";
    slice.meta.cluster = e.cluster;
    slice.meta.network = e.network;
    slice.service = "db";
    if (slice.subsets.empty()) slice.subsets.emplace_back();
    Endpoint endpoint;
    endpoint.addresses = {*IpAddress::parse(e.address)};
    endpoint.ready = e.ready;
    endpoint.node_name = e.node;
    endpoint.zone = e.zone;
    endpoint.hinted_zones = e.hinted_zones;
    endpoint.hinted_nodes = e.hinted_nodes;
    slice.subsets.front().endpoints.push_back(std::move(endpoint));
  }
  for (const auto& [cluster, slice] : slices) {
    KubeService service;
    service.meta = slice.meta;
    service.meta.name = "db";
    service.headless = true;
    service.traffic_distribution = from.distribution;
    transaction.upsert(service, origin, 1);
    transaction.upsert(slice, origin, 1);
  }
}

void append_entry(const PlacedService& from, Transaction& transaction, const std::string& origin) {
  ServiceEntry entry;
  entry.meta.ns = "shop";
  entry.meta.name = "db";
  entry.hosts = {"db.shop.svc.cluster.local"};
  entry.resolution = registry::Resolution::Static;
  entry.traffic_distribution = from.distribution;
  for (const auto& e : from.endpoints) {
    WorkloadSpec spec;
    spec.address = e.address;
    spec.network = e.network;
    spec.locality = e.region + "/" + e.zone + "/" + e.subzone;
    entry.endpoints.push_back(std::move(spec));
  }
  transaction.upsert(entry, origin, 1);
}

std::string text_of(const std::array<std::uint8_t, 4>& octets) {
  return IpAddress::v4(octets).to_string();
}
std::string text_of(const std::array<std::uint8_t, 16>& octets) {
  return IpAddress::v6(octets).to_string();
}

// The addresses in the order of an answer.
template <typename Octets>
std::vector<std::string> answered(std::span<const Octets> addresses,
                                  const registry::AddressPlaces* places,
                                  std::span<const std::uint16_t> of_address, const View& view,
                                  RotationTable& rotation) {
  std::vector<std::string> order;
  if (places == nullptr) {
    for (const auto& octets : addresses) order.push_back(text_of(octets));
    return order;
  }
  const registry::NearOrder near(*places, of_address, view.client().place);
  for_each_by_nearness(
      near, addresses.size(), {}, view.settings().locality == LocalityChoice::Only,
      [&](registry::Nearness nearness) {
        return rotation.next(static_cast<std::uint64_t>(nearness));
      },
      [&](std::size_t place) {
        order.push_back(text_of(addresses[place]));
        return true;
      });
  return order;
}

void expect_order(const std::vector<std::string>& order,
                  const std::map<int, std::set<std::string>>& steps, LocalityChoice choice) {
  auto next = order.begin();
  for (const auto& [step, addresses] : steps) {
    ASSERT_LE(static_cast<std::ptrdiff_t>(addresses.size()), order.end() - next);
    const auto end = next + static_cast<std::ptrdiff_t>(addresses.size());
    ASSERT_EQ(std::set<std::string>(next, end), addresses) << "step " << step;
    next = end;
    if (choice == LocalityChoice::Only) break;
  }
  ASSERT_EQ(next, order.end());
}

// Networks count from the second one on.
void name_networks(Registry& registry) {
  Transaction transaction;
  for (const std::string network : {"net-1", "net-2"}) {
    registry::WorkloadEntry workload;
    workload.meta.ns = "shop";
    workload.meta.name = network;
    workload.spec.address = "10.99.0.1";
    workload.spec.network = network;
    transaction.upsert(workload, "networks.yaml", 1);
  }
  registry.commit(std::move(transaction));
}

int questions_per_choice() {
  if (const char* const text = std::getenv("MESHDNS_TEST_QUESTIONS")) return std::atoi(text) / 2;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 2'000;
#else
  return 20'000;
#endif
}

TEST(NearAnswerTest, AnswersOfRandomWorldsFollowTheRules) {
  constexpr int kClients = 10;
  PlacedWorlds worlds(20261126);
  RotationTable rotation(1);
  for (const LocalityChoice choice : {LocalityChoice::First, LocalityChoice::Only}) {
    MeshSettings settings;
    settings.locality = choice;
    Registry registry(settings);
    name_networks(registry);
    for (int asked = 0; asked < questions_per_choice(); asked += kClients) {
      const PlacedService service = worlds.service();
      Transaction transaction;
      const std::string origin = "world.yaml";
      transaction.replace_origin(origin);
      if (service.is_entry)
        append_entry(service, transaction, origin);
      else
        append_slices(service, transaction, origin);
      registry.commit(std::move(transaction));
      const auto snapshot = registry.current();
      for (int i = 0; i < kClients; ++i) {
        const ClientAt at = worlds.client();
        ClientIdentity identity;
        identity.ns = "shop";
        identity.node = at.node;
        identity.cluster = at.cluster;
        identity.network = at.network;
        identity.locality = {at.region, at.zone, at.subzone};
        const Ref<const registry::Client> client = registry.client_of(identity);
        const View view(*snapshot, *client);
        const registry::Match match = view.lookup("db.shop.svc.cluster.local");
        ASSERT_TRUE(match);
        const registry::AddressView all = view.addresses(*match.service);
        const auto* const places = all.places;
        const NearRules rules(service, at);
        const auto v4 = places == nullptr ? std::span<const std::uint16_t>() : places->v4;
        const auto v6 = places == nullptr ? std::span<const std::uint16_t>() : places->v6;
        expect_order(answered(all.v4, places, v4, view, rotation), rules.steps(true), choice);
        expect_order(answered(all.v6, places, v6, view, rotation), rules.steps(false), choice);
        ASSERT_FALSE(HasFatalFailure());
      }
    }
  }
}

// Each query goes through the addresses, so very many of them have no places.
TEST(NearAnswerTest, TreatsAllAddressesOfAVeryLargeServiceAlike) {
  MeshSettings settings;
  settings.locality = LocalityChoice::Only;
  for (const std::size_t count :
       {registry::AddressPlaces::kMaxAddresses, registry::AddressPlaces::kMaxAddresses + 1}) {
    PlacedService service;
    service.distribution = TrafficDistribution::SameZone;
    for (std::size_t i = 0; i < count; ++i)
      service.endpoints.push_back(
          {.address = "10.1." + std::to_string(i / 250) + "." + std::to_string(1 + i % 250),
           .zone = i % 2 == 0 ? "a" : "b"});
    Registry registry(settings);
    Transaction transaction;
    append_slices(service, transaction, "world.yaml");
    registry.commit(std::move(transaction));
    const auto snapshot = registry.current();
    const registry::HostEntry* const host = snapshot->find_host("db.shop.svc.cluster.local");
    ASSERT_NE(host, nullptr);
    const registry::AddressView all = host->records()[0]->addresses(nullptr, nullptr);
    ASSERT_EQ(all.v4.size(), count);
    EXPECT_EQ(all.places != nullptr, count == registry::AddressPlaces::kMaxAddresses);
  }
}

}  // namespace
}  // namespace meshdns::dnsd
