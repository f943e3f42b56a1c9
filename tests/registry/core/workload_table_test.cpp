// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/workload_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/fewer.hpp"
#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

class WorkloadTableTest : public testing::Test {
 protected:
  void add(const std::string& name, const Labels& labels, bool is_pod = false) {
    const Resource resource = workload(name, labels, is_pod);
    StoredRef& stored = workloads_[name];
    stored = StoredResource::encode(resource, 0, 0);
    table_.add(ns_, stored, resource);
  }
  void remove(const std::string& name) {
    const StoredRef stored = workloads_.at(name);
    workloads_.erase(name);
    table_.remove(ns_, stored, stored->decode());
  }
  void add_selector(const std::string& name, const Labels& selector) {
    entries_[name] = StoredResource::encode(ServiceEntry{}, 0, 0);
    table_.add_selector(ns_, *entries_[name], selector, {name});
  }
  void remove_selector(const std::string& name, const Labels& selector) {
    table_.remove_selector(ns_, *entries_[name], selector);
  }
  std::vector<std::string> selected(const Labels& selector) const {
    std::vector<std::string> names;
    table_.for_each_selected(ns_, selector,
                             [&](const Resource& r) { names.push_back(meta_of(r).name); });
    return names;
  }
  std::vector<std::string> selecting(const Labels& labels) const {
    std::vector<std::string> hosts;
    table_.for_each_selecting(ns_, workload("any", labels, true),
                              [&](std::string_view host) { hosts.emplace_back(host); });
    std::ranges::sort(hosts);
    return hosts;
  }

  WorkloadTable table_;
  const SymbolRef ns_{new Symbol("shop")};

 private:
  static Resource workload(const std::string& name, const Labels& labels, bool is_pod) {
    Resource resource = is_pod ? Resource(Pod{}) : Resource(WorkloadEntry{});
    meta_of(resource).name = name;
    meta_of(resource).ns = "shop";
    meta_of(resource).labels = labels;
    return resource;
  }
  std::map<std::string, StoredRef> workloads_;
  std::map<std::string, StoredRef> entries_;
};

using Names = std::vector<std::string>;

TEST_F(WorkloadTableTest, SelectsWorkloadsThatHaveAllLabels) {
  add("a", {{"app", "web"}, {"env", "prod"}});
  add("b", {{"app", "web"}, {"env", "test"}});
  add_selector("web.example.org", {{"app", "web"}, {"env", "prod"}});
  EXPECT_EQ(selected({{"app", "web"}, {"env", "prod"}}), Names{"a"});
  EXPECT_EQ(selected({{"app", "web"}}), (Names{"a", "b"}));
  EXPECT_EQ(selected({{"app", "db"}}), Names{});
  remove("a");
  EXPECT_EQ(selected({{"app", "web"}, {"env", "prod"}}), Names{});
}

TEST_F(WorkloadTableTest, SortsPodsFirstThenByName) {
  add("d", {{"app", "web"}});
  add("b", {{"app", "web"}});
  add("c", {{"app", "web"}}, true);
  add_selector("web.example.org", {{"app", "web"}});
  add("a", {{"app", "web"}});
  EXPECT_EQ(selected({{"app", "web"}}), (Names{"c", "a", "b", "d"}));
}

TEST_F(WorkloadTableTest, EmptySelectorSelectsAllWorkloads) {
  add("a", {});
  add_selector("all.example.org", {});
  add("b", {{"app", "web"}});
  EXPECT_EQ(selected({}), (Names{"a", "b"}));
  EXPECT_EQ(selecting({}), Names{"all.example.org"});
  remove_selector("all.example.org", {});
  EXPECT_EQ(selecting({}), Names{});
}

TEST_F(WorkloadTableTest, FindsTheHostsThatSelectAWorkload) {
  add_selector("web.example.org", {{"app", "web"}, {"env", "prod"}});
  add_selector("prod.example.org", {{"env", "prod"}});
  add_selector("db.example.org", {{"app", "db"}, {"env", "prod"}});
  EXPECT_EQ(selecting({{"app", "web"}, {"env", "prod"}, {"tier", "1"}}),
            (Names{"prod.example.org", "web.example.org"}));
  EXPECT_EQ(selecting({{"app", "web"}}), Names{});
  remove_selector("web.example.org", {{"app", "web"}, {"env", "prod"}});
  EXPECT_EQ(selecting({{"app", "web"}, {"env", "prod"}}), Names{"prod.example.org"});
}

TEST_F(WorkloadTableTest, ForgetsEmptyNamespaces) {
  add("a", {{"app", "web"}});
  add_selector("web.example.org", {{"app", "web"}});
  remove("a");
  EXPECT_EQ(table_.namespaces(), 1U);
  remove_selector("web.example.org", {{"app", "web"}});
  EXPECT_EQ(table_.namespaces(), 0U);
}

// --- The registry with it -----------------------------------------------------------------------

WorkloadEntry workload_entry(std::string name, Labels labels, std::string address) {
  WorkloadEntry workload;
  workload.meta.name = std::move(name);
  workload.meta.ns = "vms";
  workload.meta.labels = std::move(labels);
  workload.spec.address = std::move(address);
  return workload;
}

ServiceEntry selecting_entry(const std::string& name, Labels selector) {
  ServiceEntry entry;
  entry.meta.name = name;
  entry.meta.ns = "vms";
  entry.hosts = {name + ".example.org"};
  entry.resolution = Resolution::Static;
  entry.ports.push_back({80, 80, "http", "HTTP"});
  entry.workload_selector = std::move(selector);
  return entry;
}

