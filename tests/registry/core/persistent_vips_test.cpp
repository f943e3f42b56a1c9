// SPDX-License-Identifier: Apache-2.0
// The allocator of `auto_allocate: persistent` beside a simple model, and the parts that it is made
// of.
#include "registry/tables/persistent_vips.hpp"
#include "tests/fewer.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "registry/base/durable_file.hpp"

namespace meshdns::registry {
namespace {

TEST(SlotSetTest, FindsTheNextMemberAsAPlainSetDoes) {
  std::mt19937 random(7);
  for (const std::uint32_t bound : {1U, 2U, 63U, 64U, 65U, 4095U, 4096U, 4097U, 300'000U}) {
    SlotSet slots(bound);
    std::set<std::uint32_t> model;
    for (int step = 0; step < 3'000; ++step) {
      const auto slot = static_cast<std::uint32_t>(random() % bound);
      if (random() % 2 == 0) {
        slots.insert(slot);
        model.insert(slot);
      } else {
        slots.erase(slot);
        model.erase(slot);
      }
      const auto from = static_cast<std::uint32_t>(random() % bound);
      const auto it = model.lower_bound(from);
      const auto expected = it != model.end() ? std::optional(*it)
                            : model.empty()   ? std::nullopt
                                              : std::optional(*model.begin());
      ASSERT_EQ(slots.next_cyclic(from), expected) << "bound " << bound;
    }
  }
}

TEST(VipRangeTest, HasTheSizeOfTheSmallerPrefixAndIgnoresHostBits) {
  struct Case {
    std::string v4, v6;
    std::uint32_t capacity;
    std::string first, last;  // slots
  };
  const Case cases[] = {
      {"240.240.0.0/16", "2001:2::/48", 65'534, "240.240.0.1 2001:2::1",
       "240.240.255.254 2001:2::fffe"},
      {"10.9.200.200/16", "fd00:1::100/120", 254, "10.9.0.1 fd00:1::101", "10.9.0.254 fd00:1::1fe"},
      {"10.9.0.0/16", "fd00:1::abcd:ef01:2345:6789/64", 65'534, "10.9.0.1 fd00:1::1",
       "10.9.255.254 fd00:1::fffe"},
      {"10.9.0.7/30", "fd00::/64", 2, "10.9.0.5 fd00::1", "10.9.0.6 fd00::2"},
      {"10.9.0.0/16", "fd00::ff/126", 2, "10.9.0.1 fd00::fd", "10.9.0.2 fd00::fe"},
      {"10.9.0.0/31", "fd00::/64", 0, "", ""},
      {"10.9.0.1/32", "fd00::/64", 0, "", ""},
      {"10.9.0.0/16", "fd00::/127", 0, "", ""},
      {"10.9.0.0/16", "fd00::1/128", 0, "", ""},
      {"10.0.0.0/4", "fd00::/8", 1U << 24, "0.0.0.1 fd00::1", "1.0.0.0 fd00::100:0"},
  };
  for (const auto& c : cases) {
    const VipRange range(*IpPrefix::parse(c.v4), *IpPrefix::parse(c.v6));
    const auto text = [&](std::uint32_t slot) {
      return range.v4_of(slot).to_string() + " " + range.v6_of(slot).to_string();
    };
    ASSERT_EQ(range.capacity(), c.capacity) << c.v4 << " " << c.v6;
    if (c.capacity == 0) continue;
    EXPECT_EQ(text(0), c.first);
    EXPECT_EQ(text(c.capacity - 1), c.last);
  }
}

TEST(VipRangeTest, FindsTheSlotsOfItsOwnAddressesOnly) {
  const VipRange range(*IpPrefix::parse("10.9.200.200/20"), *IpPrefix::parse("fd00:1::100/118"));
  for (std::uint32_t slot = 0; slot < range.capacity(); ++slot) {
    ASSERT_EQ(range.slot_of(range.v4_of(slot)), slot);
    ASSERT_EQ(range.slot_of(range.v6_of(slot)), slot);
  }
  for (const std::string_view other :
       {"10.9.192.0", "10.9.196.0", "10.9.207.255", "10.9.208.1", "fd00:1::", "fd00:1::3ff",
        "fd00:1::400", "fd00:1:8000::1", "::", "0.0.0.0"})
    EXPECT_EQ(range.slot_of(*IpAddress::parse(other)), std::nullopt) << other;
}

class PersistentVipsTest : public testing::Test {
 protected:
  PersistentVipsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "meshdns-vips-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    options_.file = directory_ + "/vips";
    options_.clock = [this] { return now_; };
    options_.report = [this](const std::string& message) { reports_.push_back(message); };
  }
  ~PersistentVipsTest() override { std::filesystem::remove_all(directory_); }

  void use(std::string_view v4, std::string_view v6) {
    options_.v4 = *IpPrefix::parse(v4);
    options_.v6 = *IpPrefix::parse(v6);
  }
  static std::map<std::string, VipAssignment> by_host(const std::vector<VipAssignment>& all) {
    std::map<std::string, VipAssignment> map;
    for (const auto& a : all) map.emplace(a.ns + "/" + a.host, a);
    return map;
  }

  std::string directory_;
  PersistentVipOptions options_;
  std::int64_t now_ = 1'000'000;
  std::vector<std::string> reports_;
};

// The rules for each assignment, independent of history.
class Model {
 public:
  explicit Model(const PersistentVipOptions& options)
      : v4_(options.v4.network()),
        v6_(options.v6.network()),
        range_(options.v4, options.v6),
        quota_(options.namespace_quota),
        quarantine_(options.quarantine.count()) {}

