// SPDX-License-Identifier: Apache-2.0
// Answers in the kernel: the model of the program (fake_kernel.hpp) is asked before and beside the
// handler, in worlds that change all the time.
//
// MESHDNS_KERNEL_QUESTIONS and MESHDNS_KERNEL_SEED set the number of questions and the seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/dnsd/kernel/fake_kernel.hpp"
#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

class KernelAnswerTest : public QueryFixture {
 protected:
  void SetUp() override {
    registry_.registry().set_before_publish([this](const registry::Changes& changes) {
      feed_->slots().begin_change(changes, registry_.snapshot().settings->cluster_domain);
    });
    handler().feed_kernel(feed_);
  }

  std::vector<std::uint8_t> query(std::string_view name, wire::Type type, bool edns, bool dnssec) {
    std::vector<std::uint8_t> buffer(kUdpBufferSize);
    const std::string wire_name = *wire::name_from_text(name);
    wire::UpstreamQuery query{.id = 0x1234,
                              .recursion_desired = true,
                              .edns = edns,
                              .udp_payload = 1232,
                              .dnssec_ok = dnssec};
    query.name = wire_name;
    query.type = type;
    buffer.resize(wire::build_query(buffer, query));
    return buffer;
  }

  // The handler's reply; empty: it forwards or waits.
  std::vector<std::uint8_t> ask_handler(const std::vector<std::uint8_t>& query,
                                        const std::string& from) {
    end_change();
    std::vector<std::uint8_t> buffer = query;
    buffer.resize(kUdpBufferSize);
    reply_.clear();
    ask_octets(buffer, query.size(), {.from = from});
    clock_.time += 1'001;  // each may offer
    return reply_;
  }
  void end_change() {
    publish();
    feed_->slots().end_change();
  }

  // Answers with the records of the answer section in order.
  static std::vector<std::uint8_t> settled(std::vector<std::uint8_t> reply, wire::Type type) {
    const std::size_t count = wire::load_u16(&reply[6]);
    if (count < 2) return reply;
    const std::size_t size = type == wire::Type::A ? 16 : 28;
    std::size_t at = wire::kHeaderSize;
    while (reply[at] != 0) at += reply[at] + std::size_t{1};
    at += 5;
    std::vector<std::string> records;
    for (std::size_t i = 0; i < count; ++i)
      records.emplace_back(reinterpret_cast<const char*>(&reply[at + i * size]), size);
    std::ranges::sort(records);
    for (std::size_t i = 0; i < count; ++i)
      std::ranges::copy(records[i], reinterpret_cast<char*>(&reply[at + i * size]));
    return reply;
  }

  std::shared_ptr<FakeKernel> kernel_ = std::make_shared<FakeKernel>();
  std::shared_ptr<KernelFeed> feed_ =
      std::make_shared<KernelFeed>(kernel_, AnswerSlots::Key{42}, 1);
};

TEST_F(KernelAnswerTest, HoldsUntilTheHostChanges) {
  load_api();
  const auto asked = query("API.example.org.", wire::Type::A, true, false);
  const IpAddress client = *IpAddress::parse("127.0.0.1");
  EXPECT_FALSE(kernel_->answer(asked, client));
  const auto reply = ask_handler(asked, "127.0.0.1");
  const auto answer = kernel_->answer(asked, client);
  ASSERT_TRUE(answer);
  EXPECT_EQ(*answer, reply);
  EXPECT_FALSE(kernel_->answer(asked, *IpAddress::parse("127.0.0.2"))) << "who is that?";
  load(R"(
ServiceEntry /other
spec: { hosts: [other.example.org], addresses: [10.0.0.8], resolution: STATIC }
)");
  EXPECT_TRUE(kernel_->answer(asked, client)) << "another host has changed";
  registry_.remove({registry::Kind::ServiceEntry, "", "default", "api"});
  EXPECT_FALSE(kernel_->answer(asked, client)) << "before it is published";
}

// Packet filters come after the program: a client that may ask no more must reach them.
TEST_F(KernelAnswerTest, EndsForAClientTenSecondsAfterItsLastQuestionToTheDaemon) {
  load_api();
  const auto asked = query("api.example.org.", wire::Type::A, true, false);
  const IpAddress client = *IpAddress::parse("127.0.0.1");
  ask_handler(asked, "127.0.0.1");
  EXPECT_TRUE(kernel_->answer(asked, client));
  kernel_->ahead_ns = MESHDNS_CLIENT_LIFE_NS;  // and what the test has taken
  EXPECT_FALSE(kernel_->answer(asked, client)) << "an answer of the kernel does not renew it";
  kernel_->ahead_ns = 0;
  EXPECT_TRUE(kernel_->answer(asked, client));
}

