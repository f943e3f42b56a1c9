// SPDX-License-Identifier: Apache-2.0
// Objects of other namespaces that are not chosen change neither the answer to a question nor its
// reasons, nor whether the kernel gives it, and cost a constant at most.  The model of Istio's
// rules tells what is chosen.
//
// MESHDNS_OTHERS_QUESTIONS and MESHDNS_OTHERS_SEED set the number of questions and the seed.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "dnsd/answer/alias_chain.hpp"
#include "dnsd/answer/decision.hpp"
#include "dnsd/answer/local_resolution.hpp"
#include "dnsd/query/query_handler.hpp"
#include "registry/registry.hpp"
#include "registry/view/view.hpp"
#include "resolver/wire/upstream_query.hpp"
#include "tests/dnsd/kernel/fake_kernel.hpp"
#include "tests/dnsd/query/fake_parts.hpp"
#include "tests/registry/core/mesh_model.hpp"

namespace meshdns::dnsd {
namespace {

using registry::Claims;
using registry::ClientIdentity;
using registry::EndpointSlice;
using registry::KubeService;
using registry::Pod;
using registry::Registry;
using registry::Resolution;
using registry::ServiceEntry;
using registry::Sidecar;
using registry::Transaction;
using registry::View;
using registry::model::Mesh;
using registry::model::World;

// Work that the objects of other namespaces may add: to the looks at the hosts of a query, and to a
// walk over the hosts of an address, of which View::kMaxReverseHosts that the client sees and as
// many others are looked at.
constexpr std::size_t kConstant = 400;
constexpr std::size_t kConstantOfAddress = 2'800;

long others_number(const char* name, long otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atol(text);
}

const char* const kClientNamespaces[] = {"bank", "shop", "other", "evil"};

// Hosts that a crowd may have.
const char* const kCrowdHosts[] = {"db.bank.svc.cluster.local",
                                   "web.shop.svc.cluster.local",
                                   "set.bank.svc.cluster.local",
                                   "x.set.bank.svc.cluster.local",
                                   "api.partner.example",
                                   "old.partner.example",
                                   "*.partner.example",
                                   "db.bank",
                                   "db.bank.svc",
                                   "db.bank.shop.svc.cluster.local",
                                   "x.set.bank.shop.svc.cluster.local",
                                   "api.partner.example.bank.svc.cluster.local",
                                   "*.bank.svc.cluster.local",
                                   "*.shop.svc.cluster.local",
                                   "_http._tcp.db.bank.svc.cluster.local"};

struct Question {
  std::string name;
  wire::Type type = wire::Type::A;
};
const Question kQuestions[] = {{"db.bank.svc.cluster.local"},
                               {"db.bank"},
                               {"db.bank.svc"},
                               {"db"},
                               {"web"},
                               {"web.shop.svc.cluster.local"},
                               {"web.shop.svc.cluster.local", wire::Type::Aaaa},
                               {"db.bank.shop.svc.cluster.local"},
                               {"db.bank.svc.cluster.local.shop.svc.cluster.local"},
                               {"db.bank.svc.cluster.local.bank.svc.cluster.local"},
                               {"db.shop.svc.cluster.local"},
                               {"set.bank.svc.cluster.local"},
                               {"x.set.bank.svc.cluster.local"},
                               {"x.set.bank"},
                               {"x.set.bank.shop.svc.cluster.local"},
                               {"_http._tcp.set.bank.svc.cluster.local", wire::Type::Srv},
                               {"_http._tcp.db.bank.svc.cluster.local", wire::Type::Srv},
                               {"api.partner.example"},
                               {"old.partner.example"},
                               {"any.partner.example"},
                               {"api.partner.example.bank.svc.cluster.local"},
                               {"api.partner.example.svc.cluster.local"},
                               {"_http._tcp.api.partner.example", wire::Type::Srv},
                               {"1.0.96.10.in-addr.arpa", wire::Type::Ptr},
                               {"1.3.0.10.in-addr.arpa", wire::Type::Ptr},
                               {"10.2.0.192.in-addr.arpa", wire::Type::Ptr},
                               {"11.2.0.192.in-addr.arpa", wire::Type::Ptr},
                               {"12.2.0.192.in-addr.arpa", wire::Type::Ptr},
                               {"1.100.51.198.in-addr.arpa", wire::Type::Ptr}};

class OthersWorld {
 public:
  explicit OthersWorld(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t limit) { return random_() % limit; }
  bool one_in(std::size_t n) { return below(n) == 0; }

