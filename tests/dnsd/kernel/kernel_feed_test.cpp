// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/kernel_feed.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dnsd/kernel/kernel_offers.hpp"
#include "registry/snapshot/sidecar_scope.hpp"
#include "resolver/wire/name_text.hpp"
#include "resolver/wire/upstream_query.hpp"
#include "tests/dnsd/kernel/fake_kernel.hpp"

namespace meshdns::dnsd {
namespace {

using Octets = std::vector<std::uint8_t>;
using registry::Client;

constexpr std::string_view kClusterDomain = "cluster.local";
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kOwner = 1;
constexpr std::uint64_t kOtherOwner = 2;
constexpr std::uint16_t kAuthoritative = 0x8400;
constexpr std::uint16_t kTruncated = 0x8600;

Octets query_for(std::string_view name, bool edns = false, bool dnssec_ok = false) {
  const std::string wire_name = *wire::name_from_text(name);
  wire::UpstreamQuery query;
  query.id = 7;
  query.name = wire_name;
  query.type = wire::Type::A;
  query.edns = edns;
  query.dnssec_ok = dnssec_ok;
  Octets octets(wire::kMaxQuerySize);
  octets.resize(wire::build_query(octets, query));
  return octets;
}

wire::QueryMessage parsed(std::span<const std::uint8_t> octets) {
  wire::QueryMessage query;
  EXPECT_EQ(wire::parse_query(octets, query), wire::ParseOutcome::Ok);
  return query;
}

registry::SymbolRef symbol(const std::string& text) {
  return registry::SymbolRef(new registry::Symbol(text));
}

// All settings and objects that an answer for a client may depend on.
std::shared_ptr<Client> some_client() {
  auto client = std::make_shared<Client>();
  client->ns = symbol("shop");
  client->network = symbol("net1");
  client->cluster = symbol("east");
  client->place = {symbol("node1"), symbol("region1"), symbol("zone1"), symbol("subzone1")};
  client->scope = Ref<const registry::SidecarScope>(new registry::SidecarScope);
  client->search = {"shop.svc.cluster.local", "svc.cluster.local"};
  return client;
}

class KernelFeedTest : public testing::Test {
 protected:
  static Octets reply_to(std::span<const std::uint8_t> query, std::uint16_t flags,
                         std::size_t tail_size = 16) {
    const std::size_t head = wire::kHeaderSize + parsed(query).question.size();
    Octets reply(query.begin(), query.begin() + static_cast<std::ptrdiff_t>(head));
    wire::store_u16(&reply[2], flags);
    wire::store_u16(&reply[6], 1);
    wire::store_u16(&reply[10], 0);
    reply.resize(head + tail_size, 0x2a);
    return reply;
  }
  bool offer(const KernelFeed& feed, const AnswerSlots::Moment& moment,
             std::span<const std::uint8_t> query, const Octets& reply, const Client& client) {
    const wire::QueryMessage message = parsed(query);
    registry::ReadNames reads;
    reads.add(message.qname());
    return feed.offer(moment, {message, address_, client, reply, kClusterDomain, reads});
  }
  bool offer(const AnswerSlots::Moment& moment) {
    return offer(feed_, moment, query_, reply_to(query_, kAuthoritative), *client_);
  }
  bool is_answered() { return kernel_->answer(query_, address_).has_value(); }
  // As a worker does.
  void offer(
      KernelOffers& offers, std::uint64_t now, std::uint64_t generation = 0,
      const std::function<void()>& meanwhile = [] {}) {
    const wire::QueryMessage message = parsed(query_);
    registry::ReadNames reads;
    reads.add(message.qname());
    offers.begin();
    if (!offers.is_open(now)) return;
    meanwhile();
    offers.offer({message, address_, *client_, reply_to(query_, kAuthoritative), kClusterDomain,
                  reads, generation},
                 now);
  }
  // Whether the program has an answer for `client` to a question that `client_` has asked.
  bool shares_with(const Client& client) const {
    const wire::QueryMessage message = parsed(query_);
    return feed_
        .find(std::string_view(reinterpret_cast<const char*>(message.question.data()),
                               message.qname_size),
              wire::Type::A, client)
        .has_value();
  }

