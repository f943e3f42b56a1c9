// SPDX-License-Identifier: Apache-2.0
// Compares what a handler notes of questions with the answers that it gives.
#include "dnsd/query/asked_hosts.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/dnsd/query/query_fixture.hpp"

namespace meshdns::dnsd {
namespace {

// "shop/web asks bank/db.bank (hidden)", and the number of questions.
using Rows = std::map<std::string, std::uint64_t>;

std::string row_of(std::string_view ns, std::string_view workload, std::string_view host_ns,
                   std::string_view host, std::string_view result) {
  std::string text(ns);
  text.append("/").append(workload).append(" asks ");
  if (!host_ns.empty()) text.append(host_ns).append("/");
  return text.append(host).append(" (").append(result).append(")");
}

class AskedHostsTest : public QueryFixture {
 protected:
  void begin(bool has_names = false) { handler().count_asked(inbox_, has_names); }
  void be_workload(const std::string& ns, const std::string& app,
                   std::vector<std::string> search = {}) {
    registry::ClientIdentity identity;
    identity.ns = ns;
    identity.labels = {{"app", app}};
    identity.search = std::move(search);
    registry_.be(identity);
  }
  Rows rows() {
    handler().hand_over_asked();
    Rows rows;
    for (const auto& table : inbox_->take()) {
      table->for_each([&](const AskedHost& asked) {
        rows[row_of(asked.ns, asked.workload, asked.host_ns, asked.host,
                    to_string(asked.result))] += asked.questions;
        types_ |= asked.types;
        EXPECT_LE(asked.first_ns, asked.last_ns);
      });
      table->for_each_dropped(
          [&](std::string_view ns, std::string_view workload, std::uint64_t questions) {
            rows[std::string(ns) + "/" + std::string(workload) + " dropped"] += questions;
          });
    }
    return rows;
  }

