// SPDX-License-Identifier: Apache-2.0
// The client of a source address: the rules, and their independence of the order of arrival.
#include "registry/tables/address_speaker.hpp"

#include <algorithm>
#include <random>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

const IpAddress kSharedAddress = *IpAddress::parse("10.4.0.7");

enum class PodPhase : std::uint8_t { Running, Leaving, Over };

Pod pod_at_address(std::string ns, std::string name, PodPhase phase, std::int64_t created = 0,
                   bool host_network = false) {
  Pod p;
  p.meta.ns = std::move(ns);
  p.meta.name = std::move(name);
  p.meta.creation_time = created;
  p.ips = {kSharedAddress};
  p.running = phase == PodPhase::Running;
  p.leaving = phase == PodPhase::Leaving;
  p.host_network = host_network;
  return p;
}

WorkloadEntry workload_at_address(std::string ns, std::string name, std::int64_t created = 0) {
  WorkloadEntry w;
  w.meta.ns = std::move(ns);
  w.meta.name = std::move(name);
  w.meta.creation_time = created;
  w.spec.address = kSharedAddress.to_string();
  return w;
}

std::string speaker_of(const std::vector<Resource>& objects,
                       const std::vector<std::string>& allowed) {
  const AddressSpeaker found = choose_speaker(objects, allowed);
  EXPECT_FALSE(found.why.empty());
  return found.object == nullptr ? "nobody" : key_of(*found.object).to_string();
}

TEST(AddressSpeakerTest, FollowsTheRules) {
  struct Case {
    std::string property;
    std::vector<Resource> objects;
    std::vector<std::string> allowed;
    std::string speaker;
  };
  const std::vector<Case> cases = {
      {"nothing", {}, {"*"}, "nobody"},
      {"a running Pod", {pod_at_address("a", "p", PodPhase::Running)}, {}, "Pod a/p"},
      {"a terminating Pod keeps its address",
       {pod_at_address("a", "p", PodPhase::Leaving)},
       {},
       "Pod a/p"},
      {"a finished Pod does not", {pod_at_address("a", "p", PodPhase::Over)}, {}, "nobody"},
      {"a running Pod takes over from a terminating one",
       {pod_at_address("a", "p", PodPhase::Leaving, 9),
        pod_at_address("b", "q", PodPhase::Running, 1)},
       {},
       "Pod b/q"},
      {"of two terminating Pods the younger has the address",
       {pod_at_address("a", "p", PodPhase::Leaving, 1),
        pod_at_address("b", "q", PodPhase::Leaving, 2),
        pod_at_address("c", "r", PodPhase::Leaving, 1)},
       {},
       "Pod b/q"},
      {"the youngest of three has it, however old the others are",
       {pod_at_address("a", "p", PodPhase::Leaving, 1),
        pod_at_address("b", "q", PodPhase::Leaving, 1),
        pod_at_address("c", "r", PodPhase::Leaving, 2)},
       {},
       "Pod c/r"},
      {"two equally young ones leave it open",
       {pod_at_address("a", "p", PodPhase::Leaving, 2),
        pod_at_address("b", "q", PodPhase::Leaving, 2)},
       {},
       "nobody"},
      {"two running Pods leave it open",
       {pod_at_address("a", "p", PodPhase::Running), pod_at_address("a", "q", PodPhase::Running)},
       {},
       "nobody"},
      {"a Pod of the host network has its node's address",
       {pod_at_address("a", "p", PodPhase::Running, 0, true)},
       {"*"},
       "nobody"},
      {"a node's address is not a Pod's, either",
       {pod_at_address("a", "p", PodPhase::Running),
        pod_at_address("b", "q", PodPhase::Leaving, 0, true)},
       {},
       "nobody"},
      {"a WorkloadEntry of a listed namespace",
       {workload_at_address("vm", "w")},
       {"x", "vm"},
       "WorkloadEntry vm/w"},
      {"a WorkloadEntry of any namespace",
       {workload_at_address("vm", "w")},
       {"*"},
       "WorkloadEntry vm/w"},
      {"a WorkloadEntry of another namespace",
       {workload_at_address("evil", "w")},
       {"vm"},
       "nobody"},
      {"no list", {workload_at_address("vm", "w")}, {}, "nobody"},
      {"a namespace that begins alike", {workload_at_address("vm2", "w")}, {"vm"}, "nobody"},
      {"a Pod comes before an older WorkloadEntry",
       {workload_at_address("vm", "w", 1), pod_at_address("a", "p", PodPhase::Running, 9)},
       {"*"},
       "Pod a/p"},
      {"a terminating Pod, too",
       {workload_at_address("vm", "w", 1), pod_at_address("a", "p", PodPhase::Leaving, 9)},
       {"*"},
       "Pod a/p"},
      {"after a finished Pod the address is free",
       {workload_at_address("vm", "w", 1), pod_at_address("a", "p", PodPhase::Over, 9)},
       {"*"},
       "WorkloadEntry vm/w"},
      {"a terminating Pod of the host network keeps its node's address",
       {pod_at_address("a", "p", PodPhase::Leaving, 2, true),
        pod_at_address("b", "q", PodPhase::Leaving, 9)},
       {"*"},
       "nobody"},
      {"after a finished Pod of the host network it is still a node's",
       {workload_at_address("vm", "w", 1), pod_at_address("a", "p", PodPhase::Over, 9, true)},
       {"*"},
       "nobody"},
      {"two running Pods do not let a WorkloadEntry speak",
       {pod_at_address("a", "p", PodPhase::Running), pod_at_address("b", "q", PodPhase::Running),
        workload_at_address("vm", "w")},
       {"*"},
       "nobody"},
      {"the oldest of several WorkloadEntries",
       {workload_at_address("vm", "b", 5), workload_at_address("vm", "a", 5),
        workload_at_address("vm2", "c", 9)},
       {"*"},
       "WorkloadEntry vm/a"},
      {"the oldest that is allowed",
       {workload_at_address("evil", "old", 1), workload_at_address("vm", "new", 5)},
       {"vm"},
       "WorkloadEntry vm/new"},
  };
  for (const auto& c : cases) EXPECT_EQ(speaker_of(c.objects, c.allowed), c.speaker) << c.property;
}