  World world() {
    crowded_.clear();
    slices_ = {members_of("bank", "set", "x", "10.0.3.1")};
    World world;
    world.settings.claims = one_in(2) ? Claims::Istio : Claims::Strict;
    world.services.push_back(service("bank", "db", "10.96.0.1"));
    world.services.push_back(service("shop", "web", "10.96.0.2"));
    world.services.push_back(service("bank", "set", ""));
    if (!one_in(3)) world.entries.push_back(entry("bank", "own", "api.partner.example", 10));
    world.entries.push_back(entry("shop", "old", "old.partner.example", 11));
    if (one_in(2)) world.entries.push_back(entry("shop", "all", "*.partner.example", 12));
    if (one_in(3)) world.sidecars.push_back(sidecar());
    return world;
  }

  void add_something(World& world, const std::string& ns) {
    const std::size_t kind = below(12);
    const std::string exported = std::array{".", "nobody", "*"}[below(3)];
    if (kind == 0)
      add_claims(world, ns, 256, exported);
    else if (kind == 2)  // of many namespaces, none of which has many
      for (std::size_t i = 0; i < 40; ++i)
        add_claims(world, ns + "-" + std::to_string(i), 8, one_in(2) ? "." : "nobody");
    else if (kind == 1)
      add_headless(world, ns);
    else
      add_crowd(world, ns);
  }

  // Entries of one host of `ns`, each a part of its own; younger than all others.
  void add_crowd(World& world, const std::string& ns) {
    const std::string host = kCrowdHosts[below(std::size(kCrowdHosts))];
    crowded_.insert(host);
    const std::size_t count = one_in(12) ? 1'000 : 1 + below(40);
    const std::size_t kind = below(4);
    for (std::size_t i = 0; i < count; ++i) {
      ServiceEntry member = entry(ns, "c" + host + std::to_string(i), host, 10 + below(4));
      member.meta.creation_time = 1'000'000 + static_cast<std::int64_t>(i);
      member.ports[0].number = static_cast<std::uint16_t>(1 + i);
      if (kind == 1) member.export_to = {"."};
      if (kind == 2) member.export_to = {i % 2 == 0 ? "nobody" : "*"};
      if (kind == 3) member.export_to = {"n" + std::to_string(i), "*"};
      world.entries.push_back(std::move(member));
    }
  }

  // Headless Services with the addresses of others, which their endpoints have: hidden, or with
  // strict claims refused.
  void add_headless(World& world, const std::string& ns) {
    for (std::size_t i = 0; i < 150; ++i) {
      const std::string name = "s" + std::to_string(i);
      KubeService crowd = service(ns, name, "");
      if (world.settings.claims == Claims::Istio || one_in(2)) crowd.export_to = {"."};
      world.services.push_back(crowd);
      for (const char* const address : {"192.0.2.10", "192.0.2.11", "198.51.100.1"})
        slices_.push_back(members_of(ns, name, "", address));
    }
  }

  const std::vector<EndpointSlice>& slices() const { return slices_; }
  const std::set<std::string>& crowded() const { return crowded_; }

