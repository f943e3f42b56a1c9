// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/dependencies.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "registry/base/durable_file.hpp"
#include "registry/base/host_name.hpp"
#include "tests/fewer.hpp"

namespace meshdns::dnsd {

bool operator==(const Dependency& a, const Dependency& b) {
  const auto all = [](const Dependency& d) {
    return std::tie(d.ns, d.workload, d.host_ns, d.host, d.result, d.types, d.questions, d.first,
                    d.last);
  };
  return all(a) == all(b);
}
void PrintTo(const Dependency& d, std::ostream* out) {
  *out << fmt::format("{}/{} {}/{} result={} types={} questions={} {}..{}", d.ns, d.workload,
                      d.host_ns, d.host, static_cast<int>(d.result), d.types, d.questions, d.first,
                      d.last);
}
bool operator==(const DependentWorkload& a, const DependentWorkload& b) {
  return std::tie(a.ns, a.workload, a.since, a.dropped) ==
         std::tie(b.ns, b.workload, b.since, b.dropped);
}
void PrintTo(const DependentWorkload& w, std::ostream* out) {
  *out << fmt::format("{}/{} since={} dropped={}", w.ns, w.workload, w.since, w.dropped);
}

namespace {

using meshdns::test::fewer;

constexpr std::int64_t kNow = 1'800'000'000;
constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kNowNs = 5'000'000 * kSecondNs;
constexpr Dependencies::Limits kNoLimits{.keep = kNow, .memory = std::size_t{1} << 40};

using Key = std::tuple<std::string, std::string, std::string, std::string, AskedResult>;

Key row_key(const Dependency& row) {
  return {row.ns, row.workload, row.host, row.host_ns, row.result};
}

// `row` as a worker has counted it.
void add_row(Dependencies& to, const Dependency& row) {
  to.add({.ns = row.ns,
          .workload = row.workload,
          .host_ns = row.host_ns,
          .host = row.host,
          .result = row.result,
          .types = row.types,
          .questions = static_cast<std::uint32_t>(row.questions),
          .first_ns = kNowNs - static_cast<std::uint64_t>(kNow - row.first) * kSecondNs,
          .last_ns = kNowNs - static_cast<std::uint64_t>(kNow - row.last) * kSecondNs},
         kNowNs, kNow);
}

Dependency asked(std::string workload, std::string host, std::int64_t last = kNow) {
  return {.ns = "shop",
          .workload = std::move(workload),
          .host_ns = "prod",
          .host = std::move(host),
          .result = AskedResult::Address,
          .types = 1,
          .questions = 1,
          .first = last,
          .last = last};
}

// A name that no object has.
Dependency asked_in_vain(std::string workload, std::string host, std::int64_t last = kNow) {
  Dependency row = asked(std::move(workload), std::move(host), last);
  row.host_ns.clear();
  row.result = AskedResult::NxDomain;
  return row;
}

std::vector<Dependency> rows_of(const Dependencies& from, const DependencyFilter& filter = {}) {
  std::vector<Dependency> rows;
  from.for_each(filter, [&](const Dependency& row) { rows.push_back(row); });
  return rows;
}

std::uint64_t dropped_of(const Dependencies& from, std::string_view workload) {
  for (const DependentWorkload& w : from.workloads())
    if (w.workload == workload) return w.dropped;
  return 0;
}

// The model: it forgets nothing.
class Model {
 public:
  void add(const Dependency& row) {
    const auto [known, is_new] = rows_.emplace(row_key(row), row);
    if (is_new) return;
    Dependency& sum = known->second;
    sum.questions += row.questions;
    sum.types |= row.types;
    sum.first = std::min(sum.first, row.first);
    sum.last = std::max(sum.last, row.last);
  }
  std::vector<Dependency> rows(const DependencyFilter& filter = {}) const {
    std::vector<Dependency> found;
    for (const auto& [key, row] : rows_)
      if (matches(filter, row)) found.push_back(row);
    return found;
  }
  std::size_t forget(const DependencyFilter& filter) {
    return std::erase_if(rows_, [&](const auto& node) { return matches(filter, node.second); });
  }
  std::size_t hidden_of(std::string_view ns) const {
    return static_cast<std::size_t>(std::ranges::count_if(rows_, [&](const auto& node) {
      return node.second.ns == ns && node.second.result == AskedResult::Hidden;
    }));
  }