  std::shared_ptr<FakeKernel> kernel_ = std::make_shared<FakeKernel>();
  KernelFeed feed_{kernel_, AnswerSlots::Key{42}, kOwner};
  const IpAddress address_ = *IpAddress::parse("10.0.0.1");
  const Octets query_ = query_for("api.example.org.");
  const std::shared_ptr<Client> client_ = some_client();
};

TEST_F(KernelFeedTest, TakesAnswersOfMomentsInWhichNothingHasChangedSince) {
  const AnswerSlots::Moment before = feed_.now();
  feed_.slots().begin_change({}, kClusterDomain);
  EXPECT_FALSE(offer(before)) << "the change has begun";
  EXPECT_FALSE(offer(feed_.now())) << "the snapshot may be the old one";
  feed_.slots().end_change();
  EXPECT_FALSE(offer(before)) << "it was computed before the change";
  EXPECT_EQ(kernel_->entries(), 0U);
  EXPECT_TRUE(offer(feed_.now()));
  EXPECT_TRUE(is_answered());
}

TEST_F(KernelFeedTest, WritesNothingOnceAnotherDaemonHasTheMaps) {
  EXPECT_TRUE(offer(feed_.now()));
  feed_.beat();
  EXPECT_TRUE(KernelFeed::is_in_use(*kernel_));
  KernelFeed other(kernel_, AnswerSlots::Key{43}, kOtherOwner);
  EXPECT_FALSE(is_answered()) << "the other one may have another configuration";
  EXPECT_FALSE(feed_.is_owner());
  EXPECT_FALSE(offer(feed_.now()));
  EXPECT_TRUE(offer(other, other.now(), query_, reply_to(query_, kAuthoritative), *client_));
  EXPECT_TRUE(is_answered());

  other.beat();
  const std::uint64_t heartbeat = kernel_->control().heartbeat_ns;
  feed_.beat();
  feed_.retire();
  EXPECT_EQ(kernel_->control().heartbeat_ns, heartbeat) << "it is that of the other one";
  other.retire();
  EXPECT_EQ(kernel_->control().heartbeat_ns, 0U);
}

TEST_F(KernelFeedTest, TakesAndGivesNothingAfterItsEnd) {
  EXPECT_TRUE(offer(feed_.now()));
  const AnswerSlots::Moment before = feed_.now();
  feed_.retire();
  EXPECT_FALSE(is_answered());
  EXPECT_FALSE(offer(before));
  feed_.slots().begin_change({}, kClusterDomain);
  feed_.slots().end_change();
  EXPECT_FALSE(offer(feed_.now()));
}

// Each part of what views read, changed alone.
TEST_F(KernelFeedTest, SharesAnswersAmongClientsWithEqualViewsOnly) {
  ASSERT_TRUE(offer(feed_.now()));
  EXPECT_TRUE(shares_with(*client_));
  const struct {
    const char* part;
    std::function<void(Client&)> change;
  } changes[] = {
      {"namespace", [](Client& c) { c.ns = symbol("bank"); }},
      {"no namespace", [](Client& c) { c.ns = {}; }},
      {"network", [](Client& c) { c.network = symbol("net2"); }},
      {"any network", [](Client& c) { c.network = {}; }},
      {"cluster", [](Client& c) { c.cluster = symbol("west"); }},
      {"node", [](Client& c) { c.place.node = symbol("node2"); }},
      {"region", [](Client& c) { c.place.region = symbol("region2"); }},
      {"zone", [](Client& c) { c.place.zone = symbol("zone2"); }},
      {"subzone", [](Client& c) { c.place.subzone = symbol("subzone2"); }},
      {"no place", [](Client& c) { c.place = {}; }},
      {"a zone in place of the region", [](Client& c) { std::swap(c.place.region, c.place.zone); }},
      {"Sidecar",
       [](Client& c) { c.scope = Ref<const registry::SidecarScope>(new registry::SidecarScope); }},
      {"no Sidecar", [](Client& c) { c.scope = {}; }},
      {"without IPv4", [](Client& c) { c.identity.ipv4 = false; }},
      {"without IPv6", [](Client& c) { c.identity.ipv6 = false; }},
      {"another search list", [](Client& c) { c.search.back() = "example.org"; }},
      {"a longer search list", [](Client& c) { c.search.emplace_back("example.org"); }},
      {"a search list in another order", [](Client& c) { std::swap(c.search[0], c.search[1]); }},
      {"a search list that is cut elsewhere",
       [](Client& c) { c.search = {"shop.svc.cluster.localsvc", ".cluster.local"}; }},
      {"no search list", [](Client& c) { c.search.clear(); }},
  };
  for (const auto& each : changes) {
    const std::shared_ptr<Client> other = some_client();
    other->scope = client_->scope;
    EXPECT_TRUE(shares_with(*other));
    each.change(*other);
    EXPECT_FALSE(shares_with(*other)) << each.part;
  }
}

TEST_F(KernelFeedTest, KnowsQuestionsApart) {
  ASSERT_TRUE(offer(feed_.now()));
  EXPECT_TRUE(kernel_->answer(query_for("API.example.ORG."), address_));
  EXPECT_FALSE(kernel_->answer(query_for("apj.example.org."), address_));
  EXPECT_FALSE(kernel_->answer(query_for("api.example.org.", true), address_));
  const Octets plain = query_for("api.example.org.", true);
  ASSERT_TRUE(offer(feed_, feed_.now(), plain, reply_to(plain, kAuthoritative), *client_));
  EXPECT_TRUE(kernel_->answer(plain, address_));
  EXPECT_FALSE(kernel_->answer(query_for("api.example.org.", true, true), address_));
}

TEST_F(KernelFeedTest, TakesNoAnswerThatIsNotWhole) {
  EXPECT_FALSE(offer(feed_, feed_.now(), query_, reply_to(query_, kTruncated), *client_));
  Octets cut = query_;
  cut.pop_back();
  EXPECT_FALSE(offer(feed_, feed_.now(), query_, cut, *client_)) << "it ends within the question";
  EXPECT_EQ(kernel_->entries(), 0U);
}

TEST_F(KernelFeedTest, TakesAnswersAndNamesOfTheSizesThatFit) {
  for (const std::size_t size : {MESHDNS_MAX_TAIL - 1, MESHDNS_MAX_TAIL, MESHDNS_MAX_TAIL + 1})
    EXPECT_EQ(offer(feed_, feed_.now(), query_, reply_to(query_, kAuthoritative, size), *client_),
              size <= MESHDNS_MAX_TAIL)
        << size;
  for (const std::size_t size : {MESHDNS_MAX_NAME - 1, MESHDNS_MAX_NAME, MESHDNS_MAX_NAME + 1}) {
    // Two labels of 40 octets, a third one, and the root.
    const std::string name =
        std::string(39, 'a') + "." + std::string(39, 'b') + "." + std::string(size - 82, 'c') + ".";
    const Octets query = query_for(name);
    ASSERT_EQ(parsed(query).qname_size, size);
    EXPECT_EQ(offer(feed_, feed_.now(), query, reply_to(query, kAuthoritative), *client_),
              size <= MESHDNS_MAX_NAME)
        << size;
  }
}

// A query that the program passes on comes again and again.
TEST_F(KernelFeedTest, IsOfferedAnAnswerOnceASecond) {
  const std::shared_ptr<const KernelFeed> feed(&feed_, [](const KernelFeed*) {});
  KernelOffers offers(feed);
  offer(offers, kSecond);
  EXPECT_EQ(kernel_->entries(), 1U);
  kernel_->clear();
  offer(offers, 2 * kSecond - 1);
  EXPECT_EQ(kernel_->entries(), 0U) << "it has been offered";
  offer(offers, 2 * kSecond - 1, 1);
  EXPECT_EQ(kernel_->entries(), 1U) << "it is of another snapshot";
  kernel_->clear();
  offer(offers, 2 * kSecond);
  EXPECT_EQ(kernel_->entries(), 1U) << "a second has passed";

  kernel_->clear();
  offer(offers, 4 * kSecond, 0, [&] {
    feed_.slots().begin_change({}, kClusterDomain);
    feed_.slots().end_change();
  });
  EXPECT_EQ(kernel_->entries(), 0U) << "it may be an old one";
  offer(offers, 4 * kSecond);
  EXPECT_EQ(kernel_->entries(), 1U) << "what was refused may be offered again";
}

TEST_F(KernelFeedTest, IsOfferedSoManyAnswersASecond) {
  const std::shared_ptr<const KernelFeed> feed(&feed_, [](const KernelFeed*) {});
  KernelOffers offers(feed);
  for (const std::uint64_t second : {1, 2, 3}) {
    std::uint64_t generation = second << 32;
    for (std::uint32_t i = 0; i < KernelOffers::kPerSecond; ++i)
      offer(offers, second * kSecond, ++generation);
    kernel_->clear();
    offer(offers, second * kSecond + kSecond - 1, ++generation);
    EXPECT_EQ(kernel_->entries(), 0U);
  }
}

}  // namespace
}  // namespace meshdns::dnsd
