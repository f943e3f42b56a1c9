// SPDX-License-Identifier: Apache-2.0
// Each of the registry's tables by itself; workload_table_test.cpp has the one of workloads.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/tables/client_table.hpp"
#include "registry/tables/endpoint_name_table.hpp"
#include "registry/tables/host_table.hpp"
#include "registry/tables/namespace_table.hpp"
#include "registry/tables/non_terminal_table.hpp"
#include "registry/tables/origin_table.hpp"
#include "registry/tables/reverse_table.hpp"
#include "registry/tables/vip_table.hpp"

namespace meshdns::registry {
namespace {

using Texts = std::vector<std::string>;

ServiceEntry service_entry(std::string name, std::vector<std::string> hosts = {}) {
  ServiceEntry entry;
  entry.meta.name = std::move(name);
  entry.meta.ns = "shop";
  entry.hosts = std::move(hosts);
  entry.resolution = Resolution::Static;
  return entry;
}

Pod pod(std::string name, std::string ns, std::string_view address) {
  Pod pod;
  pod.meta.name = std::move(name);
  pod.meta.ns = std::move(ns);
  pod.ips = {*IpAddress::parse(address)};
  return pod;
}

StoredRef stored(const Resource& resource, OriginId origin = 0, std::uint32_t line = 1) {
  return StoredResource::encode(resource, origin, line);
}

// A record that answers with one virtual address; "" = none.
Ref<const ServiceRecord> record(const SymbolRef& ns, std::string_view address,
                                std::int64_t creation_time = 0) {
  auto* record = new ServiceRecord;
  Ref<const ServiceRecord> result(record);
  record->ns = ns;
  record->creation_time = creation_time;
  if (address.empty()) return result;
  const auto ip = *IpAddress::parse(address);
  record->answer = AnswerKind::Vips;
  record->has_single_v4 = true;
  std::ranges::copy_n(ip.octets().begin() + 12, 4, record->single_v4.begin());
  return result;
}

// --- OriginTable --------------------------------------------------------------------------------

class OriginTableTest : public testing::Test {
 protected:
  // Records exchanges as "old -> new", by the names of the origins.
  OriginTable::Exchange noting() {
    return [this](const StoredRef& before, const StoredRef& after) {
      const auto origin_of = [&](const StoredRef& s) { return s ? names_.at(s->origin()) : "-"; };
      heard_.push_back(origin_of(before) + " -> " + origin_of(after));
    };
  }
  OriginId id_of(const std::string& name) {
    const OriginId id = table_.id_of(name);
    names_[id] = name;
    return id;
  }
  Texts take_heard() { return std::exchange(heard_, {}); }

  // Up to the first id that has never had a name.
  Texts names_of(const OriginNames& names) const {
    Texts texts;
    for (OriginId id = 0; id <= names_.size(); ++id) texts.emplace_back(names.of(id));
    return texts;
  }

