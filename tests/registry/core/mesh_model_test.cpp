// SPDX-License-Identifier: Apache-2.0
// Random worlds of entries, Services, Sidecars, namespaces and clients: the registry answers as the
// simple model of Istio's rules does.
//
// MESHDNS_WORLDS_QUESTIONS and MESHDNS_WORLDS_SEED set the number of questions and the seed.
#include "tests/registry/core/mesh_model.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <random>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

using model::Answer;
using model::Mesh;
using model::World;

long number_from_environment(const char* name, long otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atol(text);
}

// Sanitizers make each question ten times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long kWorldQuestions = 20'000;
#else
constexpr long kWorldQuestions = 1'000'000;
#endif
constexpr std::string_view kDnsEndpoints = "10.4.0.";  // of DNS_ROUND_ROBIN entries

constexpr std::uint16_t kWorldPorts[] = {80, 81, 443};

class WorldMaker {
 public:
  explicit WorldMaker(std::uint64_t seed) : random_(seed) {}

  World make() {
    World world;
    world.settings.default_export_to = pick<ExportTo>({{"*"}, {"*"}, {"."}, {"a", "."}});
    world.settings.endpoint_answers = !one_in(4);
    set_visibility(world.settings.service_entry_visibility);
    for (const std::string ns : {"a", "b", "c"})
      world.namespaces.push_back({meta("", ns, one_in(2) ? Labels{{"tier", "low"}} : Labels{})});
    for (std::size_t i = below(10) + 2; i-- > 0;) world.entries.push_back(entry(i));
    if (one_in(20)) add_crowd(world);
    for (const std::string ns : {"a", "b"})
      if (one_in(2)) world.services.push_back(service(ns));
    for (std::size_t i = 0; i < 6; ++i) world.workloads.push_back(workload(i));
    for (const std::string ns : {"a", "b", "c", "istio-system"})
      for (std::size_t i = below(3); i-- > 0;)
        world.sidecars.push_back(sidecar(ns, std::to_string(i)));
    return world;
  }

  // Replaces, removes or adds some objects.
  void change(World& world) {
    for (std::size_t i = below(3) + 1; i-- > 0;) {
      if (one_in(3)) {
        world.sidecars.clear();
        world.sidecars.push_back(sidecar(any_namespace(), "0"));
      } else if (one_in(3) && !world.entries.empty()) {
        world.entries.erase(world.entries.begin() +
                            static_cast<std::ptrdiff_t>(below(world.entries.size())));
      } else {
        ServiceEntry changed = entry(below(12));
        std::erase_if(world.entries, [&](const ServiceEntry& e) {
          return e.meta.name == changed.meta.name && e.meta.ns == changed.meta.ns;
        });
        world.entries.push_back(std::move(changed));
      }
    }
  }

  std::size_t below(std::size_t limit) { return random_() % limit; }

 private:
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <typename T>
  T pick(std::initializer_list<T> all) {
    return all.begin()[below(all.size())];
  }
  std::string any_namespace() { return pick<std::string>({"a", "b", "c"}); }

  static ObjectMeta meta(std::string ns, std::string name, Labels labels = {}) {
    ObjectMeta result;
    result.ns = std::move(ns);
    result.name = std::move(name);
    result.labels = std::move(labels);
    return result;
  }

  void set_visibility(ServiceEntryVisibility& visibility) {
    if (!one_in(4)) return;
    visibility.default_visibility =
        pick({Visibility::Public, Visibility::Public, Visibility::Namespace});
    if (one_in(2))
      visibility.policies.push_back({pick({Visibility::Namespace, Visibility::None}),
                                     {LabelSelector{{{"tier", "low"}}, {}}}});
  }

  ExportTo export_to() {
    return pick<ExportTo>({{}, {}, {"*"}, {"*"}, {"."}, {"~"}, {"a"}, {"b", "c"}, {".", "a"}});
  }

  // So many namespaces have one host that the registry makes an index of them.
  void add_crowd(World& world) {
    for (std::size_t i = 0; i < 50; ++i) {
      ServiceEntry member = entry(100 + i);
      member.meta.ns = "n" + std::to_string(below(40));
      member.hosts = {"api.example.org"};
      world.entries.push_back(std::move(member));
    }
  }