TEST(AddressSpeakerTest, TheOrderOfTheObjectsDoesNotMatter) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<Resource> objects;
    for (unsigned i = static_cast<unsigned>(random()) % 6; i > 0; --i) {
      const std::string ns(1, static_cast<char>('a' + random() % 3));
      const std::string name = "o" + std::to_string(i);
      const std::int64_t created = random() % 3;
      if (random() % 2 == 0)
        objects.emplace_back(workload_at_address(ns, name, created));
      else
        objects.emplace_back(pod_at_address(ns, name, static_cast<PodPhase>(random() % 3), created,
                                            random() % 8 == 0));
    }
    const std::vector<std::string> allowed = {"a", "b"};
    const std::string expected = speaker_of(objects, allowed);
    for (int i = 0; i < 10; ++i) {
      std::ranges::shuffle(objects, random);
      ASSERT_EQ(speaker_of(objects, allowed), expected) << "round " << round;
    }
  }
}

class IdentityTest : public testing::Test {
 protected:
  IdentityTest() { allow({}); }
  void allow(std::vector<std::string> namespaces) {
    registry_.registry().set_clients(
        {ClientIdentity(), true, UnknownClient::Refuse, std::move(namespaces)});
  }
  std::string who(std::string_view address = "10.4.0.7") {
    const Client* client = registry_.registry().current()->client_at(*IpAddress::parse(address));
    return client == nullptr ? "nobody" : client->identity.description;
  }
  std::string why() {
    const auto* entry = registry_.registry().current()->client_entry_at(kSharedAddress);
    return entry == nullptr ? "" : entry->why;
  }
  static std::string pod_text(std::string_view name, std::string_view ns, std::string_view phase,
                              std::string_view ip = "10.4.0.7", bool deleted = false) {
    return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + std::string(name) +
           ", namespace: " + std::string(ns) +
           (deleted ? ", deletionTimestamp: \"2026-01-01T00:00:00Z\"" : "") +
           "}\nspec: {}\nstatus: {phase: " + std::string(phase) + ", podIP: \"" + std::string(ip) +
           "\"}\n---\n";
  }
  TestRegistry registry_;
};