  // Entries of so many hosts with the addresses of others: hidden, or a Sidecar may hide them.
  void add_claims(World& world, const std::string& ns, std::size_t count,
                  const std::string& exported) {
    if (exported == "*") crowded_.insert("h0." + ns + ".example");
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = "h" + std::to_string(i);
      ServiceEntry member = entry(ns, name, name + "." + ns + ".example", 10);
      member.export_to = {exported};
      for (const char* const other :
           {"192.0.2.11", "192.0.2.12", "198.51.100.1", "10.96.0.1", "10.0.3.1"})
        member.addresses.push_back(*IpPrefix::parse(other));
      world.entries.push_back(std::move(member));
    }
  }

 private:
  // Half of them have a listener for each of some ports; those of crowds are 1 to 1,000.
  Sidecar sidecar() {
    Sidecar sidecar;
    sidecar.meta.name = "default";
    sidecar.meta.ns = kClientNamespaces[below(3)];
    if (one_in(2))
      for (const std::size_t port : {std::size_t{80}, std::size_t{443}, 1 + below(40)})
        if (!one_in(3))
          sidecar.egress.push_back(
              {static_cast<std::uint16_t>(port), one_in(6) ? "HTTP_PROXY" : "TCP", egress_hosts()});
    if (sidecar.egress.empty() || one_in(2)) sidecar.egress.push_back({0, "", egress_hosts()});
    return sidecar;
  }
  std::vector<std::string> egress_hosts() {
    static const char* const kEgressHosts[] = {
        "*/*", "*/*", "./*", "bank/*", "shop/*", "*/*.partner.example", "*/api.partner.example"};
    std::vector<std::string> hosts = {kEgressHosts[below(std::size(kEgressHosts))]};
    if (one_in(3)) hosts.emplace_back(kEgressHosts[below(std::size(kEgressHosts))]);
    if (one_in(4)) hosts.emplace_back("~evil/*");
    return hosts;
  }

  static KubeService service(const std::string& ns, const std::string& name,
                             const std::string& address) {
    KubeService service;
    service.meta.ns = ns;
    service.meta.name = name;
    service.headless = address.empty();
    if (!address.empty()) service.cluster_ips.push_back(*IpAddress::parse(address));
    service.ports.push_back({80, 0, "http", "TCP"});
    return service;
  }
  static ServiceEntry entry(const std::string& ns, const std::string& name, const std::string& host,
                            std::size_t address) {
    ServiceEntry entry;
    entry.meta.ns = ns;
    entry.meta.name = name;
    entry.meta.creation_time = 1;
    entry.hosts = {host};
    entry.ports.push_back({80, 0, "http", "TCP"});
    entry.addresses.push_back(*IpPrefix::parse("192.0.2." + std::to_string(address)));
    entry.resolution = Resolution::Static;
    return entry;
  }

  static EndpointSlice members_of(const std::string& ns, const std::string& name,
                                  const std::string& hostname, const std::string& address) {
    EndpointSlice slice;
    slice.meta.ns = ns;
    slice.meta.name = name + "-" + address;
    slice.service = name;
    registry::EndpointSubset& subset = slice.subsets.emplace_back();
    subset.ports.push_back({80, 0, "http", "TCP"});
    registry::Endpoint& member = subset.endpoints.emplace_back();
    member.addresses.push_back(*IpAddress::parse(address));
    member.hostname = hostname;
    if (!hostname.empty()) member.target_name = name + "-0";
    return slice;
  }