  // The same namespace and host often has several entries, which have other ports and exports.
  ServiceEntry entry(std::size_t number) {
    ServiceEntry entry;
    entry.meta = meta(any_namespace(), "e" + std::to_string(number));
    entry.meta.creation_time = static_cast<std::int64_t>(below(6));
    entry.hosts = {pick<std::string>({"api.example.org", "api.example.org", "x.wild.example.org",
                                      "*.wild.example.org", "*.example.org",
                                      "web.a.svc.cluster.local", "*.a.svc.cluster.local"})};
    if (one_in(3)) entry.hosts.emplace_back("db.example.org");
    entry.resolution = pick({Resolution::None, Resolution::Static, Resolution::Static,
                             Resolution::Static, Resolution::DnsRoundRobin});
    for (const std::uint16_t port : kWorldPorts)
      if (one_in(2)) entry.ports.push_back({port, 0, "p" + std::to_string(port), "TCP"});
    if (!one_in(3))
      for (std::size_t i = below(2) + 1; i-- > 0;) entry.addresses.push_back(address());
    set_endpoints(entry);
    entry.export_to = export_to();
    return entry;
  }

  IpPrefix address() {
    if (one_in(8)) return *IpPrefix::parse("10.50.0.0/16");
    if (one_in(6)) return *IpPrefix::parse("2001:db8::" + std::to_string(1 + below(9)));
    return *IpPrefix::parse("10.1.0." + std::to_string(1 + below(40)));
  }

  void set_endpoints(ServiceEntry& entry) {
    if (entry.resolution == Resolution::DnsRoundRobin) {
      std::erase_if(entry.addresses, [](const IpPrefix& prefix) { return !prefix.is_single(); });
      entry.endpoints.emplace_back().address =
          std::string(kDnsEndpoints) + std::to_string(1 + below(40));
      return;
    }
    if (one_in(3)) {
      entry.workload_selector =
          one_in(3) ? Labels{} : Labels{{"app", pick<std::string>({"x", "y"})}};
    } else if (entry.resolution == Resolution::Static) {
      for (std::size_t i = below(3); i-- > 0;)
        entry.endpoints.emplace_back().address = "10.2.0." + std::to_string(1 + below(40));
    }
    if (entry.resolution == Resolution::Static && entry.addresses.empty() && one_in(3)) {
      entry.status_addresses.push_back(
          {entry.hosts[0], *IpAddress::parse("240.240." + std::to_string(next_vip_ / 200) + "." +
                                             std::to_string(1 + next_vip_ % 200))});
      ++next_vip_;
      next_vip_ %= 40'000;
    }
  }

  KubeService service(const std::string& ns) {
    KubeService service;
    service.meta = meta(ns, "web");
    service.meta.creation_time = static_cast<std::int64_t>(below(6));
    service.cluster_ips = {*IpAddress::parse(ns == "a" ? "10.96.0.1" : "10.96.0.2")};
    for (const std::uint16_t number : kWorldPorts)
      if (one_in(2)) service.ports.push_back({number, 0, "p" + std::to_string(number), "TCP"});
    service.export_to = pick<ExportTo>({{}, {}, {"*"}, {"."}, {"b"}});
    return service;
  }

  WorkloadEntry workload(std::size_t number) {
    WorkloadEntry workload;
    workload.meta = meta(any_namespace(), "w" + std::to_string(number),
                         {{"app", pick<std::string>({"x", "y"})}});
    workload.spec.address = "10.3.0." + std::to_string(1 + number);
    return workload;
  }

  Sidecar sidecar(const std::string& ns, const std::string& name) {
    Sidecar sidecar;
    sidecar.meta = meta(ns, name);
    sidecar.meta.creation_time = static_cast<std::int64_t>(below(3));
    if (one_in(2)) sidecar.workload_selector = Labels{{"app", pick<std::string>({"x", "y"})}};
    if (one_in(6)) return sidecar;
    for (const std::uint16_t port : kWorldPorts)
      if (one_in(3))
        sidecar.egress.push_back({port, one_in(4) ? "HTTP_PROXY" : "TCP", egress_hosts()});
    if (sidecar.egress.empty() || one_in(2)) sidecar.egress.push_back({0, "", egress_hosts()});
    return sidecar;
  }