  void check(const std::map<std::string, VipAssignment>& given, const std::set<std::string>& wanted,
             const std::set<IpAddress>& claimed, std::int64_t now) {
    std::set<IpAddress> used;
    for (const auto& [host, a] : given) {
      ASSERT_TRUE(wanted.contains(host)) << host << " was not asked for";
      check_address(a.v4, v4_, claimed, used);
      check_address(a.v6, v6_, claimed, used);
      const auto was = held_.find(a.v4);
      if (was != held_.end() && now < was->second.until) {
        ASSERT_EQ(was->second.host, host) << a.v4.to_string() << " is in quarantine or held";
      }
      const auto before = given_.find(host);
      if (before != given_.end() && !claimed.contains(before->second.v4) &&
          !claimed.contains(before->second.v6)) {
        ASSERT_EQ(before->second, a) << host << " moved";
      }
    }
    for (const auto& [host, a] : given_)
      if (!given.contains(host) || given.at(host).v4 != a.v4)
        held_[a.v4] = {host, now + quarantine_};
    for (const auto& [host, a] : given) held_[a.v4] = {host, INT64_MAX};
    given_ = given;
    check_quota(wanted, claimed, now);
  }

 private:
  struct Holder {
    std::string host;
    std::int64_t until;
  };

  static void check_address(const IpAddress& address, const IpPrefix& prefix,
                            const std::set<IpAddress>& claimed, std::set<IpAddress>& used) {
    ASSERT_TRUE(prefix.contains(address)) << address.to_string() << " " << prefix.to_string();
    ASSERT_NE(address, prefix.address) << "the network's own";
    ASSERT_FALSE(claimed.contains(address)) << address.to_string() << " is claimed";
    ASSERT_TRUE(used.insert(address).second) << address.to_string() << " given twice";
    if (!address.is_v4()) return;
    std::uint32_t host_bits = 0;
    for (std::size_t i = 12; i < 16; ++i) host_bits = host_bits << 8 | address.octets()[i];
    const std::uint32_t mask = prefix.length == 32 ? 0 : 0xffffffffU >> prefix.length;
    ASSERT_NE(host_bits & mask, mask) << "the broadcast address";
  }