  std::set<std::string> crowded_;
  std::vector<EndpointSlice> slices_;
  std::mt19937_64 random_;
};

std::string address_in(const std::string& ns) {
  const auto* const at = std::ranges::find(kClientNamespaces, ns);
  return "10.9.0." + std::to_string(1 + (at - std::begin(kClientNamespaces)));
}

void commit_others_world(Registry& registry, const World& world,
                         const std::vector<EndpointSlice>& slices) {
  const std::string origin = "world.yaml";
  Transaction transaction;
  transaction.replace_origin(origin);
  for (const auto& each : world.entries) transaction.upsert(each, origin, 1);
  for (const auto& each : world.services) transaction.upsert(each, origin, 1);
  for (const auto& each : world.sidecars) transaction.upsert(each, origin, 1);
  for (const auto& each : slices) transaction.upsert(each, origin, 1);
  for (const std::string ns : kClientNamespaces) {
    Pod pod;
    pod.meta.ns = ns;
    pod.meta.name = "client";
    pod.ips = {*IpAddress::parse(address_in(ns))};
    transaction.upsert(pod, origin, 1);
  }
  registry.commit(std::move(transaction));
}

// The daemon's side of the kernel: the handler that gives it answers.
class OfferingHandler {
 public:
  explicit OfferingHandler(Registry& registry) : registry_(registry) {
    registry.set_clients({ClientIdentity{}, true});
    registry.set_before_publish([this](const registry::Changes& changes) {
      feed_->slots().begin_change(changes, registry_.current()->settings->cluster_domain);
    });
    handler_.feed_kernel(feed_);
  }
  ~OfferingHandler() { registry_.set_before_publish(nullptr); }

  // Whether the kernel answers a question that the daemon has answered.
  bool gives(const std::string& ns, const Question& question) {
    publisher_.publish(registry_.current());
    feed_->slots().end_change();
    std::vector<std::uint8_t> buffer(kUdpBufferSize);
    const std::string name = *wire::name_from_text(question.name + ".");
    wire::UpstreamQuery query{.id = 1, .recursion_desired = true, .edns = true};
    query.name = name;
    query.type = question.type;
    const std::size_t size = wire::build_query(buffer, query);
    const std::vector<std::uint8_t> asked(buffer.begin(),
                                          buffer.begin() + static_cast<std::ptrdiff_t>(size));
    const IpAddress client = *IpAddress::parse(address_in(ns));
    ReplyTo reply_to;
    reply_to.client = {client, 4711, *IpAddress::parse("127.0.0.1"), false};
    handler_.on_query(buffer, size, reply_to);
    upstream_.settle();
    clock_.time += 1'001;  // each may offer
    return kernel_->answer(asked, client).has_value();
  }