TEST_F(IdentityTest, ATerminatingPodKeepsItsAddressUntilARunningOneHasIt) {
  registry_.load(pod_text("web-1", "shop", "Running"));
  EXPECT_EQ(who(), "Pod shop/web-1");
  registry_.load(pod_text("web-1", "shop", "Running", "10.4.0.7", true));
  EXPECT_EQ(who(), "Pod shop/web-1");
  EXPECT_NE(why().find("until it is gone"), std::string::npos) << why();
  registry_.load(pod_text("other", "bank", "Running"));
  EXPECT_EQ(who(), "Pod bank/other");
  registry_.remove({Kind::Pod, "", "bank", "other"});
  EXPECT_EQ(who(), "Pod shop/web-1");
  registry_.remove({Kind::Pod, "", "shop", "web-1"});
  EXPECT_EQ(who(), "nobody");
}

TEST_F(IdentityTest, APodOfPhaseUnknownKeepsItsAddressAndAFinishedOneDoesNot) {
  registry_.load(pod_text("web-1", "shop", "Unknown"));
  EXPECT_EQ(who(), "Pod shop/web-1");
  for (const std::string_view phase : {"Succeeded", "Failed"}) {
    registry_.load(pod_text("web-1", "shop", phase));
    EXPECT_EQ(who(), "nobody") << phase;
    registry_.load(pod_text("web-1", "shop", phase, "10.4.0.7", true));
    EXPECT_EQ(who(), "nobody") << phase << ", terminating";
  }
}

TEST_F(IdentityTest, ATerminatingPodIsNoEndpointAndHasNoPodName) {
  registry_.load(pod_text("web-1", "shop", "Running"));
  EXPECT_TRUE(registry_.view().pod_exists(kSharedAddress, "shop"));
  registry_.load(pod_text("web-1", "shop", "Running", "10.4.0.7", true));
  EXPECT_FALSE(registry_.view().pod_exists(kSharedAddress, "shop"));
}

TEST_F(IdentityTest, WorkloadEntriesIdentifyClientsOnlyInListedNamespaces) {
  const std::string entry = "WorkloadEntry evil/w\nspec: {address: 10.4.0.7}\n---\n";
  registry_.load(entry);
  EXPECT_EQ(who(), "nobody");
  EXPECT_NE(why().find("client.workload_entry_namespaces"), std::string::npos) << why();
  allow({"evil"});
  EXPECT_EQ(who(), "WorkloadEntry evil/w");
  registry_.load(pod_text("web-1", "shop", "Running", "10.4.0.7", true));
  EXPECT_EQ(who(), "Pod shop/web-1") << "not for the address of a Pod that terminates";
}

TEST_F(IdentityTest, MappedAddressesAreIpv4) {
  registry_.load(pod_text("web-1", "shop", "Running", "::ffff:10.4.0.7"));
  EXPECT_EQ(who("10.4.0.7"), "Pod shop/web-1");
  EXPECT_EQ(who("::ffff:10.4.0.7"), "Pod shop/web-1");
  EXPECT_EQ(who("::10.4.0.7"), "nobody");
}

// The registry's answer is a function of the objects that are there.
TEST_F(IdentityTest, DoesNotDependOnHistory) {
  std::mt19937 random(11);
  std::map<std::string, Resource> objects;
  allow({"a", "b"});
  for (int step = 0; step < 400; ++step) {
    const std::string ns(1, static_cast<char>('a' + random() % 3));
    const std::string name = "o" + std::to_string(random() % 4);
    Resource object =
        random() % 2 == 0
            ? Resource(workload_at_address(ns, name, random() % 3))
            : Resource(pod_at_address(ns, name, static_cast<PodPhase>(random() % 3), random() % 3));
    const ResourceKey key = key_of(object);
    if (objects.contains(key.to_string()) && random() % 2 == 0) {
      objects.erase(key.to_string());
      registry_.remove(key);
    } else {
      objects[key.to_string()] = object;
      registry_.add({object});
    }
    std::vector<Resource> all;
    for (const auto& [text, resource] : objects) all.push_back(resource);
    const AddressSpeaker expected = choose_speaker(all, {"a", "b"});
    ASSERT_EQ(who(), expected.object == nullptr ? "nobody" : key_of(*expected.object).to_string())
        << "step " << step;
  }
}

}  // namespace
}  // namespace meshdns::registry