 private:
  static bool matches(const DependencyFilter& filter, const Dependency& row) {
    return (filter.ns.empty() || row.ns == filter.ns) &&
           (filter.workload.empty() || row.workload == filter.workload) &&
           (filter.host.empty() || row.host == filter.host || is_below(row.host, filter.host)) &&
           row.last >= filter.since && (!filter.hidden_only || row.result == AskedResult::Hidden);
  }

  std::map<Key, Dependency> rows_;
};

// Rows of a small world, so that they meet.
class RandomRows {
 public:
  explicit RandomRows(std::uint32_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return random_() % n; }
  Dependency row() {
    Dependency row;
    row.ns = pick({"", "a", "shop", "a-namespace-with-a-longer-name"});
    row.workload = pick({"", "x", "cart", "a-workload-with-a-longer-name"});
    row.host_ns = pick({"", "prod", "another-namespace-with-a-name"});
    row.host = pick({"", "b.example.org", "example.org", "*.example.org", "xexample.org", "db"});
    row.result = static_cast<AskedResult>(below(kAskedResults));
    row.types = static_cast<std::uint16_t>(1U << below(16));
    row.questions = 1 + below(10);
    row.last = kNow - static_cast<std::int64_t>(below(1000));
    row.first = row.last - static_cast<std::int64_t>(below(1000));
    return row;
  }
  DependencyFilter filter() {
    DependencyFilter filter;
    filter.ns = pick({"", "", "shop", "none"});
    filter.workload = pick({"", "", "cart", "none"});
    filter.host = pick({"", "", "example.org", "b.example.org", "org"});
    if (below(2) == 0) filter.since = kNow - static_cast<std::int64_t>(below(1000));
    filter.hidden_only = below(4) == 0;
    return filter;
  }

 private:
  std::string pick(const std::vector<std::string>& texts) { return texts[below(texts.size())]; }

