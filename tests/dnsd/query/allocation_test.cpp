// SPDX-License-Identifier: Apache-2.0
// Registry names are answered without heap allocations; the test counts them.
#include <cstdlib>
#include <new>

#include "tests/dnsd/query/query_fixture.hpp"

namespace {
std::size_t allocations = 0;
}

[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
// The analyzer takes the memory of an object that was moved for freed twice.
// NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete)
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace meshdns::dnsd {
namespace {

class AllocationTest : public QueryFixture {
 protected:
  // Allocations of one query that is asked for the second time.
  std::size_t allocations_of(std::string_view name, wire::Type type, std::string_view cookie = {}) {
    publish();
    handler();
    const std::string wire_name = *wire::name_from_text(name);
    std::vector<std::uint8_t> buffer(kUdpBufferSize);
    ReplyTo reply_to;
    reply_to.client.address = *IpAddress::parse("127.0.0.1");
    std::size_t counted = 0;
    for (int round = 0; round < 2; ++round) {
      const std::size_t size =
          wire::build_query(buffer, {.name = wire_name, .type = type, .cookie = cookie});
      const std::size_t before = allocations;
      const std::size_t reply = handler().on_query(buffer, size, reply_to);
      counted = allocations - before;
      EXPECT_LT(reply, kUdpBufferSize) << name;
    }
    return counted;
  }
};

TEST_F(AllocationTest, ARateLimitTakesNone) {
  settings_.rate_limit.responses_per_second = 1;
  load_api();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(allocations_of("api.example.org.", wire::Type::A), 0U);
  }
}

TEST_F(AllocationTest, ACookieTakesNone) {
  settings_.cookies = CookieMode::On;
  settings_.cookie_secrets = CookieSecrets{{1, 2, 3}, CookieSecret{4, 5, 6}};
  load_api();
  for (const std::size_t size : {8, 24}) {
    // Made by nobody, but of the right version and time.
    std::string cookie(size, '\0');
    if (size > 8) cookie[8] = 1;
    EXPECT_EQ(allocations_of("api.example.org.", wire::Type::A, cookie), 0U) << size;
  }
  EXPECT_EQ(handler().counters().cookies[0].value(), 2U);
}

TEST_F(AllocationTest, LocalHitsTakeNone) {
  be_authority();
  be_in("shop");
  load(R"(
Namespace /shop
ServiceEntry /api
spec: { hosts: [api.example.org, "*.wild.example.org"], addresses: [10.0.0.7, 10.0.0.8], resolution: STATIC }
Service shop/web
spec: { clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, "fd00:96::1"], ports: [{ port: 80, name: http }] }
Service shop/to-web
spec: { type: ExternalName, externalName: web.shop.svc.cluster.local }
)");
  const struct {
    const char* name;
    wire::Type type;
  } rows[] = {{"api.example.org.", wire::Type::A},
              {"api.example.org.", wire::Type::Aaaa},
              {"api.example.org.", wire::Type::Https},
              {"a.b.wild.example.org.", wire::Type::A},
              {"web.shop.svc.cluster.local.", wire::Type::A},
              {"web.shop.svc.cluster.local.", wire::Type::Aaaa},
              {"web.shop.svc.cluster.local.", wire::Type::Txt},
              {"web.", wire::Type::A},
              {"missing.shop.svc.cluster.local.", wire::Type::A},
              {"www.example.net.shop.svc.cluster.local.", wire::Type::A},
              {"shop.svc.cluster.local.", wire::Type::A},
              {"10-4-0-1.shop.pod.cluster.local.", wire::Type::A},
              {"to-web.shop.svc.cluster.local.", wire::Type::A},
              {"api.example.org.shop.svc.cluster.local.", wire::Type::A},
              {"api.example.org.shop.svc.cluster.local.", wire::Type::Aaaa},
              {"cluster.local.", wire::Type::Soa},
              {"localhost.", wire::Type::A}};
  for (const auto& row : rows)
    EXPECT_EQ(allocations_of(row.name, row.type), 0U)
        << row.name << " " << wire::to_string(row.type);
}

TEST_F(AllocationTest, CountIsReal) {
  load(R"(
ServiceEntry /api
spec: { hosts: [api.example.org], addresses: [10.0.0.7], ports: [{ number: 80, name: http, protocol: HTTP }], resolution: STATIC }
)");
  EXPECT_GT(allocations_of("_http._tcp.api.example.org.", wire::Type::Srv), 0U);
}

}  // namespace
}  // namespace meshdns::dnsd