TEST(WorkloadSelectorTest, AnEditDerivesOnlyTheHostsThatSelectTheWorkload) {
  TestRegistry r;
  std::vector<Resource> resources;
  for (int i = 0; i < 50; ++i) {
    const std::string app = "app-" + std::to_string(i);
    resources.emplace_back(selecting_entry(app, {{"app", app}, {"env", "prod"}}));
    resources.emplace_back(workload_entry("vm-" + std::to_string(i),
                                          {{"app", app}, {"env", "prod"}},
                                          "10.0.0." + std::to_string(i + 1)));
  }
  resources.emplace_back(workload_entry("other", {{"env", "prod"}}, "10.0.1.1"));
  r.add(resources);
  EXPECT_EQ(r.add({workload_entry("other", {{"env", "prod"}}, "10.0.1.2")}).changed_hosts, 0U);
  EXPECT_EQ(r.add({workload_entry("vm-7", {{"app", "app-7"}, {"env", "prod"}}, "10.0.1.3")})
                .changed_hosts,
            1U);
  EXPECT_EQ(r.ask("app-7.example.org"), "exact endpoints 10.0.1.3");
  // New labels: the hosts of the old and of the new ones.
  EXPECT_EQ(r.add({workload_entry("vm-7", {{"app", "app-8"}, {"env", "prod"}}, "10.0.1.3")})
                .changed_hosts,
            2U);
  EXPECT_EQ(r.ask("app-7.example.org"), "exact forward");
  EXPECT_EQ(r.ask("app-8.example.org"), "exact endpoints 10.0.1.3 10.0.0.9");
}

// All records with all that depends on workloads, in the order in which answers have it.
std::string records_of(TestRegistry& registry) {
  std::vector<std::string> lines;
  const auto note = [&](const HostEntry& host) {
    for (const ServiceRecord* record : host.records()) {
      std::string line = std::string(host.host()) + " " + std::string(record->ns->text()) + " " +
                         std::string(to_string(record->answer));
      const AddressView addresses = record->addresses(nullptr, nullptr);
      for (const auto& octets : addresses.v4) line += " " + IpAddress::v4(octets).to_string();
      if (const EndpointList* endpoints = record->endpoints())
        for (const auto& e : endpoints->entries)
          line += " [" + e.address.to_string() + " " + e.pod_name + (e.ready ? " ready" : "") +
                  " " + std::to_string(e.weight) + "]";
      lines.push_back(line + "\n");
    }
  };
  registry.registry().current()->hosts.for_each(note);
  std::ranges::sort(lines);
  std::string text;
  for (const auto& line : lines) text += line;
  return text;
}

// Random workloads and selectors: few names, keys and values, so that all meet.
class RandomMesh {
 public:
  explicit RandomMesh(unsigned seed) : random_(seed) {}
  unsigned pick(unsigned n) { return static_cast<unsigned>(random_()) % n; }
  std::string word(std::string_view stem, unsigned n) {
    return std::string(stem) + std::to_string(pick(n));
  }
  Labels labels(unsigned at_most) {
    std::map<std::string, std::string> labels;
    for (unsigned i = pick(at_most + 1); i > 0; --i) labels[word("k", 3)] = word("v", 3);
    return {labels.begin(), labels.end()};
  }
  Resource resource() {
    switch (pick(5)) {
      case 0:
      case 1:
        return workload_entry();
      case 2:
      case 3:
        return pod();
      default:
        return service_entry();
    }
  }

 private:
  Resource workload_entry() {
    WorkloadEntry workload;
    workload.meta.name = word("w", 20);
    workload.meta.ns = word("ns", 3);
    workload.meta.labels = labels(2);
    workload.spec.labels = labels(2);
    workload.spec.address = "10.0.0." + std::to_string(1 + pick(50));
    workload.spec.weight = pick(3);
    workload.healthy = pick(4) != 0;
    return workload;
  }
  Resource pod() {
    Pod pod;
    pod.meta.name = word("w", 20);
    pod.meta.ns = word("ns", 3);
    pod.meta.cluster = pick(4) == 0 ? "east" : "";
    pod.meta.labels = labels(3);
    pod.running = pick(5) != 0;
    pod.ready = pick(4) != 0;
    pod.ips.push_back(IpAddress::v4({10, 1, 0, static_cast<std::uint8_t>(1 + pick(50))}));
    return pod;
  }
  Resource service_entry() {
    ServiceEntry entry;
    entry.meta.name = word("e", 12);
    entry.meta.ns = word("ns", 3);
    for (unsigned i = 1 + pick(2); i > 0; --i) entry.hosts.push_back(word("h", 6) + ".example.org");
    entry.resolution = pick(4) == 0 ? Resolution::None : Resolution::Static;
    entry.ports.push_back({80, 80, "http", "HTTP"});
    if (pick(6) != 0) entry.workload_selector = labels(2);
    return entry;
  }
  std::mt19937 random_;
};

TEST(WorkloadSelectorTest, IncrementalResultEqualsARegistryBuiltAnew) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    RandomMesh mesh(seed);
    TestRegistry r;
    std::map<ResourceKey, Resource> live;
    for (int step = 0; step < test::fewer(300); ++step) {
      for (unsigned i = 1 + mesh.pick(3); i > 0; --i) {
        if (mesh.pick(4) == 0 && !live.empty()) {
          const auto gone = std::next(live.begin(), mesh.pick(static_cast<unsigned>(live.size())));
          r.remove(gone->first);
          live.erase(gone);
          continue;
        }
        const Resource changed = mesh.resource();
        live.insert_or_assign(key_of(changed), changed);
        r.add({changed});
      }
      if (step % 5 != 0) continue;
      TestRegistry anew;
      std::vector<Resource> resources;
      for (const auto& [key, resource] : live) resources.push_back(resource);
      anew.add(resources);
      ASSERT_EQ(records_of(r), records_of(anew)) << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace meshdns::registry