  OriginTable table_;
  std::map<OriginId, std::string> names_;
  Texts heard_;
};

TEST_F(OriginTableTest, TheOriginOfTheLeastNameCounts) {
  const OriginId b = id_of("b.yaml");
  const OriginId a = id_of("a.yaml");
  table_.upsert(stored(service_entry("api", {"old.example.org"}), b), noting());
  EXPECT_EQ(take_heard(), Texts{"- -> b.yaml"});
  table_.upsert(stored(service_entry("api", {"new.example.org"}), a), noting());
  EXPECT_EQ(take_heard(), Texts{"b.yaml -> a.yaml"});
  EXPECT_EQ(table_.upsert(stored(service_entry("api", {"other.example.org"}), b), noting()), 1U);
  EXPECT_EQ(take_heard(), Texts{}) << "a.yaml's version goes on counting";
  table_.remove(key_of(service_entry("api")), a, noting());
  EXPECT_EQ(take_heard(), Texts{"a.yaml -> b.yaml"});
  table_.remove(key_of(service_entry("api")), b, noting());
  EXPECT_EQ(take_heard(), Texts{"b.yaml -> -"});
  EXPECT_TRUE(table_.resources().empty());
}

TEST_F(OriginTableTest, AnEqualObjectIsNoChange) {
  const OriginId a = id_of("a.yaml");
  EXPECT_EQ(table_.upsert(stored(service_entry("api"), a), noting()), 1U);
  EXPECT_EQ(table_.upsert(stored(service_entry("api"), a), noting()), 0U);
  EXPECT_EQ(table_.remove(key_of(service_entry("web")), a, noting()), 0U);
  EXPECT_EQ(take_heard(), Texts{"- -> a.yaml"});
}

TEST_F(OriginTableTest, AnEqualObjectAtAnotherLineIsSaidToBeThere) {
  const OriginId a = id_of("a.yaml");
  table_.upsert(stored(service_entry("api"), a, 1), noting());
  EXPECT_EQ(table_.upsert(stored(service_entry("api"), a, 7), noting()), 0U);
  EXPECT_EQ(table_.used(key_of(service_entry("api")))->line(), 7U);
}

TEST_F(OriginTableTest, RetainRemovesUnlistedObjects) {
  const OriginId a = id_of("a.yaml");
  const OriginId b = id_of("b.yaml");
  for (const char* name : {"one", "two", "three"})
    table_.upsert(stored(service_entry(name), a), noting());
  table_.upsert(stored(service_entry("four"), b), noting());
  EXPECT_EQ(table_.retain(a, {hash_of(key_of(service_entry("two")))}, noting()), 2U);
  EXPECT_EQ(table_.resources().size(), 2U);
}

TEST_F(OriginTableTest, RemovesAnObjectOfOneOriginByItsHash) {
  const OriginId a = id_of("a.yaml");
  const OriginId b = id_of("b.yaml");
  for (const OriginId origin : {a, b})
    for (const char* name : {"one", "two"})
      table_.upsert(stored(service_entry(name), origin), noting());
  take_heard();
  const std::uint64_t one = hash_of(key_of(service_entry("one")));
  EXPECT_EQ(table_.remove(one, a, noting()), 1U);
  EXPECT_EQ(take_heard(), Texts{"a.yaml -> b.yaml"});
  EXPECT_EQ(table_.remove(one, a, noting()), 0U);
  EXPECT_EQ(table_.remove(one + 1, b, noting()), 0U) << "another hash in the same leaf";
  EXPECT_EQ(table_.resources().size(), 3U);
}

TEST_F(OriginTableTest, SharesPublishedNamesUntilANewOneIsAdded) {
  id_of("a.yaml");
  Snapshot first;
  Snapshot second;
  table_.publish_to(first);
  table_.publish_to(second);
  EXPECT_EQ(first.origins, second.origins);
  id_of("b.yaml");
  table_.publish_to(second);
  EXPECT_EQ(names_of(*second.origins), (Texts{"", "a.yaml", "b.yaml"}));
  EXPECT_EQ(names_of(*first.origins), (Texts{"", "a.yaml", ""}));
}

TEST_F(OriginTableTest, GivesTheIdOfAForgottenOriginToAnother) {
  const OriginId a = id_of("a.yaml");
  const OriginId b = id_of("b.yaml");
  table_.upsert(stored(service_entry("api"), b), noting());
  Snapshot before;
  table_.publish_to(before);
  table_.forget(a);
  table_.forget(b);
  EXPECT_EQ(id_of("c.yaml"), a);
  EXPECT_EQ(id_of("b.yaml"), b) << "it still has an object";
  EXPECT_NE(id_of("a.yaml"), a);
  Snapshot after;
  table_.publish_to(after);
  EXPECT_EQ(names_of(*before.origins), (Texts{"", "a.yaml", "b.yaml", ""}));
  EXPECT_EQ(names_of(*after.origins), (Texts{"", "c.yaml", "b.yaml", "a.yaml"}));
}

TEST_F(OriginTableTest, PublishesTheNamesThatHaveNotChangedOnce) {
  for (int i = 0; i < 1000; ++i) id_of(std::to_string(i) + ".yaml");
  Snapshot first;
  table_.publish_to(first);
  table_.forget(id_of("900.yaml"));
  Snapshot second;
  table_.publish_to(second);
  std::size_t copied = 0;
  for (std::size_t i = 0; i < first.origins->blocks.size(); ++i)
    copied += first.origins->blocks[i] != second.origins->blocks[i] ? 1 : 0;
  EXPECT_EQ(copied, 1U);
}

// --- HostTable ----------------------------------------------------------------------------------

class RecordsTest : public testing::Test {
 protected:
  SymbolTable symbols_;
  const SymbolRef shop_ = symbols_.intern("shop");
  const SymbolRef web_ = symbols_.intern("web");
};

std::size_t put_one(HostTable& table, const HostKey& key, const Ref<const ServiceRecord>& record) {
  const HostTable::Replacement replacement{key.ns, record};
  return table.put(key.host, {&replacement, 1});
}

TEST_F(RecordsTest, HostTableKeepsOneRecordOfEachNamespaceTheOldestFirst) {
  HostTable table;
  EXPECT_EQ(put_one(table, {shop_, "api.example.org"}, record(shop_, "10.0.0.1", 20)), 1U);
  EXPECT_EQ(put_one(table, {web_, "api.example.org"}, record(web_, "10.0.0.2", 10)), 2U);
  EXPECT_EQ(put_one(table, {shop_, "api.example.org"}, record(shop_, "10.0.0.3", 20)), 2U);
  const HostEntry* entry = table.find("api.example.org");
  ASSERT_NE(entry, nullptr);
  ASSERT_EQ(entry->records().size(), 2U);
  EXPECT_EQ(entry->records()[0]->ns, web_);
  EXPECT_EQ(table.find({shop_, "api.example.org"})->single_v4[3], 3);
  EXPECT_EQ(put_one(table, {web_, "api.example.org"}, {}), 1U);
  EXPECT_EQ(put_one(table, {shop_, "api.example.org"}, {}), 0U);
  EXPECT_EQ(table.find("api.example.org"), nullptr);
}

// The count of records was of 16 bits: at 65,536 it was 0, and the entry freed memory that it never
// had.
TEST_F(RecordsTest, HostTableHoldsAHostOfMoreThan65535Namespaces) {
  HostTable table;
  constexpr std::size_t kNamespaces = 65'540;
  std::vector<HostTable::Replacement> all;
  for (std::size_t i = 0; i < kNamespaces; ++i) {
    const SymbolRef ns = symbols_.intern("ns-" + std::to_string(i));
    all.push_back({ns, record(ns, "10.0.0.1")});
  }
  std::ranges::sort(all, {}, [](const auto& item) { return item.ns.get(); });
  EXPECT_EQ(table.put("api.example.org", all), kNamespaces);
  const HostEntry* entry = table.find("api.example.org");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->records().size(), kNamespaces);
  for (const auto& [ns, record] : all) ASSERT_EQ(table.find({ns, "api.example.org"}), record);
  for (auto& item : all) item.record = {};
  EXPECT_EQ(table.put("api.example.org", all), 0U);
  EXPECT_EQ(table.find("api.example.org"), nullptr);
}

TEST_F(RecordsTest, HostTableDistinguishesAWildcardFromItsParent) {
  HostTable table;
  put_one(table, {shop_, "*.example.org"}, record(shop_, "10.0.0.1"));
  EXPECT_EQ(table.find("example.org"), nullptr);
  EXPECT_NE(table.find("*.example.org"), nullptr);
  Snapshot snapshot;
  table.publish_to(snapshot);
  EXPECT_TRUE(snapshot.hosts.empty());
  EXPECT_NE(snapshot.find_wildcard("example.org"), nullptr);
}

// --- ReverseTable -------------------------------------------------------------------------------

std::size_t hosts_at(const ReverseTable& table, std::string_view address) {
  Snapshot snapshot;
  table.publish_to(snapshot);
  const std::uint64_t hash = hash_of(*IpAddress::parse(address));
  const ReverseEntry* entry =
      snapshot.reverse.find(hash, [&](const ReverseEntry& e) { return e.address_hash() == hash; });
  return entry == nullptr ? 0 : entry->uses().size();
}

TEST_F(RecordsTest, ReverseTableCountsAHostOnceForEachRecord) {
  ReverseTable table;
  const auto shop = record(shop_, "10.0.0.1");
  const auto web = record(web_, "10.0.0.1");
  table.note("api.example.org", nullptr, shop.get());
  table.note("api.example.org", nullptr, web.get());
  EXPECT_EQ(hosts_at(table, "10.0.0.1"), 0U) << "before apply()";
  table.apply();
  EXPECT_EQ(hosts_at(table, "10.0.0.1"), 2U);
  table.note("api.example.org", shop.get(), nullptr);
  table.apply();
  EXPECT_EQ(hosts_at(table, "10.0.0.1"), 1U);
  const auto moved = record(web_, "10.0.0.2");
  table.note("api.example.org", web.get(), moved.get());
  table.apply();
  EXPECT_EQ(hosts_at(table, "10.0.0.1"), 0U);
  EXPECT_EQ(hosts_at(table, "10.0.0.2"), 1U);
}

// --- NonTerminalTable ---------------------------------------------------------------------------

TEST_F(RecordsTest, NonTerminalTableHasTheNamesAboveHosts) {
  NonTerminalTable table;
  const auto shown = record(shop_, "10.0.0.1");
  const auto published = [&] {
    Snapshot snapshot;
    table.publish_to(snapshot);
    return snapshot;
  };
  const auto exchange = [&](std::string_view host, const ServiceRecord* before,
                            const ServiceRecord* after) {
    table.exchange({shop_, std::string(host)}, before, after, "cluster.local");
  };
  exchange("api.shop.svc.cluster.local", nullptr, shown.get());
  exchange("web.shop.svc.cluster.local", nullptr, shown.get());
  exchange("www.example.org", nullptr, shown.get());
  EXPECT_NE(published().find_non_terminal("shop.svc.cluster.local"), nullptr);
  for (const std::string_view name : {"svc.cluster.local", "local", "example.org", "org"})
    EXPECT_NE(published().find_non_terminal(name), nullptr) << name;
  EXPECT_EQ(published().find_non_terminal("www.example.org"), nullptr);
  exchange("api.shop.svc.cluster.local", shown.get(), nullptr);
  EXPECT_NE(published().find_non_terminal("shop.svc.cluster.local"), nullptr);
  exchange("web.shop.svc.cluster.local", shown.get(), nullptr);
  EXPECT_EQ(published().find_non_terminal("local"), nullptr);
  exchange("www.example.org", shown.get(), nullptr);
  EXPECT_TRUE(published().non_terminals.empty());
}

TEST_F(RecordsTest, NonTerminalTableCountsSomePrefixesOfAnIpv6Address) {
  const auto address = *IpAddress::parse("fd00:96::1");
  auto* made = new ServiceRecord;
  const Ref<const ServiceRecord> shown(made);
  made->ns = shop_;
  made->answer = AnswerKind::Vips;
  auto details = std::make_unique<ServiceRecord::Details>();
  details->addresses.v6 = {address.octets()};
  made->details = std::move(details);
  const Texts zones = {"0.0.d.f.ip6.arpa"};
  NonTerminalTable table;
  const auto counted = [&] {
    Snapshot snapshot;
    table.publish_to(snapshot);
    std::vector<std::size_t> counts;
    for (std::size_t nibbles = 0; nibbles <= 32; ++nibbles)
      if (snapshot.find_non_terminal(reverse_name(address, nibbles)) != nullptr)
        counts.push_back(nibbles);
    return counts;
  };
  table.exchange_addresses(nullptr, shown.get(), zones);
  EXPECT_EQ(counted(), (std::vector<std::size_t>{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 21,
                                                 24, 27, 30}));
  table.exchange_addresses(shown.get(), nullptr, zones);
  EXPECT_TRUE(counted().empty());
}

// --- EndpointNameTable --------------------------------------------------------------------------

Ref<const ServiceRecord> record_using(const SymbolRef& ns, Texts names) {
  auto* record = new ServiceRecord;
  Ref<const ServiceRecord> result(record);
  record->ns = ns;
  auto details = std::make_unique<ServiceRecord::Details>();
  details->resolved_names = std::move(names);
  record->details = std::move(details);
  return result;
}

TEST_F(RecordsTest, EndpointNameTableReportsNewAndEndedUses) {
  EndpointNameTable table;
  const auto uses_a = record_using(shop_, {"a.example.net"});
  table.exchange({shop_, "one.example.org"}, nullptr, uses_a.get());
  table.exchange({shop_, "two.example.org"}, nullptr, uses_a.get());
  EXPECT_EQ(table.take_difference().added, (std::vector<NameUse>{{"a.example.net", "shop"}}));
  table.exchange({shop_, "one.example.org"}, uses_a.get(), nullptr);
  EXPECT_TRUE(table.take_difference().removed.empty()) << "the other host still uses it";
  // One host drops the name and another takes it.
  table.exchange({shop_, "two.example.org"}, uses_a.get(), nullptr);
  table.exchange({shop_, "three.example.org"}, nullptr, uses_a.get());
  const auto moved = table.take_difference();
  EXPECT_TRUE(moved.added.empty() && moved.removed.empty());
  EXPECT_EQ(table.uses(), (std::set<NameUse>{{"a.example.net", "shop"}}));
}

TEST_F(RecordsTest, EndpointNameTableForgetsAddressesOfUnusedNames) {
  EndpointNameTable table;
  const auto uses_a = record_using(shop_, {"a.example.net"});
  const ResolvedName resolved{"a.example.net", ResolvedName::State::Resolved, {}};
  std::set<HostKey> users;
  table.resolve(shop_, resolved, users);
  EXPECT_EQ(table.find("shop", "a.example.net"), nullptr) << "nobody uses it";
  table.exchange({shop_, "one.example.org"}, nullptr, uses_a.get());
  table.resolve(web_, resolved, users);
  EXPECT_TRUE(users.empty()) << "no host of that namespace uses it";
  table.resolve(shop_, resolved, users);
  EXPECT_EQ(users, (std::set<HostKey>{{shop_, "one.example.org"}}));
  EXPECT_NE(table.find("shop", "a.example.net"), nullptr);
  table.exchange({shop_, "one.example.org"}, uses_a.get(), nullptr);
  table.take_difference();
  EXPECT_EQ(table.find("shop", "a.example.net"), nullptr);
}

// The names of `table` that a change of `host` concerns.
Texts touched_by(EndpointNameTable& table, const HostKey& host, Provider provider) {
  auto* record = new ServiceRecord;
  const Ref<const ServiceRecord> after(record);
  record->ns = host.ns;
  record->provider = provider;
  table.take_difference();
  table.note_host(host, nullptr, after.get(), "cluster.local");
  Texts names;
  for (const auto& use : table.take_difference().touched) names.push_back(use.ns + "/" + use.name);
  return names;
}

TEST_F(RecordsTest, EndpointNameTableFindsTheNamesThatAHostMayAnswer) {
  EndpointNameTable table;
  const auto users = record_using(
      shop_, {"api.example.org", "x.api.example.org", "otherapi.example.org", "web", "web.shop",
              "web.shop.svc", "db-0.web.shop.svc", "web.shop.svc.cluster.local",
              "db-0.web.shop.svc.cluster.local", "10-0-0-1.shop.pod.cluster.local"});
  table.exchange({shop_, "one.example.org"}, nullptr, users.get());
  const auto entry = [&](const std::string& host) {
    return touched_by(table, {web_, host}, Provider::ServiceEntry);
  };
  EXPECT_EQ(entry("api.example.org"), (Texts{"shop/api.example.org"}));
  EXPECT_EQ(entry("*.example.org"),
            (Texts{"shop/api.example.org", "shop/otherapi.example.org", "shop/x.api.example.org"}));
  EXPECT_EQ(entry("*.api.example.org"), (Texts{"shop/x.api.example.org"}));
  EXPECT_EQ(entry("example.org"), Texts{});
  EXPECT_EQ(touched_by(table, {shop_, "web.shop.svc.cluster.local"}, Provider::Kubernetes),
            (Texts{"shop/10-0-0-1.shop.pod.cluster.local", "shop/db-0.web.shop.svc",
                   "shop/db-0.web.shop.svc.cluster.local", "shop/web", "shop/web.shop",
                   "shop/web.shop.svc", "shop/web.shop.svc.cluster.local"}));
}

TEST_F(RecordsTest, EndpointNameTableFollowsAliases) {
  EndpointNameTable table;
  const auto users = record_using(shop_, {"outside.shop"});
  table.exchange({shop_, "one.example.org"}, nullptr, users.get());
  std::set<HostKey> told;
  ResolvedName name{"outside.shop", ResolvedName::State::Resolved, {}};
  name.via = {"api.example.org"};
  table.resolve(shop_, name, told);
  EXPECT_EQ(touched_by(table, {web_, "api.example.org"}, Provider::ServiceEntry),
            (Texts{"shop/outside.shop"}));
  name.via = {"db.example.org"};
  table.resolve(shop_, name, told);
  EXPECT_EQ(touched_by(table, {web_, "api.example.org"}, Provider::ServiceEntry), Texts{});
  table.exchange({shop_, "one.example.org"}, users.get(), nullptr);
  EXPECT_EQ(touched_by(table, {web_, "db.example.org"}, Provider::ServiceEntry), Texts{});
}

TEST_F(RecordsTest, EndpointNameTableLeavesAHostsOwnNameOut) {
  EndpointNameTable table;
  const auto own = record_using(shop_, {"api.example.org"});
  table.exchange({shop_, "api.example.org"}, nullptr, own.get());
  EXPECT_EQ(touched_by(table, {shop_, "api.example.org"}, Provider::ServiceEntry), Texts{});
  EXPECT_EQ(touched_by(table, {web_, "api.example.org"}, Provider::ServiceEntry),
            (Texts{"shop/api.example.org"}));
  table.exchange({shop_, "other.example.org"}, nullptr, own.get());
  EXPECT_EQ(touched_by(table, {shop_, "api.example.org"}, Provider::ServiceEntry),
            (Texts{"shop/api.example.org"}))
      << "another host uses it, too";
}

TEST_F(RecordsTest, EndpointNameTableListsVeryManyTouchedNamesAsOne) {
  EndpointNameTable table;
  Texts names;
  for (int i = 0; i < 5'000; ++i) names.push_back("n" + std::to_string(i) + ".example.org");
  const auto users = record_using(shop_, names);
  table.exchange({shop_, "one.example.org"}, nullptr, users.get());
  table.take_difference();
  table.note_host({web_, "*.example.org"}, nullptr, record_using(web_, {}).get(), "cluster.local");
  const auto difference = table.take_difference();
  EXPECT_TRUE(difference.all_touched);
  EXPECT_TRUE(difference.touched.empty());
  EXPECT_EQ(table.names_of(shop_).size(), 5'000u);
  EXPECT_EQ(table.namespaces(), Texts{"shop"});
}

// --- NamespaceTable, ClaimantTable, HostMarks ---------------------------------------------------

TEST_F(RecordsTest, NamespaceTableHasTheLabels) {
  NamespaceTable table;
  Namespace object;
  object.meta.labels = {{"team", "a"}};
  table.put(shop_, object);
  ASSERT_NE(table.labels_of("shop"), nullptr);
  EXPECT_EQ(*table.labels_of("shop"), object.meta.labels);
  table.erase(shop_);
  EXPECT_EQ(table.labels_of("shop"), nullptr);
}

TEST_F(RecordsTest, ClaimantTableFindsTheHostsThatNameAnOwner) {
  ClaimantTable table;
  Texts heard;
  const auto noting = [&](const HostKey& key) { heard.push_back(key.host); };
  table.note_claimant({web_, "db.bank"}, true);
  table.note_claimant({web_, "www.example.org"}, true);
  Namespace bank;
  bank.meta.name = "bank";
  table.note_owner(bank, true, noting);
  EXPECT_EQ(std::exchange(heard, {}), Texts{"db.bank"});
  EXPECT_TRUE(table.owners().has_namespace("bank"));
  table.note_claimant({web_, "db.bank"}, false);
  table.note_owner(bank, false, noting);
  EXPECT_EQ(heard, Texts{});
}

TEST_F(RecordsTest, ClaimantTableKeepsAHostUntilItsLastObjectGoes) {
  ClaimantTable table;
  Namespace bank;
  bank.meta.name = "bank";
  const auto is_heard = [&] {
    bool heard = false;
    const auto note = [&](const HostKey&) { heard = true; };
    table.note_owner(bank, true, note);
    table.note_owner(bank, false, note);
    return heard;
  };
  table.note_claimant({web_, "db.bank"}, true);
  table.note_claimant({web_, "db.bank"}, true);
  table.note_claimant({web_, "db.bank"}, false);
  EXPECT_TRUE(is_heard());
  table.note_claimant({web_, "db.bank"}, false);
  EXPECT_FALSE(is_heard());
}

// Only a change of what its own namespace sees concerns a name that is the host's own.
TEST_F(RecordsTest, EndpointNameTableLeavesOutAChangeOfItsOwnHost) {
  EndpointNameTable table;
  const auto own = record_using(shop_, {"api.example.org"});
  const HostKey key{shop_, "api.example.org"};
  table.exchange(key, nullptr, own.get());
  table.take_difference();
  const auto touched = [&](const ServiceRecord* before, const ServiceRecord* after) {
    table.note_host(key, before, after, "cluster.local");
    return table.take_difference().touched.size();
  };
  const auto again = record_using(shop_, {"api.example.org"});
  EXPECT_EQ(touched(own.get(), again.get()), 0U);
  EXPECT_EQ(touched(nullptr, own.get()), 0U);
}

TEST_F(RecordsTest, HostMarksVisitEachHostOnceAndTheClusterSetLast) {
  HostMarks marks;
  const StoredRef entry = stored(service_entry("api"));
  marks.mark(shop_, "api.shop.svc.clusterset.local");
  marks.mark(shop_, "api.example.org", entry, true);
  marks.mark(shop_, "api.shop.svc.cluster.local");
  marks.mark(shop_, "api.example.org", entry, false);
  Texts visited;
  marks.take([&](const HostKey& key, const SourceChange& sources) {
    visited.push_back(key.host);
    if (key.host != "api.example.org") return;
    EXPECT_TRUE(sources.added.empty());
    EXPECT_EQ(sources.removed, std::vector<StoredRef>{entry}) << "the last word counts";
  });
  EXPECT_EQ(visited, (Texts{"api.example.org", "api.shop.svc.cluster.local",
                            "api.shop.svc.clusterset.local"}));
  marks.take([](const HostKey&, const SourceChange&) { FAIL(); });
}

// --- VipTable -----------------------------------------------------------------------------------

// Assigns one address to every host and records its arguments.
class NotingAllocator final : public VipAllocator {
 public:
  std::vector<VipAssignment> assign(const std::vector<VipRequest>& requests,
                                    const std::vector<IpAddress>& taken) override {
    asked.clear();
    for (const auto& request : requests) asked.push_back(request.host);
    claimed = taken;
    std::vector<VipAssignment> given;
    for (const auto& request : requests)
      given.push_back({request.ns, request.host, *IpAddress::parse("240.240.0.1"),
                       *IpAddress::parse("2001:2::1")});
    return given;
  }
  Texts asked;
  std::vector<IpAddress> claimed;
};

TEST_F(RecordsTest, VipTablePassesRequestsAndTakenAddressesToTheAllocator) {
  MeshSettings settings;
  settings.auto_allocate = AutoAllocate::Persistent;
  VipTable table(settings);
  auto owned = std::make_unique<NotingAllocator>();
  const NotingAllocator& allocator = *owned;
  table.set_allocator(std::move(owned));
  Texts changed;
  const auto assign = [&] {
    changed.clear();
    table.assign(symbols_, [&](const HostKey& key) { changed.push_back(key.host); });
  };
  const Texts hosts{"api.example.org", "*.example.org"};
  table.request(service_entry("api", hosts), hosts, true);
  const Pod inside = pod("inside", "web", settings.vip_cidr_v4.address.to_string());
  table.claim(inside, true);
  table.claim(pod("outside", "web", "192.0.2.1"), true);
  assign();
  EXPECT_EQ(changed, Texts{"api.example.org"});
  EXPECT_EQ(allocator.asked, Texts{"api.example.org"}) << "a wildcard gets none";
  EXPECT_EQ(allocator.claimed, inside.ips);
  EXPECT_EQ(table.addresses_of({shop_, "api.example.org"}).size(), 2U);
  assign();
  EXPECT_EQ(changed, Texts{}) << "nothing has changed";
  table.claim(inside, false);
  table.request(service_entry("api", hosts), hosts, false);
  assign();
  EXPECT_EQ(changed, Texts{"api.example.org"});
  EXPECT_TRUE(allocator.claimed.empty());
  EXPECT_TRUE(table.addresses_of({shop_, "api.example.org"}).empty());
}

TEST_F(RecordsTest, VipTableAssignsNothingWhenOff) {
  MeshSettings settings;
  settings.auto_allocate = AutoAllocate::Off;
  const Texts hosts{"api.example.org"};
  VipTable table(settings);
  table.request(service_entry("api", hosts), hosts, true);
  table.assign(symbols_, [](const HostKey&) { FAIL(); });
}

// --- SidecarTable, ClientTable ------------------------------------------------------------------

Sidecar sidecar(std::string name, std::string ns, std::optional<Labels> selector = {},
                std::int64_t creation_time = 0) {
  Sidecar sidecar;
  sidecar.meta.name = std::move(name);
  sidecar.meta.ns = std::move(ns);
  sidecar.meta.creation_time = creation_time;
  sidecar.workload_selector = std::move(selector);
  sidecar.egress.push_back({0, "", {"*/*.example.org"}});
  return sidecar;
}

TEST_F(RecordsTest, SidecarTablePrefersSelectorThenAgeThenTheRootNamespace) {
  SidecarTable table;
  const SymbolRef root = symbols_.intern("istio-system");
  const StoredRef of_root = stored(sidecar("root", "istio-system"));
  const StoredRef young = stored(sidecar("young", "shop", {}, 20));
  const StoredRef old = stored(sidecar("old", "shop", {}, 10));
  const StoredRef chosen = stored(sidecar("chosen", "shop", Labels{{"app", "web"}}, 30));
  table.add(root, of_root);
  EXPECT_EQ(table.find({}, shop_, root), of_root);
  for (const auto& s : {young, old, chosen}) table.add(shop_, s);
  EXPECT_EQ(table.find({}, shop_, root), old);
  EXPECT_EQ(table.find({{"app", "web"}}, shop_, root), chosen);
  table.remove(shop_, old);
  EXPECT_EQ(table.find({}, shop_, root), young);
  EXPECT_EQ(table.find({}, web_, root), of_root);
}

TEST_F(RecordsTest, SidecarTableSharesScopesAndRemovesUnusedOnes) {
  SidecarTable table;
  const StoredRef s = stored(sidecar("root", "istio-system"));
  {
    const auto scope = table.scope_of(s, shop_, symbols_);
    EXPECT_EQ(table.scope_of(s, web_, symbols_), scope) << "it does not say \".\"";
    table.sweep();
    EXPECT_EQ(table.scopes(), 1U);
  }
  table.sweep();
  EXPECT_EQ(table.scopes(), 0U);
}

class ClientTableTest : public RecordsTest {
 protected:
  ClientTableTest() { table_.use({ClientIdentity(), true, UnknownClient::Public}); }
  StoredRef add(const Pod& pod) {
    StoredRef s = stored(pod);
    workloads_.add(symbols_.intern(pod.meta.ns), s, pod);
    table_.link_workload(s, pod, true);
    return s;
  }
  void remove(const StoredRef& s, const Pod& pod) {
    workloads_.remove(symbols_.intern(pod.meta.ns), s, pod);
    table_.link_workload(s, pod, false);
  }
  // The namespace of the client at the address, with "*" when a Sidecar restricts it.
  std::string client_at(std::string_view address) {
    table_.update();
    Snapshot snapshot;
    table_.publish_to(snapshot);
    const Client* client = snapshot.client_at(*IpAddress::parse(address));
    if (client == snapshot.public_client.get()) return "public";
    return std::string(client->ns->text()) + (client->scope ? "*" : "");
  }

  const MeshSettings settings_;
  WorkloadTable workloads_;
  NetworkTable networks_{settings_, symbols_};
  NodeTable nodes_;
  ClientTable table_{settings_, symbols_, workloads_, nodes_, networks_};
};

TEST_F(ClientTableTest, FollowsThePodsOfAnAddress) {
  EXPECT_EQ(client_at("10.0.0.1"), "public");
  const Pod first = pod("a", "shop", "10.0.0.1");
  const Pod second = pod("b", "web", "10.0.0.1");
  const StoredRef stored_first = add(first);
  EXPECT_EQ(client_at("10.0.0.1"), "shop");
  const StoredRef stored_second = add(second);
  EXPECT_EQ(client_at("10.0.0.1"), "public") << "two running Pods have it";
  remove(stored_first, first);
  EXPECT_EQ(client_at("10.0.0.1"), "web");
  remove(stored_second, second);
  EXPECT_EQ(client_at("10.0.0.1"), "public");
  Snapshot snapshot;
  table_.publish_to(snapshot);
  EXPECT_TRUE(snapshot.pods.empty() && snapshot.clients.empty());
}

// The object of an origin may give way to that of another and come back in one commit.
TEST_F(ClientTableTest, AnAddressIsHeldByPodsThatRunOrLeaveAndHaveANetworkOfTheirOwn) {
  struct Case {
    std::string_view what;
    std::function<void(Pod&)> change;
    bool has_pod;
    bool is_held;
  };
  const Case cases[] = {
      {"runs", [](Pod&) {}, true, true},
      {"leaves",
       [](Pod& pod) {
         pod.running = false;
         pod.leaving = true;
       },
       true, true},
      {"has finished", [](Pod& pod) { pod.running = false; }, false, false},
      {"is of the host's network", [](Pod& pod) { pod.host_network = true; }, true, false}};
  for (const Case& c : cases) {
    Pod changed = pod("a", "shop", "10.0.0.1");
    c.change(changed);
    const StoredRef object = add(changed);
    table_.update();
    Snapshot snapshot;
    table_.publish_to(snapshot);
    const PodEntry* const entry = snapshot.find_pod(changed.ips.front());
    ASSERT_NE(entry, nullptr) << c.what;
    EXPECT_EQ(entry->has_pod, c.has_pod) << c.what;
    EXPECT_EQ(!entry->holders.empty(), c.is_held) << c.what;
    remove(object, changed);
  }
}

TEST_F(ClientTableTest, TheLastChangeOfAnObjectCounts) {
  const Pod first = pod("a", "shop", "10.0.0.1");
  const Pod second = pod("b", "web", "10.0.0.1");
  const StoredRef stored_first = add(first);
  const StoredRef stored_second = add(second);
  remove(stored_second, second);
  EXPECT_EQ(client_at("10.0.0.1"), "shop");
  remove(stored_first, first);
  table_.link_workload(stored_second, second, true);
  table_.link_workload(stored_second, second, false);
  table_.link_workload(stored_second, second, true);
  table_.link_workload(stored_first, first, true);
  table_.link_workload(stored_first, first, false);
  EXPECT_EQ(client_at("10.0.0.1"), "web");
  Snapshot snapshot;
  table_.publish_to(snapshot);
  EXPECT_EQ(snapshot.find_pod(*IpAddress::parse("10.0.0.1"))->pods.size(), 1U);
}

TEST_F(ClientTableTest, ASidecarReachesTheClientsOfItsNamespace) {
  add(pod("a", "shop", "10.0.0.1"));
  add(pod("b", "web", "10.0.0.2"));
  EXPECT_EQ(client_at("10.0.0.1"), "shop");
  const StoredRef of_shop = stored(sidecar("s", "shop"));
  table_.link_sidecar(shop_, of_shop, true);
  EXPECT_EQ(client_at("10.0.0.1"), "shop*");
  EXPECT_EQ(client_at("10.0.0.2"), "web");
  table_.link_sidecar(symbols_.intern("istio-system"), stored(sidecar("r", "istio-system")), true);
  EXPECT_EQ(client_at("10.0.0.2"), "web*");
  table_.link_sidecar(shop_, of_shop, false);
  EXPECT_EQ(client_at("10.0.0.1"), "shop*") << "the root namespace's";
}

TEST_F(ClientTableTest, ClientsOfExplanationsAreNotStored) {
  table_.update();
  const std::size_t symbols = symbols_.size();
  ClientIdentity identity;
  identity.ns = "nowhere";
  EXPECT_EQ(table_.visitor(identity)->search,
            (Texts{"nowhere.svc.cluster.local", "svc.cluster.local", "cluster.local"}));
  EXPECT_EQ(symbols_.size(), symbols);
  EXPECT_EQ(table_.scopes(), 0U);
}

TEST(NetworkTableTest, ANetworkThatEndedHasNoEffect) {
  const MeshSettings settings;
  SymbolTable symbols;
  NetworkTable table(settings, symbols);
  const auto link = [&](const std::string& network, bool add) {
    WorkloadEntry workload;
    workload.spec.network = network;
    table.link(Resource(workload), add);
  };
  link("net-1", true);
  link("net-2", true);
  link("net-2", true);
  EXPECT_TRUE(table.take_changes().choice);
  EXPECT_TRUE(table.gateways());
  link("net-2", false);
  EXPECT_FALSE(table.forget_ended());
  link("net-2", false);
  EXPECT_FALSE(table.take_changes().choice) << "not at once";
  EXPECT_TRUE(table.forget_ended());
  EXPECT_FALSE(table.forget_ended());
  EXPECT_TRUE(table.take_changes().choice);
  EXPECT_FALSE(table.gateways());
}

}  // namespace
}  // namespace meshdns::registry