TEST_F(KernelAnswerTest, IsNotGivenWhatDependsOnMore) {
  load_api();
  load(R"(
Service default/alias
spec: { type: ExternalName, externalName: api.example.org }
)");
  be_authority();
  const auto is_offered = [&](std::string_view name, wire::Type type) {
    const std::size_t before = kernel_->entries();
    ask_handler(query(name, type, true, false), "127.0.0.1");
    return kernel_->entries() > before;
  };
  EXPECT_TRUE(is_offered("api.example.org.", wire::Type::A));
  EXPECT_TRUE(is_offered("api.example.org.", wire::Type::Aaaa)) << "NODATA";
  EXPECT_FALSE(is_offered("alias.default.svc.cluster.local.", wire::Type::A)) << "a chain";
  EXPECT_FALSE(is_offered("none.default.svc.cluster.local.", wire::Type::A)) << "no host";
  EXPECT_FALSE(is_offered("api.example.org.default.svc.cluster.local.", wire::Type::A)) << "search";
  EXPECT_FALSE(is_offered("localhost.", wire::Type::A));
}

// The entry stands back as soon as the Service has the member that its name means.
TEST_F(KernelAnswerTest, HoldsUntilAServiceHasTheNameThatIsMeant) {
  registry_.be_in("shop");
  load(R"(
ServiceEntry evil/x
spec: { hosts: [x.db.bank.shop.svc.cluster.local], addresses: [10.6.6.6], resolution: STATIC }
Service bank/db
spec: { clusterIP: None, ports: [{ name: http, port: 80 }] }
)");
  be_authority();
  const auto asked = query("x.db.bank.shop.svc.cluster.local.", wire::Type::A, true, false);
  const IpAddress client = *IpAddress::parse("127.0.0.1");
  ask_handler(asked, "127.0.0.1");
  ASSERT_TRUE(kernel_->answer(asked, client));
  load(R"(
EndpointSlice bank/db-1 {labels: { kubernetes.io/service-name: db }}
addressType: IPv4
endpoints: [{ addresses: [10.3.0.1], hostname: x }]
)");
  EXPECT_FALSE(kernel_->answer(asked, client));
}

// --- random worlds -------------------------------------------------------------------------------

constexpr const char* kKernelNamespaces[] = {"a", "b"};
constexpr const char* kKernelServices[] = {"web", "db", "x", "a"};
// Their names are those of zones.
constexpr const char* kOddNamespaces[] = {"svc", "local"};
constexpr const char* kOddServices[] = {"local", "svc", "cluster"};
constexpr const char* kKernelHosts[] = {"api.example.org",
                                        "*.example.org",
                                        "*.org",
                                        "example.org",
                                        "web",
                                        "web.a",
                                        "db.b.svc",
                                        "*.a",
                                        "*.b.svc.cluster.local",
                                        "web.a.svc.cluster.local",
                                        "*.cluster.local",
                                        "x.web.a.b.svc.cluster.local",
                                        "x.db.b.svc.a.svc.cluster.local",
                                        "*.a.b.svc.cluster.local",
                                        "x.web.a.svc.cluster.local",
                                        "web.a.example.org",
                                        "x.web.a"};
constexpr const char* kKernelNames[] = {"api.example.org.",
                                        "x.example.org.",
                                        "example.org.",
                                        "web.",
                                        "web.a.",
                                        "web.b.",
                                        "db.b.",
                                        "db.b.svc.",
                                        "x.a.",
                                        "x.web.a.",
                                        "local.",
                                        "web.a.svc.cluster.local.",
                                        "db.b.svc.cluster.local.",
                                        "a.b.svc.cluster.local.",
                                        "local.svc.svc.cluster.local.",
                                        "x.web.a.svc.cluster.local.",
                                        "web.a.example.org.",
                                        "api.example.org.a.svc.cluster.local.",
                                        "web.a.b.svc.cluster.local.",
                                        "x.web.a.b.svc.cluster.local.",
                                        "x.db.b.svc.a.svc.cluster.local.",
                                        "_http._tcp.api.example.org."};