  std::mt19937 random_;
};

// Every operation does what it does to a map of everything.
TEST(DependenciesTest, AreAMapOfAllRows) {
  for (std::uint32_t seed = 1; seed <= fewer(25U); ++seed) {
    RandomRows random(seed);
    Dependencies store;
    store.configure(kNoLimits);
    Model model;
    for (int step = 0; step < 400; ++step) {
      const Dependency row = random.row();
      add_row(store, row);
      model.add(row);
      if (step % 20 != 0) continue;
      DependencyFilter filter = random.filter();
      ASSERT_EQ(rows_of(store, filter), model.rows(filter)) << "seed " << seed;
      ASSERT_EQ(store.hidden_of("shop"), model.hidden_of("shop")) << "seed " << seed;
      if (step % 40 == 0) {
        ASSERT_EQ(store.forget(filter), model.forget(filter)) << "seed " << seed;
      }
      ASSERT_EQ(rows_of(store), model.rows()) << "seed " << seed;
      ASSERT_EQ(store.size(), model.rows().size()) << "seed " << seed;
    }
    EXPECT_EQ(store.dropped(), 0U);
    store.forget({});
    EXPECT_EQ(store.memory(), 0U) << "seed " << seed;
    EXPECT_TRUE(store.workloads().empty());
  }
}

TEST(DependenciesTest, CountTheRowsThatWereNew) {
  Dependencies store;
  add_row(store, asked("cart", "db"));
  add_row(store, asked("cart", "db"));
  add_row(store, asked("cart", "api"));
  EXPECT_EQ(store.added(), 2U);
  Dependencies next;
  ASSERT_TRUE(next.load(store.save()));
  EXPECT_EQ(next.added(), 0U);
}

TEST(DependenciesTest, ListWorkloadsWithTheirFirstQuestion) {
  Dependencies store;
  add_row(store, asked("web", "db", kNow - 5));
  add_row(store, asked("cart", "db", kNow - 7));
  add_row(store, asked("cart", "api", kNow - 9));
  store.add_dropped("shop", "cart", 3);
  store.add_dropped("shop", "none", 4);
  EXPECT_EQ(store.workloads(),
            (std::vector<DependentWorkload>{
                {.ns = "shop", .workload = "cart", .since = kNow - 9, .dropped = 3},
                {.ns = "shop", .workload = "web", .since = kNow - 5}}));
  EXPECT_EQ(store.dropped(), 7U);
}

TEST(DependenciesTest, TakeATimeThatIsNotPastForNow) {
  Dependencies store;
  store.add({.ns = "shop",
             .workload = "cart",
             .host_ns = "prod",
             .host = "db",
             .questions = 1,
             .first_ns = kNowNs + 1,
             .last_ns = kNowNs + kSecondNs},
            kNowNs, kNow);
  EXPECT_EQ(rows_of(store).at(0).first, kNow);
  EXPECT_EQ(rows_of(store).at(0).last, kNow);
}

TEST(DependenciesTest, ALimitOfZeroRecordsNothingAndForgets) {
  for (const Dependencies::Limits& limits :
       {Dependencies::Limits{.keep = 0}, Dependencies::Limits{.memory = 0}}) {
    Dependencies store;
    add_row(store, asked("cart", "db"));
    const std::string saved = store.save();
    store.configure(limits);
    EXPECT_FALSE(store.is_enabled());
    EXPECT_EQ(store.size(), 0U);
    add_row(store, asked("cart", "db"));
    const std::uint64_t version = store.version();
    EXPECT_TRUE(store.load(saved));
    EXPECT_NE(store.version(), version) << "the file is to be written without rows";
    EXPECT_EQ(store.size(), 0U);
    EXPECT_EQ(store.dropped(), 0U);
  }
}

// --- keep ----------------------------------------------------------------------------------------

TEST(DependenciesTest, RowsOlderThanTheLimitGo) {
  Dependencies store;
  store.configure({.keep = 100});
  add_row(store, asked("cart", "db", kNow - 50));
  add_row(store, asked("cart", "api", kNow - 49));
  add_row(store, asked("web", "db", kNow - 50));
  add_row(store, asked_in_vain("cart", "nowhere", kNow - 50));
  store.tick(kNow + 50);
  EXPECT_EQ(store.size(), 4U);
  store.tick(kNow + 51);
  EXPECT_EQ(rows_of(store), std::vector{asked("cart", "api", kNow - 49)});
  EXPECT_EQ(store.workloads().size(), 1U);
  EXPECT_EQ(store.dropped(), 0U);
}

// No tick of a large record takes long, and none is forgotten.
TEST(DependenciesTest, AnOldRecordGoesInSteps) {
  Dependencies store;
  store.configure({.keep = 100, .memory = std::size_t{1} << 30});
  const std::size_t workloads = 3 * Dependencies::kWorkloadsPerTick;
  const std::size_t rows = 3 * Dependencies::kRowsPerTick;
  for (std::size_t i = 0; i < rows; ++i) {
    add_row(store, asked("w" + std::to_string(i % workloads), "h" + std::to_string(i / 97 % 50),
                         kNow - static_cast<std::int64_t>(i % 3)));
  }
  add_row(store, asked("w7", "new"));
  add_row(store, asked("w7", "new"));
  std::size_t before = store.size();
  for (std::size_t ticks = 0; store.size() > 0; ++ticks) {
    ASSERT_LT(ticks, 100U);
    store.tick(kNow + 101);
    EXPECT_LE(before - store.size(), Dependencies::kRowsPerTick);
    before = store.size();
  }
}

// --- memory --------------------------------------------------------------------------------------

// The bound holds whatever is added, and those rows go that the header names.
TEST(DependencyBoundsTest, RemoveTheRightRows) {
  for (std::uint32_t seed = 1; seed <= fewer(10U); ++seed) {
    RandomRows random(seed);
    Dependencies store;
    const std::size_t limit = 2000 + random.below(8000);
    store.configure({.keep = kNow, .memory = limit});
    std::map<Key, Dependency> known;
    std::map<std::pair<std::string, std::string>, std::uint64_t> dropped;  // of workloads
    std::uint64_t all_dropped = 0;
    for (int step = 0; step < 400; ++step) {
      Dependency row = random.row();
      row.result = AskedResult::Address;  // so that many are there already
      add_row(store, row);
      ASSERT_LE(store.memory(), limit);
      known.emplace(row_key(row), row);
      std::map<Key, Dependency> left;
      std::map<std::pair<std::string, std::string>, std::size_t> sizes;  // rows with an object
      std::map<std::pair<std::string, std::string>, std::int64_t> oldest;
      std::size_t without_object = 0;
      std::int64_t oldest_without_object = kNow + 1;
      for (const Dependency& r : rows_of(store)) {
        left.emplace(row_key(r), r);
        const std::pair workload(r.ns, r.workload);
        if (r.host_ns.empty()) {
          ++without_object;
          oldest_without_object = std::min(oldest_without_object, r.last);
        } else {
          ++sizes[workload];
          oldest[workload] = std::min(oldest.emplace(workload, r.last).first->second, r.last);
        }
      }
      std::size_t largest = 0;
      for (const auto& [workload, size] : sizes) largest = std::max(largest, size);
      for (const auto& [key, r] : known) {
        if (left.contains(key)) continue;
        const std::pair workload(r.ns, r.workload);
        ++dropped[workload];
        ++all_dropped;
        const std::int64_t last = key == row_key(row) ? std::max(r.last, row.last) : r.last;
        if (r.host_ns.empty()) {
          ASSERT_LE(last, oldest_without_object) << "seed " << seed << " step " << step;
          continue;
        }
        ASSERT_EQ(without_object, 0U) << "seed " << seed << " step " << step;
        ASSERT_GE(sizes[workload] + 1, largest) << "seed " << seed << " step " << step;
        if (oldest.contains(workload)) {
          ASSERT_LE(last, oldest[workload]) << "seed " << seed << " step " << step;
        }
      }
      ASSERT_EQ(store.dropped(), all_dropped);
      std::set<std::pair<std::string, std::string>> present;
      for (const DependentWorkload& w : store.workloads()) {
        present.emplace(w.ns, w.workload);
        ASSERT_EQ(w.dropped, (dropped[{w.ns, w.workload}])) << "seed " << seed;
      }
      std::erase_if(dropped, [&](const auto& node) { return !present.contains(node.first); });
      known = std::move(left);
    }
    EXPECT_GT(all_dropped, 0U);
    store.configure({.keep = kNow, .memory = limit / 3});
    EXPECT_LE(store.memory(), limit / 3);
    EXPECT_EQ(store.dropped(), all_dropped + known.size() - store.size());
  }
}

TEST(DependencyBoundsTest, ACrowdOfRandomNamesPushesOutNoRowOfTheMesh) {
  Dependencies store;
  store.configure({.keep = kNow, .memory = 100'000});
  std::vector<Dependency> mesh;
  for (int i = 0; store.memory() < 90'000; ++i)
    add_row(store,
            mesh.emplace_back(asked("cart", fmt::format("h{:04}.example.org", i), kNow - 1000)));
  for (int i = 0; i < 20'000; ++i)
    add_row(store, asked_in_vain(i % 3 == 0 ? "cart" : fmt::format("w{}", i), fmt::format("n{}", i),
                                 kNow - 500 + i % 500));
  std::vector<Dependency> left = rows_of(store, {.workload = "cart"});
  std::erase_if(left, [](const Dependency& row) { return row.host_ns.empty(); });
  EXPECT_EQ(left, mesh);
  EXPECT_EQ(store.dropped() + store.size(), store.added());
  EXPECT_GT(dropped_of(store, "cart"), 0U);
  // The mesh may have all of it.
  for (int i = 0; i < 500; ++i) add_row(store, asked("web", fmt::format("h{}.example.org", i)));
  for (const Dependency& row : rows_of(store)) EXPECT_NE(row.host_ns, "");
}

TEST(DependencyBoundsTest, AGreedyWorkloadPushesOutItsOwnRows) {
  Dependencies store;
  store.configure({.keep = kNow, .memory = 200'000});
  for (int w = 0; w < 10; ++w)
    for (int i = 0; i < 50; ++i)
      add_row(store, asked(fmt::format("w{}", w), fmt::format("h{:02}", i), kNow - 900));
  for (int i = 0; i < 20'000; ++i)
    add_row(store, asked("greedy", fmt::format("h{}.example.org", i), kNow - 20'000 + i));
  for (int w = 0; w < 10; ++w) {
    EXPECT_EQ(rows_of(store, {.workload = fmt::format("w{}", w)}).size(), 50U);
    EXPECT_EQ(dropped_of(store, fmt::format("w{}", w)), 0U);
  }
  const auto left = rows_of(store, {.workload = "greedy"});
  EXPECT_GT(left.size(), 100U);
  EXPECT_EQ(dropped_of(store, "greedy"), 20'000 - left.size());
  for (const Dependency& row : left)
    EXPECT_GE(row.last, kNow - static_cast<std::int64_t>(left.size())) << row.host;
}

// A workload that is gone stays in the sum of all that was dropped.
TEST(DependencyBoundsTest, ACrowdOfWorkloadsIsBoundedToo) {
  Dependencies store;
  store.configure({.keep = kNow, .memory = 50'000});
  for (int i = 0; i < 20'000; ++i) {
    add_row(store, asked(fmt::format("w{}", i), "db", kNow - 20'000 + i));
    ASSERT_LE(store.memory(), 50'000U);
  }
  const auto left = store.workloads();
  EXPECT_EQ(left.size(), store.size());
  EXPECT_GT(left.size(), 50U);
  EXPECT_EQ(store.dropped(), 20'000 - left.size());
  for (const Dependency& row : rows_of(store))  // the newest
    EXPECT_GE(row.last, kNow - static_cast<std::int64_t>(left.size())) << row.workload;
}

// A search for the row to remove would take hours.
TEST(DependencyBoundsTest, AMillionRowsAtTheBoundAreNoWork) {
  for (const bool has_object : {true, false}) {
    Dependencies store;
    const int adds = fewer(500'000);
    for (int i = 0; i < adds; ++i) {
      const std::string host = "n" + std::to_string(i) + ".example.org";
      const std::string workload = "w" + std::to_string(i % 100);
      add_row(store, has_object ? asked(workload, host) : asked_in_vain(workload, host));
    }
    EXPECT_LE(store.memory(), std::size_t{16} << 20);
    EXPECT_EQ(store.dropped(), adds - store.size());
    EXPECT_GT(store.size(), fewer(50'000U));
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
std::size_t allocated() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Neither less than there is, nor much more.
TEST(DependencyBoundsTest, CountTheMemoryThatTheAllocatorHasGiven) {
  struct World {
    std::string_view what;
    int workloads;
    int hosts;  // of each workload
    bool have_own_hosts;
  };
  for (const World& world :
       {World{"a usual mesh", 100, 1000, false}, World{"one greedy workload", 1, 50'000, false},
        World{"hosts of their own", 100, 300, true},
        World{"a crowd of workloads", 20'000, 1, false}}) {
    const std::size_t before = allocated();
    Dependencies store;
    store.configure(kNoLimits);
    for (int w = 0; w < world.workloads; ++w)
      for (int h = 0; h < world.hosts; ++h)
        add_row(store, asked(fmt::format("workload-{}", w),
                             fmt::format("service-{}.prod.svc.cluster.local",
                                         world.have_own_hosts ? w * world.hosts + h : h)));
    const std::size_t taken = allocated() - before;
    EXPECT_GE(store.memory() + 2000, taken) << world.what;
    EXPECT_LE(store.memory(), taken * 3 / 2) << world.what;
    RecordProperty(std::string(world.what), fmt::format("{} rows, {} octets of {} counted",
                                                        store.size(), taken, store.memory()));
    if (world.what == "a usual mesh") {
      EXPECT_LE(store.memory(), std::size_t{8} << 20);
    }
    // It gives back what rows that are gone have taken, but for the list of the pieces of `rows_`.
    store.forget({.host = "service-1.prod.svc.cluster.local"});
    for (int w = 0; w < std::min(world.workloads, 500); w += 2)
      store.forget({.workload = fmt::format("workload-{}", w)});
    EXPECT_GE(store.memory() + 100'000, allocated() - before) << world.what;
  }
}
#endif

// --- The file ------------------------------------------------------------------------------------

constexpr std::string_view kMagic = "meshdns-dependencies 1\n";

std::string with_checksum(const std::string& body) {
  return std::string(kMagic) + fmt::format("{:08x}\n", checksum(body)) + body;
}

std::string saved_world() {
  Dependencies store;
  RandomRows random(7);
  for (int i = 0; i < 12; ++i) add_row(store, random.row());
  store.add_dropped("shop", "cart", 300);
  return store.save();
}

TEST(DependencyFileTest, HasAllRowsWorkloadsAndWhatWasDropped) {
  for (std::uint32_t seed = 1; seed <= fewer(20U); ++seed) {
    RandomRows random(seed);
    Dependencies store;
    for (int i = 0; i < 300; ++i) add_row(store, random.row());
    store.add_dropped("shop", "cart", 3);
    Dependencies next;
    ASSERT_TRUE(next.load(store.save()));
    EXPECT_EQ(rows_of(next), rows_of(store));
    EXPECT_EQ(next.workloads(), store.workloads());
    EXPECT_EQ(next.dropped(), store.dropped());
    EXPECT_EQ(next.memory(), store.memory());
  }
}

TEST(DependencyFileTest, IsAddedToWhatHasBeenCounted) {
  for (std::uint32_t seed = 1; seed <= fewer(20U); ++seed) {
    RandomRows random(seed);
    Model model;
    Dependencies before;
    Dependencies after;
    for (int i = 0; i < 200; ++i) {
      const Dependency row = random.row();
      add_row(i % 2 == 0 ? before : after, row);
      model.add(row);
    }
    ASSERT_TRUE(after.load(before.save()));
    EXPECT_EQ(rows_of(after), model.rows());
  }
}

TEST(DependencyFileTest, IsLoadedWithinTheBounds) {
  Dependencies store;
  for (int i = 0; i < 1000; ++i) add_row(store, asked("cart", fmt::format("h{}", i), kNow - i));
  Dependencies next;
  next.configure({.keep = kNow, .memory = 20'000});
  ASSERT_TRUE(next.load(store.save()));
  EXPECT_LE(next.memory(), 20'000U);
  EXPECT_GT(next.size(), 50U);
  EXPECT_EQ(dropped_of(next, "cart"), 1000 - next.size());
}

TEST(DependencyFileTest, ATimeThatIsNotPastIsNow) {
  Dependencies store;
  add_row(store, asked("cart", "db", kNow));
  Dependencies next;
  ASSERT_TRUE(next.load(store.save(), kNow - 500));
  EXPECT_EQ(rows_of(next), std::vector{asked("cart", "db", kNow - 500)});
  EXPECT_EQ(next.workloads().at(0).since, kNow - 500);
}

// Cut anywhere, or with one octet changed, it is refused and adds nothing.
TEST(DependencyFileTest, DamageIsFoundAndAddsNothing) {
  const std::string saved = saved_world();
  Dependencies store;
  add_row(store, asked("cart", "db"));
  const auto refuses = [&](const std::string& octets) {
    const auto loaded = store.load(octets);
    return !loaded && !loaded.error().message.empty() && store.size() == 1 && store.dropped() == 0;
  };
  for (std::size_t size = 0; size < saved.size(); ++size)
    EXPECT_TRUE(refuses(saved.substr(0, size))) << size;
  EXPECT_TRUE(refuses(saved + '\0'));
  for (std::size_t at = 0; at < saved.size(); ++at)
    for (const int bit : {1, 32, 128}) {
      std::string damaged = saved;
      damaged[at] = static_cast<char>(damaged[at] ^ bit);
      EXPECT_TRUE(refuses(damaged)) << at;
    }
}

// A file that nobody has damaged, but whose writer is wrong.
TEST(DependencyFileTest, AnyOctetsWithARightChecksumAreSafe) {
  const std::string body = saved_world().substr(kMagic.size() + 9);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < body.size(); ++at)
    for (const int change : {1, 2, 127, 128, 255}) {
      std::string changed = body;
      changed[at] = static_cast<char>(changed[at] ^ change);
      if (change == 255) changed.resize(at);
      Dependencies store;
      const auto loaded = store.load(with_checksum(changed));
      if (!loaded) ++refused;
      EXPECT_TRUE(loaded || store.size() == 0) << at;
      EXPECT_LE(store.size(), 12U) << at;
    }
  EXPECT_GT(refused, body.size());  // that is, all that are cut
}

TEST(DependencyFileTest, ItsReasonSaysWhatIsWrong) {
  const std::string saved = saved_world();
  const std::string body = saved.substr(kMagic.size() + 9);
  Dependencies store;
  const auto reason = [&](const std::string& octets) { return store.load(octets).error().message; };
  EXPECT_EQ(reason("meshdns-dependencies 2\n" + saved.substr(kMagic.size())),
            "its format is of another version of the program");
  EXPECT_EQ(reason("meshdns-history 1\n"), "it is not a record of dependencies");
  EXPECT_EQ(reason(saved.substr(0, saved.size() - 1)), "damaged: the checksum differs");
  EXPECT_EQ(reason(with_checksum(body.substr(0, body.size() - 1))),
            "damaged: it is cut short, or has too much");
  // No drops; a workload; a host; a row of the second host.
  const std::string row_of_no_host("\0\1\1a\1b\1\0\1\1c\1d\1\0\1\0\1\1\1\0", 21);
  EXPECT_EQ(reason(with_checksum(row_of_no_host)),
            "damaged: a row has a value that does not exist");
}

TEST(DependencyFileTest, HasAVersionForEachState) {
  Dependencies store;
  EXPECT_EQ(store.version(), 0U);
  std::set<std::uint64_t> versions{store.version()};
  const auto is_new = [&] { return versions.insert(store.version()).second; };
  add_row(store, asked("cart", "db"));
  EXPECT_TRUE(is_new());
  add_row(store, asked("cart", "db"));
  EXPECT_TRUE(is_new());
  store.add_dropped("shop", "cart", 1);
  EXPECT_TRUE(is_new());
  store.tick(kNow);
  EXPECT_FALSE(is_new());
  store.forget({});
  EXPECT_TRUE(is_new());
}

}  // namespace
}  // namespace meshdns::dnsd