 private:
  Registry& registry_;
  registry::Publisher publisher_{registry_.current()};
  FakeUpstream upstream_;
  KeptReplies replies_;
  StandingClock clock_;
  std::shared_ptr<FakeKernel> kernel_ = std::make_shared<FakeKernel>();
  std::shared_ptr<KernelFeed> feed_ =
      std::make_shared<KernelFeed>(kernel_, AnswerSlots::Key{42}, 1);
  QueryHandler handler_{{publisher_, upstream_, replies_, clock_, nullptr, {}},
                        QuerySettings::from(Config{})};
};

struct Outcome {
  std::string text;
  std::size_t work = 0;
  bool of_kernel = false;
};

std::string text_of(const View& view, const Decision& decision) {
  std::string text = std::string(to_string(decision.verdict)) + " " + std::string(decision.why);
  if (decision.match) {
    text += " " + std::string(decision.match.entry->host()) + " of " +
            std::string(decision.match.service->ns->text());
    const registry::AddressView addresses = view.addresses(*decision.match.service);
    for (const auto& a : addresses.v4) text += " " + IpAddress::v4(a).to_string();
  }
  if (decision.verdict == Verdict::Pointers)
    for (const auto& name : view.reverse(decision.address)) text += " " + name.name;
  return text;
}

Outcome ask_about(Registry& registry, OfferingHandler& handler, const std::string& ns,
                  const Question& question) {
  ClientIdentity identity;
  identity.ns = ns;
  const auto snapshot = registry.current();
  const auto client = registry.client_of(identity);
  View view(*snapshot, *client);
  view.limit_work(kMaxWork);
  AliasChain chain;
  const Asked asked{.name = question.name, .type = question.type};
  const Decision decision = resolve_locally(view, asked, chain);
  const std::size_t work = kMaxWork - view.work_left();
  return {text_of(view, decision), work, handler.gives(ns, question)};
}

// The hosts that a crowd has and for which the model chooses otherwise than without it.
std::vector<std::string> hosts_chosen_otherwise(const Mesh& old_mesh, const Mesh& new_mesh,
                                                const std::string& ns,
                                                const std::set<std::string>& crowded) {
  const registry::model::Client client{ns, {}};
  std::vector<std::string> hosts;
  for (const std::string& host : crowded)
    if (old_mesh.has_host(client, host) != new_mesh.has_host(client, host) ||
        old_mesh.ask(client, host) != new_mesh.ask(client, host))
      hosts.push_back(host);
  return hosts;
}

// A name without what a search list or a Service's full name adds to the end, or a wildcard in
// front.
std::string_view core_of(std::string_view name) {
  constexpr std::string_view kServiceZone = ".svc.cluster.local";
  if (name.starts_with("*.")) name.remove_prefix(2);
  while (name.ends_with(kServiceZone)) name.remove_suffix(kServiceZone.size());
  return name.ends_with(".svc") ? name.substr(0, name.size() - 4) : name;
}

// Whether the host may be what the question means.
bool may_mean(const Question& question, std::string_view host) {
  const std::string_view asked = core_of(question.name);
  host = core_of(host);
  return question.type == wire::Type::Ptr || asked.contains(host) || host.contains(asked);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long kOthersQuestions = 2'000;
#else
constexpr long kOthersQuestions = 4'000;
#endif

TEST(OthersObjectsTest, ChangeNoAnswerWhereTheyAreNotChosen) {
  const long wanted = others_number("MESHDNS_OTHERS_QUESTIONS", kOthersQuestions);
  OthersWorld maker(static_cast<std::uint64_t>(others_number("MESHDNS_OTHERS_SEED", 20261127)));
  long questions = 0;
  long worlds = 0;
  long skipped = 0;
  long of_kernel = 0;
  for (; questions < wanted; ++worlds) {
    const World before = maker.world();
    Registry registry(before.settings);
    OfferingHandler handler(registry);
    commit_others_world(registry, before, maker.slices());
    std::vector<Outcome> outcomes;
    for (const char* const ns : kClientNamespaces)
      for (const Question& question : kQuestions)
        outcomes.push_back(ask_about(registry, handler, ns, question));
    World after = before;
    for (const std::string ns : {"evil", "evil2"})
      for (std::size_t i = maker.below(3) + 1; i-- > 0;) maker.add_something(after, ns);
    commit_others_world(registry, after, maker.slices());
    const Mesh old_mesh(before);
    const Mesh new_mesh(after);
    auto outcome = outcomes.begin();
    for (const std::string ns : kClientNamespaces) {
      const auto chosen = hosts_chosen_otherwise(old_mesh, new_mesh, ns, maker.crowded());
      for (const Question& question : kQuestions) {
        const Outcome& old_outcome = *outcome++;
        const bool may_differ = ns == "evil" || std::ranges::any_of(chosen, [&](const auto& host) {
                                  return may_mean(question, host);
                                });
        skipped += may_differ ? 1 : 0;
        if (may_differ) continue;
        ++questions;
        const Outcome now = ask_about(registry, handler, ns, question);
        ASSERT_EQ(now.text, old_outcome.text)
            << question.name << " for " << ns << " in world " << worlds << ", strict "
            << (before.settings.claims == Claims::Strict);
        ASSERT_EQ(now.of_kernel, old_outcome.of_kernel)
            << "the kernel, " << question.name << " for " << ns << " in world " << worlds;
        of_kernel += now.of_kernel ? 1 : 0;
        const bool is_of_address = question.type == wire::Type::Ptr;
        ASSERT_LE(now.work, old_outcome.work + (is_of_address ? kConstantOfAddress : kConstant))
            << question.name << " for " << ns;
      }
    }
  }
  std::printf("%ld questions about %ld worlds, %ld left out, %ld answered by the kernel\n",
              questions, worlds, skipped, of_kernel);
  EXPECT_GT(of_kernel, questions / 10);
}

}  // namespace
}  // namespace meshdns::dnsd