  std::vector<std::string> egress_hosts() {
    std::vector<std::string> hosts;
    for (std::size_t i = below(3) + 1; i-- > 0;) hosts.push_back(egress_host());
    return hosts;
  }
  std::string egress_host() {
    const bool excludes = one_in(4);
    std::string ns = pick<std::string>({"*", "*", ".", "a", "b", "c"});
    if (excludes && one_in(4)) ns = "";
    return (excludes ? "~" : "") + ns + "/" +
           pick<std::string>({"*", "*", "api.example.org", "*.example.org", "*.wild.example.org",
                              "x.wild.example.org", "web.a.svc.cluster.local",
                              "*.svc.cluster.local"});
  }

  std::mt19937_64 random_;
  int next_vip_ = 0;
};

const char* const kWorldNames[] = {"api.example.org",         "db.example.org",
                                   "x.wild.example.org",      "y.wild.example.org",
                                   "other.example.org",       "web.a.svc.cluster.local",
                                   "web.b.svc.cluster.local", "none.a.svc.cluster.local"};
const char* const kWorldParents[] = {"a.svc.cluster.local", "b.svc.cluster.local"};

// Counts differences by kind, and keeps the first one in full.
class Differences {
 public:
  void note(const std::string& kind, const std::string& text) {
    if (kinds_.empty()) first_ = text;
    ++kinds_[kind];
  }
  std::string text() const {
    std::string result;
    for (const auto& [kind, count] : kinds_) result += std::to_string(count) + " " + kind + "\n";
    return kinds_.empty() ? "" : result + "the first: " + first_;
  }

 private:
  std::map<std::string, int> kinds_;
  std::string first_;
};

// Asks the registry and the model the same questions about one world.
class Comparison {
 public:
  Comparison(const World& world, Registry& registry, Differences& differences)
      : mesh_(world), registry_(registry), differences_(differences) {}

  long run() {
    for (const std::string ns : {"a", "b", "c", "d"})
      for (const std::string app : {"", "x"}) {
        const model::Client client{ns, app.empty() ? Labels{} : Labels{{"app", app}}};
        ask_all(client);
      }
    return questions_;
  }

 private:
  void ask_all(const model::Client& client) {
    ClientIdentity identity;
    identity.ns = client.ns;
    identity.labels = client.labels;
    const auto snapshot = registry_.current();
    const Ref<const Client> visitor = registry_.client_of(identity);
    const View view(*snapshot, *visitor);
    std::map<std::string, std::set<std::string>> hosts_of;  // by address
    for (const char* name : kWorldNames) {
      const Answer expected = mesh_.ask(client, name);
      compare(client, name, expected, answer_of(view, name));
      for (const std::string& address : expected.addresses) hosts_of[address];
    }
    // No wildcard has a reverse name, and no endpoint of a DNS entry.
    for (const char* name : kWorldNames)
      if (mesh_.has_host(client, name))
        for (const std::string& address : mesh_.ask(client, name).addresses)
          if (!address.starts_with(kDnsEndpoints)) hosts_of[address].insert(name);
    for (int i = 1; i <= 40; i += 3) hosts_of["10.1.0." + std::to_string(i)];
    for (const auto& [address, hosts] : hosts_of) compare_reverse(client, view, address, hosts);
    for (const char* name : kWorldParents) compare_parent(client, view, name);
  }

  static Answer answer_of(const View& view, std::string_view name) {
    const Match match = view.lookup(name);
    Answer answer;
    answer.known = static_cast<bool>(match);
    if (!match) return answer;
    const AddressView addresses = view.addresses(*match.service);
    for (const auto& a : addresses.v4) answer.addresses.insert(IpAddress::v4(a).to_string());
    for (const auto& a : addresses.v6) answer.addresses.insert(IpAddress::v6(a).to_string());
    if (match.service->ports)
      answer.ports.insert(match.service->ports->numbers.begin(),
                          match.service->ports->numbers.end());
    return answer;
  }