  std::shared_ptr<AskedInbox> inbox_ = std::make_shared<AskedInbox>(2);
  std::uint16_t types_ = 0;
};

TEST_F(AskedHostsTest, NamesTheObjectThatWasChosen) {
  be_authority();
  load(R"(
Service bank/db
spec: { clusterIP: 10.96.0.1, ports: [{ port: 80 }] }
Service shop/none
spec: { ports: [{ port: 80 }], clusterIP: None }
Service shop/alias
spec: { type: ExternalName, externalName: db.bank.svc.cluster.local }
ServiceEntry bank/wild
spec: { hosts: ["*.example.org"], addresses: [10.0.0.7], resolution: STATIC }
ServiceEntry bank/own
spec: { hosts: [vault.example.net], addresses: [10.0.0.8], resolution: STATIC, exportTo: ["."] }
)");
  be_workload("shop", "orders");
  begin();
  ask("db.bank.svc.cluster.local. A");
  ask("db.bank. AAAA");
  ask("db.bank. A");
  ask("a.example.org. A");
  ask("b.example.org. A");
  ask("vault.example.net. A");
  ask("alias.shop.svc.cluster.local. A");
  ask("none.shop.svc.cluster.local. A");
  ask("www.example.com. A");
  ask("7.0.0.10.in-addr.arpa. PTR");
  ask("version.bind. CH TXT");
  const Rows expected = {
      {"shop/orders asks bank/db.bank.svc.cluster.local (address)", 4},
      {"shop/orders asks bank/*.example.org (address)", 2},
      {"shop/orders asks bank/vault.example.net (hidden)", 1},
      {"shop/orders asks shop/alias.shop.svc.cluster.local (alias)", 1},
      {"shop/orders asks shop/none.shop.svc.cluster.local (nxdomain)", 1},
      {"shop/orders asks  (outside)", 1},
  };
  EXPECT_EQ(rows(), expected);
  EXPECT_EQ(types_, 3U);  // A and AAAA
  EXPECT_EQ(rows(), Rows());
}

TEST_F(AskedHostsTest, CountsSearchNamesForTheNameThatIsMeant) {
  be_authority();
  load(R"(
Namespace /shop
Service bank/db
spec: { clusterIP: 10.96.0.1, ports: [{ port: 80 }] }
Service vault/db {annotations: {networking.istio.io/exportTo: "."}}
spec: { clusterIP: 10.96.0.2, ports: [{ port: 80 }] }
ServiceEntry bank/api
spec: { hosts: [api.example.org], addresses: [10.0.0.7], resolution: STATIC }
)");
  registry::MeshSettings settings;
  settings.search_shortcut = registry::SearchShortcut::Off;
  configure(settings);
  be_workload("shop", "orders");
  begin();
  for (const char* const name : {"db.bank", "db.vault", "api.example.org", "www.example.com"})
    ask(std::string(name) + ".shop.svc.cluster.local. A");
  const Rows expected = {
      {"shop/orders asks bank/db.bank.svc.cluster.local (address)", 1},
      {"shop/orders asks vault/db.vault.svc.cluster.local (hidden)", 1},
      {"shop/orders asks bank/api.example.org (address)", 1},
      {"shop/orders asks  (outside)", 1},
  };
  EXPECT_EQ(rows(), expected);
}

TEST_F(AskedHostsTest, KeepsOutsideNamesOnRequest) {
  be_workload("shop", "orders");
  upstream_.replies["www.example.com. A"] = {.answer = {"www.example.com. 60 A 192.0.2.1"}};
  begin(true);
  ask_through("www.example.com. A");
  ask_through("www.example.com. A");
  ask_through("missing.example.com. A");
  const Rows expected = {
      {"shop/orders asks www.example.com (address)", 2},
      {"shop/orders asks missing.example.com (nxdomain)", 1},
  };
  EXPECT_EQ(rows(), expected);
  handler().count_asked(nullptr, false);
  ask_through("www.example.com. A");
  EXPECT_EQ(rows(), Rows());
}

// Random names must not take the places of the mesh's names.
TEST_F(AskedHostsTest, ACrowdOfOutsideNamesIsOneRowThatGrows) {
  load_api();
  be_workload("shop", "orders");
  begin(true);
  constexpr std::size_t kCrowd = 2 * AskedHosts::kNames;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < kCrowd; ++i) {
    upstream_.replies["x" + std::to_string(i) + ".example.com. A"] = {
        .answer = {"x" + std::to_string(i) + ".example.com. 60 A 192.0.2.1"}};
    ask_through("x" + std::to_string(i) + ".example.com. A");
  }
  ask("api.example.org. A");
  const Rows all = rows();
  for (const auto& [row, questions] : all) seen += questions;
  EXPECT_EQ(seen, kCrowd + 1);
  EXPECT_TRUE(all.contains("shop/orders asks default/api.example.org (address)"));
}

TEST_F(AskedHostsTest, CountsWhatHasNoPlaceForItsClient) {
  std::string text;
  constexpr std::size_t kHosts = AskedHosts::kCells;
  for (std::size_t i = 0; i < kHosts; ++i)
    text += "ServiceEntry bank/e" + std::to_string(i) + "\nspec: { hosts: [h" + std::to_string(i) +
            ".example.org], addresses: [10.0." + std::to_string(i / 256) + "." +
            std::to_string(i % 256) + "], resolution: STATIC }\n";
  load(text);
  be_workload("shop", "orders");
  AskedHosts table(false);
  publish();
  const registry::Snapshot& snapshot = *publisher_->current();
  for (std::size_t i = 0; i < kHosts; ++i) {
    const auto* const entry = snapshot.find_host("h" + std::to_string(i) + ".example.org");
    ASSERT_NE(entry, nullptr);
    table.note({.client = *snapshot.default_client, .type_slot = 0, .now_ns = i}, *entry,
               entry->records()[0]->ns.get(), AskedResult::Address);
  }
  std::size_t rows = 0;
  std::uint64_t dropped = 0;
  table.for_each([&](const AskedHost&) { ++rows; });
  table.for_each_dropped([&](std::string_view, std::string_view workload, std::uint64_t questions) {
    EXPECT_EQ(workload, "orders");
    dropped += questions;
  });
  EXPECT_GE(rows, AskedHosts::kCells / 2);
  EXPECT_EQ(rows + dropped, kHosts);
}

TEST_F(AskedHostsTest, AnInboxThatIsFullLeavesTheTableWhereItIs) {
  auto table = std::make_unique<AskedHosts>(false);
  const AskedHosts* before = nullptr;
  for (std::size_t i = 0; i <= 2 * AskedInbox::kTablesPerWorker; ++i) {
    before = table.get();
    inbox_->put(table);
  }
  EXPECT_EQ(table.get(), before);
  EXPECT_EQ(inbox_->take().size(), 2 * AskedInbox::kTablesPerWorker);
}

// Each object has an address of its own, so that an answer tells which one was chosen.
class AskedWorld : public AskedHostsTest {
 public:
  explicit AskedWorld(std::mt19937_64& random) : random_(random) {
    for (std::size_t i = 0; i < 2 + below(6); ++i) {
      const Object object = {kNamespaces[below(3)], kHosts[below(kHosts.size())]};
      if (std::ranges::any_of(objects_, [&](const auto& known) { return known.second == object; }))
        continue;
      const std::string address = "10.0.0." + std::to_string(i + 1);
      objects_[address] = object;
      text_ += "ServiceEntry " + object.ns + "/e" + std::to_string(i) + "\nspec: { hosts: [\"" +
               object.host + "\"], addresses: [" + address +
               "], resolution: STATIC, exportTo: [\"" + (below(2) == 0 ? "." : "*") + "\"] }\n";
    }
    load(text_);
    begin();
  }