  // No namespace exceeds its quota, and each host without an address has a reason.
  void check_quota(const std::set<std::string>& wanted, const std::set<IpAddress>& claimed,
                   std::int64_t now) {
    std::map<std::string, std::uint32_t> held;
    std::set<std::uint32_t> unusable;
    for (const auto& address : claimed)
      if (const auto slot = range_.slot_of(address)) unusable.insert(*slot);
    for (const auto& [address, holder] : held_) {
      if (now >= holder.until) continue;
      ++held[holder.host.substr(0, holder.host.find('/'))];
      unusable.insert(*range_.slot_of(address));
    }
    for (const auto& [ns, count] : held)
      if (quota_ != 0) {
        ASSERT_LE(count, quota_) << ns;
      }
    for (const auto& host : wanted) {
      if (given_.contains(host)) continue;
      const bool over = quota_ != 0 && held[host.substr(0, host.find('/'))] >= quota_;
      ASSERT_TRUE(over || unusable.size() == range_.capacity()) << host << " has no address";
    }
  }

  const IpPrefix v4_;
  const IpPrefix v6_;
  const VipRange range_;
  const std::uint32_t quota_;
  const std::int64_t quarantine_;
  std::map<std::string, VipAssignment> given_;
  std::map<IpAddress, Holder> held_;
};

TEST_F(PersistentVipsTest, HoldsItsInvariantsOverRandomHistoriesAndRestarts) {
  for (unsigned seed = 0; seed < test::fewer(60U); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto pick = [&](std::uint32_t bound) {
      return static_cast<std::uint32_t>(random() % bound);
    };
    std::filesystem::remove(options_.file);
    use("10.9." + std::to_string(pick(256)) + "." + std::to_string(pick(256)) + "/" +
            std::to_string(24 + pick(9)),
        "fd00:1::" + std::to_string(pick(9999)) + "/" +
            std::to_string(pick(4) == 0 ? 64 : 120 + pick(9)));
    options_.namespace_quota = pick(3) == 0 ? 0 : 1 + pick(20);
    Model model(options_);
    const VipRange range(options_.v4, options_.v6);
    auto vips = std::make_unique<PersistentVips>(options_);
    std::set<std::string> live;
    std::set<IpAddress> claimed;
    for (int step = 0; step < 150; ++step) {
      now_ += pick(10) == 0 ? 400 : pick(30);
      for (std::uint32_t i = pick(8); i > 0; --i) {
        const std::string host =
            "n" + std::to_string(pick(4)) + "/h" + std::to_string(pick(40)) + ".example.org";
        if (!live.erase(host)) live.insert(host);
      }
      if (range.capacity() != 0 && pick(3) == 0) {
        const std::uint32_t slot = pick(range.capacity());
        const IpAddress address = pick(2) == 0 ? range.v4_of(slot) : range.v6_of(slot);
        if (!claimed.erase(address)) claimed.insert(address);
      }
      if (pick(4) == 0) vips = std::make_unique<PersistentVips>(options_);
      std::vector<VipRequest> requests;
      for (const auto& host : live) {
        const auto slash = host.find('/');
        requests.push_back({host.substr(0, slash), host.substr(slash + 1)});
        if (pick(9) == 0) requests.push_back(requests.back());
      }
      const auto all = vips->assign(requests, {claimed.begin(), claimed.end()});
      const auto given = by_host(all);
      ASSERT_EQ(given.size(), all.size()) << "a host has two elements";
      model.check(given, live, claimed, now_);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(PersistentVipsTest, NoNamespaceTakesTheWholeRange) {
  use("10.9.0.0/24", "fd00::/64");
  options_.namespace_quota = 100;
  std::vector<VipRequest> requests;
  for (int i = 0; i < 400; ++i) requests.push_back({"greedy", "h" + std::to_string(i)});
  for (int i = 0; i < 50; ++i) requests.push_back({"modest", "h" + std::to_string(i)});
  PersistentVips vips(options_);
  std::map<std::string, int> count;
  for (const auto& a : vips.assign(requests, {})) ++count[a.ns];
  EXPECT_EQ(count["greedy"], 100);
  EXPECT_EQ(count["modest"], 50);
  ASSERT_EQ(reports_.size(), 1U);
  EXPECT_NE(reports_[0].find("namespace greedy has reached its quota of 100 VIPs"),
            std::string::npos)
      << reports_[0];
  EXPECT_NE(reports_[0].find("mesh.vip_namespace_quota"), std::string::npos);
}

// A namespace that exchanges all of its hosts again and again fills the quarantine, but no more
// than its own share.
TEST_F(PersistentVipsTest, AddressesInQuarantineCountForTheShare) {
  use("10.9.0.0/24", "fd00::/64");
  options_.namespace_quota = 100;
  PersistentVips vips(options_);
  for (int round = 0; round < 5; ++round) {
    std::vector<VipRequest> requests;
    for (int i = 0; i < 100; ++i)
      requests.push_back({"greedy", "r" + std::to_string(round) + "h" + std::to_string(i)});
    vips.assign(requests, {});
  }
  std::vector<VipRequest> modest;
  for (int i = 0; i < 100; ++i) modest.push_back({"modest", "h" + std::to_string(i)});
  EXPECT_EQ(vips.assign(modest, {}).size(), 100U);
}

TEST_F(PersistentVipsTest, NeverGivesAnAddressOfEitherFamilyThatAResourceClaims) {
  use("10.9.0.0/29", "fd00::/64");
  PersistentVips vips(options_);
  const auto all = vips.assign({{"ns", "a"}, {"ns", "b"}, {"ns", "c"}, {"ns", "d"}},
                               {*IpAddress::parse("fd00::1"), *IpAddress::parse("10.9.0.2")});
  ASSERT_EQ(all.size(), 4U);
  for (const auto& a : all) {
    EXPECT_NE(a.v4.to_string(), "10.9.0.1") << "its IPv6 address is claimed";
    EXPECT_NE(a.v6.to_string(), "fd00::2") << "its IPv4 address is claimed";
  }
}

TEST_F(PersistentVipsTest, KeepsAddressesThatAWiderOrMovedRangeStillHas) {
  use("10.9.2.0/24", "fd00::/64");
  const std::vector<VipRequest> requests = {{"ns", "a"}, {"ns", "b"}, {"ns", "c"}};
  const auto before = by_host(PersistentVips(options_).assign(requests, {}));
  use("10.9.0.0/16", "fd00::/64");
  const auto wider = by_host(PersistentVips(options_).assign(requests, {}));
  for (const auto& [host, a] : before) EXPECT_EQ(wider.at(host).v4, a.v4) << host;
  use("10.10.0.0/16", "fd00::/64");
  const auto moved = PersistentVips(options_).assign(requests, {});
  ASSERT_EQ(moved.size(), 3U);
  for (const auto& a : moved) EXPECT_TRUE(options_.v4.contains(a.v4)) << a.v4.to_string();
  EXPECT_TRUE(reports_.empty()) << reports_[0];
}

TEST_F(PersistentVipsTest, DropsAddressesOutsideANarrowerRange) {
  use("10.9.0.0/24", "fd00::/64");
  std::vector<VipRequest> requests;
  for (int i = 0; i < 100; ++i) requests.push_back({"ns", "h" + std::to_string(i)});
  const auto before = by_host(PersistentVips(options_).assign(requests, {}));
  use("10.9.0.0/25", "fd00::/64");
  const auto after = PersistentVips(options_).assign(requests, {});
  EXPECT_EQ(after.size(), 100U);
  for (const auto& a : after) {
    ASSERT_TRUE(options_.v4.contains(a.v4)) << a.v4.to_string();
    const auto& old = before.at(a.ns + "/" + a.host).v4;
    if (options_.v4.contains(old) && old.octets()[15] != 127) {
      EXPECT_EQ(a.v4, old) << a.host;
    }
  }
  EXPECT_TRUE(reports_.empty()) << reports_[0];
}

TEST_F(PersistentVipsTest, ReadsTheFileOfTheFirstFormat) {
  use("10.9.0.0/24", "fd00::/64");
  // The checksum is that of the lines above it.
  std::ofstream(options_.file) << "meshdns-vips 1\nns/a 41 0\nns/b 7 0\nend 3545789081\n";
  const auto all = by_host(PersistentVips(options_).assign({{"ns", "a"}, {"ns", "b"}}, {}));
  EXPECT_TRUE(reports_.empty()) << reports_[0];
  EXPECT_EQ(all.at("ns/a").v4.to_string(), "10.9.0.42");
  EXPECT_EQ(all.at("ns/b").v6.to_string(), "fd00::8");
}

TEST_F(PersistentVipsTest, RefusesAFileThatHasAHostTwice) {
  use("10.9.0.0/24", "fd00::/64");
  for (const std::string second : {"ns/b", "ns/a"}) {
    reports_.clear();
    const std::string text = "meshdns-vips 2\nrange " +
                             VipRange(options_.v4, options_.v6).to_string() + "\nns/a 41 0\n" +
                             second + " 7 0\n";
    std::ofstream(options_.file) << text << "end " << checksum(text) << "\n";
    EXPECT_EQ(PersistentVips(options_).trouble().empty(), second == "ns/b") << second;
  }
}

// A clock that was wrong for a while.
TEST_F(PersistentVipsTest, AnAddressReleasedInTheFutureIsInQuarantineFromNow) {
  use("10.9.0.0/30", "fd00::/64");
  now_ += 1'000'000;
  {
    PersistentVips vips(options_);
    EXPECT_EQ(vips.assign({{"ns", "a"}, {"ns", "b"}}, {}).size(), 2U);
    EXPECT_EQ(vips.assign({}, {}).size(), 0U);
  }
  now_ -= 1'000'000;
  PersistentVips vips(options_);
  EXPECT_EQ(vips.assign({{"ns", "c"}}, {}).size(), 0U);
  now_ += 301;
  EXPECT_EQ(vips.assign({{"ns", "c"}}, {}).size(), 1U);
}

TEST_F(PersistentVipsTest, SaysEachTimeThatARangeOrAShareBecomesFull) {
  for (const std::uint32_t quota : {0U, 1U}) {
    use("10.9.0.0/30", "fd00::/64");
    options_.namespace_quota = quota;
    options_.file.clear();
    reports_.clear();
    PersistentVips vips(options_);
    const std::vector<VipRequest> few = {{"ns", "a"}};
    const std::vector<VipRequest> many = {{"ns", "a"}, {"ns", "b"}, {"ns", "c"}};
    for (std::size_t round = 1; round <= 3; ++round) {
      vips.assign(few, {});
      vips.assign(many, {});
      vips.assign(many, {});
      EXPECT_EQ(reports_.size(), round) << "quota " << quota;
      now_ += 400;
    }
  }
}

// 18.6 s a change with a linear search, on the machine where it was found.
TEST_F(PersistentVipsTest, ChangesAFullRangeWithoutALinearSearch) {
  options_.namespace_quota = 0;
  options_.file.clear();
  PersistentVips vips(options_);
  std::vector<VipRequest> requests;
  for (int i = 0; i < 80'000; ++i) requests.push_back({"ns", "h" + std::to_string(i)});
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t change = 0; change < 10; ++change) {
    requests[change * 100].host += "x";
    now_ += 400;
    EXPECT_GE(vips.assign(requests, {}).size(), 65'533U);
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(taken.count(), 60.0) << "ten changes";
  RecordProperty("milliseconds_a_change", static_cast<int>(taken.count() * 100));
}

}  // namespace
}  // namespace meshdns::registry