  static std::string text_of(const Answer& answer) {
    if (!answer.known) return "unknown";
    std::string text = "known:";
    for (const auto& address : answer.addresses) text += " " + address;
    for (const auto port : answer.ports) text += " :" + std::to_string(port);
    return text;
  }

  static std::string place(const model::Client& client, std::string_view name) {
    return std::string(name) + " for " + client.ns + (client.labels.empty() ? "" : " (app x)");
  }

  void compare(const model::Client& client, std::string_view name, const Answer& expected,
               const Answer& found) {
    ++questions_;
    if (expected == found) return;
    const std::string text = place(client, name) + "\n  the model: " + text_of(expected) +
                             "\n  the registry: " + text_of(found);
    const bool gives_hidden = !std::ranges::includes(expected.addresses, found.addresses) ||
                              (found.known && !expected.known);
    const bool lacks_visible = !std::ranges::includes(found.addresses, expected.addresses) ||
                               (expected.known && !found.known);
    if (gives_hidden) differences_.note("answers give away something hidden", text);
    if (lacks_visible) differences_.note("answers lack something visible", text);
    if (!gives_hidden && !lacks_visible) differences_.note("answers have other ports", text);
  }

  void compare_reverse(const model::Client& client, const View& view, const std::string& address,
                       const std::set<std::string>& expected) {
    ++questions_;
    std::set<std::string> found;
    for (const auto& name : view.reverse(*IpAddress::parse(address))) found.insert(name.name);
    std::string text = place(client, address) + "\n  the model:";
    for (const auto& name : expected) text += " " + name;
    text += "\n  the registry:";
    for (const auto& name : found) text += " " + name;
    if (!std::ranges::includes(expected, found))
      differences_.note("reverse names give away something hidden", text);
    if (!std::ranges::includes(found, expected))
      differences_.note("reverse names lack something visible", text);
  }

  // A Sidecar may leave it open whether something lies below a name; then the name is there.
  void compare_parent(const model::Client& client, const View& view, std::string_view name) {
    ++questions_;
    const bool expected = mesh_.has_below(client, name);
    const bool found = view.is_empty_non_terminal(name);
    if (expected && !found)
      differences_.note("names above visible ones are denied", std::string(name));
    if (found && !expected && !mesh_.has_sidecar(client))
      differences_.note("names above hidden ones are there", std::string(name));
  }

  Mesh mesh_;
  Registry& registry_;
  Differences& differences_;
  long questions_ = 0;
};

template <typename T>
void append_objects(std::vector<Resource>& resources, const std::vector<T>& objects) {
  resources.insert(resources.end(), objects.begin(), objects.end());
}

void commit_world(Registry& registry, const World& world, WorldMaker& maker) {
  std::vector<Resource> resources;
  append_objects(resources, world.entries);
  append_objects(resources, world.services);
  append_objects(resources, world.workloads);
  append_objects(resources, world.sidecars);
  append_objects(resources, world.namespaces);
  for (std::size_t i = resources.size(); i > 1; --i)
    std::swap(resources[i - 1], resources[maker.below(i)]);
  const std::string origin = "world.yaml";
  Transaction transaction;
  transaction.replace_origin(origin);
  for (const Resource& resource : resources) transaction.upsert(resource, origin, 1);
  registry.commit(std::move(transaction));
}

TEST(MeshModelTest, AnswersOfRandomWorldsFollowIstiosRules) {
  const long wanted = number_from_environment("MESHDNS_WORLDS_QUESTIONS", kWorldQuestions);
  const long seed = number_from_environment("MESHDNS_WORLDS_SEED", 20260401);
  WorldMaker maker(static_cast<std::uint64_t>(seed));
  Differences differences;
  long questions = 0;
  long worlds = 0;
  while (questions < wanted) {
    World world = maker.make();
    Registry registry(world.settings);
    for (int round = 0; round < 6; ++round, ++worlds) {
      if (round != 0) maker.change(world);
      commit_world(registry, world, maker);
      questions += Comparison(world, registry, differences).run();
    }
  }
  std::printf("%ld questions about %ld worlds, seed %ld\n", questions, worlds, seed);
  EXPECT_EQ(differences.text(), "");
}

}  // namespace
}  // namespace meshdns::registry