  void ask_something() {
    const std::string ns = kNamespaces[below(3)];
    const std::string app = below(2) == 0 ? "orders" : "cart";
    be_workload(ns, app);
    const std::string name = kNames[below(kNames.size())];
    const std::string answer = ask(name + ". A");
    const std::size_t address = answer.rfind(" A ");
    const std::string hidden = longest_host_of(name);
    if (address != std::string::npos) {
      const Object& object = objects_.at(answer.substr(address + 3));
      ++expected_[row_of(ns, app, object.ns, object.host, "address")];
    } else if (hidden.empty()) {
      ++expected_[row_of(ns, app, "", "", "outside")];
    } else {
      ++expected_[row_of(ns, app, "any", hidden, "hidden")];
    }
  }

  // A host may have several hidden objects: the handler may note any of them.
  void check() {
    Rows noted;
    for (const auto& [noted_row, questions] : rows()) {
      std::string row = noted_row;
      if (row.ends_with("(hidden)")) {
        const std::size_t begin = row.find(" asks ") + 6;
        row.replace(begin, row.find('/', begin) - begin, "any");
      }
      noted[row] += questions;
    }
    EXPECT_EQ(noted, expected_) << text_;
  }

 private:
  struct Object {
    std::string ns;
    std::string host;
    friend bool operator==(const Object&, const Object&) = default;
  };
  static constexpr std::array kNamespaces = {"shop", "bank", "dev"};
  static constexpr std::array kHosts = {"a.example.org", "*.example.org", "b.a.example.org",
                                        "*.a.example.org", "api.example.net"};
  static constexpr std::array kNames = {"a.example.org",     "b.a.example.org", "c.a.example.org",
                                        "x.example.org",     "api.example.net", "www.example.com",
                                        "deep.x.example.org"};

  void TestBody() override {}
  std::size_t below(std::size_t limit) { return random_() % limit; }
  // The exact host, or else the longest wildcard that takes the name in; empty: none does.
  std::string longest_host_of(const std::string& name) const {
    std::string longest;
    for (const auto& [address, object] : objects_) {
      if (object.host == name) return name;
      if (object.host.starts_with("*.") && name.ends_with(object.host.substr(1)) &&
          object.host.size() > longest.size())
        longest = object.host;
    }
    return longest;
  }

  std::mt19937_64& random_;
  std::map<std::string, Object> objects_;  // by address
  std::string text_;
  Rows expected_;
};

TEST(AskedHostsInRandomWorlds, EqualALogOfAllAnswers) {
  std::mt19937_64 random(20261128);
  for (int i = 0; i < 150 && !testing::Test::HasFailure(); ++i) {
    AskedWorld world(random);
    for (int question = 0; question < 40; ++question) world.ask_something();
    world.check();
  }
}

}  // namespace
}  // namespace meshdns::dnsd