constexpr const char* kKernelClients[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"};

class WorldOfChanges {
 public:
  explicit WorldOfChanges(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t limit) { return random_() % limit; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <typename T, std::size_t N>
  const T& pick(const T (&all)[N]) {
    return all[below(N)];
  }

  // The text of an object that is added or replaces the one of its name.
  std::string object() {
    switch (below(6)) {
      case 0:
      case 1:
        return entry();
      case 2:
      case 3:
        return service();
      case 4:
        return pod();
      default:
        return one_in(10) ? sidecar() : entry();
    }
  }
  registry::ResourceKey victim() {
    const std::string ns = pick(kKernelNamespaces);
    switch (below(4)) {
      case 0:
        return {registry::Kind::Service, "", ns,
                one_in(10) ? pick(kOddServices) : pick(kKernelServices)};
      case 1:
        return {registry::Kind::Pod, "", pod_namespace_, "p" + std::to_string(below(4))};
      case 2:
        return {registry::Kind::Sidecar, "", ns, "default"};
      default:
        return {registry::Kind::ServiceEntry, "", ns, "e" + std::to_string(below(5))};
    }
  }

 private:
  std::string address(const char* prefix) { return prefix + std::to_string(1 + below(200)); }
  std::string entry() {
    std::string text =
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: { name: e" +
        std::to_string(below(5)) + ", namespace: " + pick(kKernelNamespaces) +
        " }\nspec:\n  hosts: [\"" + pick(kKernelHosts) + "\"]\n  resolution: STATIC\n";
    static constexpr const char* kExports[] = {"*", ".", "a", "b"};
    text += "  exportTo: [\"" + std::string(pick(kExports)) + "\"]\n";
    text += "  ports: [{ number: 80, name: http, protocol: HTTP }]\n";
    if (!one_in(3))
      text += "  addresses: [" + address("10.1.0.") + ", \"" + address("fd00::") + "\"]\n";
    text += "  endpoints:\n";
    for (std::size_t i = below(3) + 1; i-- > 0;)
      text += "  - { address: " + address("10.2.0.") + (one_in(4) ? ", weight: 3" : "") + " }\n";
    return text;
  }
  std::string service() {
    const std::string ns = one_in(40) ? pick(kOddNamespaces) : pick(kKernelNamespaces);
    const std::string name = one_in(40) ? pick(kOddServices) : pick(kKernelServices);
    const bool headless = one_in(3);
    std::string text =
        "apiVersion: v1\nkind: Service\nmetadata: { name: " + name + ", namespace: " + ns +
        " }\nspec:\n  clusterIP: " + (headless ? std::string("None") : address("10.96.0.")) +
        "\n  ports: [{ name: http, port: 80 }]\n";
    if (!headless) return text;
    text += "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: { name: " + name +
            "-1, namespace: " + ns + ", labels: { kubernetes.io/service-name: " + name +
            " } }\naddressType: IPv4\nports: [{ name: http, port: 80 }]\nendpoints:\n";
    for (std::size_t i = below(3) + 1; i-- > 0;)
      text += "- { addresses: [" + address("10.3.0.") +
              "], hostname: x, conditions: { ready: " + (one_in(4) ? "false" : "true") + " } }\n";
    return text;
  }
  // Its address begins to speak for another namespace.
  std::string pod() {
    const std::size_t number = below(4);
    pod_namespace_ = pick(kKernelNamespaces);
    return "apiVersion: v1\nkind: Pod\nmetadata: { name: p" + std::to_string(number) +
           ", namespace: " + pod_namespace_ + " }\nstatus: { phase: Running, podIP: 10.0.0." +
           std::to_string(number + 1) + ", podIPs: [{ ip: 10.0.0." + std::to_string(number + 1) +
           " }] }\n";
  }
  std::string sidecar() {
    static constexpr const char* kEgress[] = {"./*", "*/*", "a/*", "b/*.example.org"};
    return "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: { name: default, "
           "namespace: " +
           std::string(pick(kKernelNamespaces)) + " }\nspec: { egress: [{ hosts: [\"" +
           pick(kEgress) + "\"] }] }\n";
  }

  std::mt19937_64 random_;
  std::string pod_namespace_ = "a";
};

long kernel_number(const char* name, long otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atol(text);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long kKernelQuestions = 4'000;
#else
constexpr long kKernelQuestions = 40'000;
#endif

TEST_F(KernelAnswerTest, NeverGivesAnotherAnswerThanTheHandler) {
  WorldOfChanges world(static_cast<std::uint64_t>(kernel_number("MESHDNS_KERNEL_SEED", 1)));
  registry_.registry().set_clients({registry::ClientIdentity{}, true});
  be_authority();
  constexpr wire::Type kTypes[] = {wire::Type::A, wire::Type::Aaaa, wire::Type::Mx,
                                   wire::Type::Https};
  const long questions = kernel_number("MESHDNS_KERNEL_QUESTIONS", kKernelQuestions);
  for (long i = 0; i < questions; ++i) {
    if (world.one_in(50)) {
      if (world.one_in(3))
        registry_.remove(world.victim());
      else
        load(world.object());
      if (world.one_in(200))
        registry_.registry().set_sources({.authoritative = world.one_in(2),
                                          .synced = !world.one_in(4),
                                          .from_state_dir = world.one_in(2)});
      end_change();
    }
    const std::string from = world.pick(kKernelClients);
    const wire::Type type = world.one_in(3) ? world.pick(kTypes) : wire::Type::A;
    const bool edns = !world.one_in(4);
    const auto asked = query(world.pick(kKernelNames), type, edns, edns && world.one_in(8));
    const auto of_kernel = kernel_->answer(asked, *IpAddress::parse(from));
    const auto of_handler = ask_handler(asked, from);
    upstream_.settle();
    if (!of_kernel) continue;
    ASSERT_FALSE(of_handler.empty()) << "question " << i << ": the handler has no answer";
    ASSERT_EQ(settled(*of_kernel, type), settled(of_handler, type))
        << "question " << i << " from " << from << ": " << summary(*of_kernel) << " instead of "
        << summary(of_handler);
  }
  EXPECT_GT(kernel_->answered, static_cast<std::size_t>(questions) / 12);
}

}  // namespace
}  // namespace meshdns::dnsd
