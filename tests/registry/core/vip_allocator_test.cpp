// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/vip_allocator.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "registry/tables/persistent_vips.hpp"
#include "tests/fewer.hpp"

namespace meshdns::registry {
namespace {

std::string assigned(const std::vector<VipAssignment>& all, std::string_view ns,
                     std::string_view host) {
  for (const auto& a : all)
    if (a.ns == ns && a.host == host) return a.v4.to_string() + " " + a.v6.to_string();
  return "none";
}

TEST(HashVipsTest, AgreesWithIstiosPublishedVectors) {
  HashVips vips;
  EXPECT_EQ(assigned(vips.assign({{"", "foo.com"}}, {}), "", "foo.com"),
            "240.240.227.81 2001:2::f0f0:e351");
  EXPECT_EQ(assigned(vips.assign({{"a", "a.example.com"}}, {}), "a", "a.example.com"),
            "240.240.134.206 2001:2::f0f0:86ce");
  EXPECT_EQ(assigned(vips.assign({{"b", "a.example.com"}}, {}), "b", "a.example.com"),
            "240.240.41.100 2001:2::f0f0:2964");
  EXPECT_EQ(
      assigned(vips.assign({{"ns2", "random-1.host.example"}}, {}), "ns2", "random-1.host.example")
          .substr(0, 14),
      "240.240.116.21");
}

// Each entry takes a slot of its own, and the host has the address of the lower one.
TEST(HashVipsTest, ANamespaceHasItsQuotaAndTakesNothingFromOthers) {
  std::vector<VipRequest> requests;
  for (int i = 0; i < 70'000; ++i)
    requests.push_back({"evil", "h" + std::to_string(i) + ".example"});
  requests.push_back({"bank", "api.example"});
  std::vector<std::string> messages;
  HashVips vips(1'000, [&](const std::string& message) { messages.push_back(message); });
  const auto assigned = vips.assign(requests, {});
  EXPECT_EQ(assigned.size(), 1'001U);
  EXPECT_EQ(std::ranges::count(assigned, "bank", &VipAssignment::ns), 1);
  vips.assign(requests, {});
  ASSERT_EQ(messages.size(), 1U) << "said once";
  EXPECT_TRUE(messages[0].starts_with("namespace evil has reached its quota")) << messages[0];
  HashVips without(0, [&](const std::string& message) { messages.push_back(message); });
  without.assign(requests, {});
  EXPECT_TRUE(messages.back().ends_with("a wider range")) << messages.back();
}

TEST(HashVipsTest, SaysEachTimeThatItBecomesFull) {
  std::vector<VipRequest> requests;
  for (int i = 0; i < 65'100; ++i) requests.push_back({"ns", "h" + std::to_string(i)});
  const std::vector<VipRequest> few(requests.begin(), requests.begin() + 10);
  std::vector<std::string> messages;
  HashVips vips(0, [&](const std::string& message) { messages.push_back(message); });
  for (std::size_t round = 1; round <= 2; ++round) {
    vips.assign(few, {});
    vips.assign(requests, {});
    EXPECT_EQ(messages.size(), round);
  }
}

TEST(HashVipsTest, AHostOfTwoEntriesHasTheAddressOfTheLowerSlot) {
  HashVips vips;
  EXPECT_EQ(assigned(vips.assign({{"default", "istio.io"}}, {}), "default", "istio.io"),
            "240.240.122.168 2001:2::f0f0:7aa8");
  const auto twice = vips.assign({{"default", "istio.io"}, {"default", "istio.io"}}, {});
  ASSERT_EQ(twice.size(), 1U);
  EXPECT_EQ(assigned(twice, "default", "istio.io"), "240.240.91.120 2001:2::f0f0:5b78");
}

TEST(HashVipsTest, SlotsThatShareAnAddressTextInV6StayApartInV4) {
  HashVips vips;
  const auto both = vips.assign({{"", "a17061.example.com"}, {"", "a44155.example.com"}}, {});
  EXPECT_EQ(assigned(both, "", "a17061.example.com").substr(0, 13), "240.240.25.11");
  EXPECT_EQ(assigned(both, "", "a44155.example.com").substr(0, 13), "240.240.31.17");
}

class PersistentVipFileTest : public testing::Test {
 protected:
  PersistentVipFileTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "meshdns-vips-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
  }
  ~PersistentVipFileTest() override { std::filesystem::remove_all(directory_); }

  PersistentVips open(std::string_view cidr = "10.99.0.0/24") {
    PersistentVipOptions options;
    options.v4 = *IpPrefix::parse(cidr);
    options.file = directory_ + "/vips";
    options.clock = [this] { return now_; };
    options.report = [this](const std::string& message) { reports_.push_back(message); };
    return PersistentVips(options);
  }

  std::string directory_;
  std::int64_t now_ = 1'000'000;
  std::vector<std::string> reports_;
};

TEST_F(PersistentVipFileTest, NeverMovesOrSharesAVipOverRandomHistoriesAndRestarts) {
  std::mt19937 random(5);
  std::map<std::string, std::string>
      known;  // of hosts that were never away longer than the quarantine
  std::set<std::string> live;
  for (int step = 0; step < test::fewer(2'000); ++step) {
    now_ += 1;
    const std::string host = "h" + std::to_string(random() % 60) + ".example.org";
    if (!live.erase(host))
      live.insert(host);
    else
      known.erase(host);
    std::vector<VipRequest> requests;
    for (const auto& h : live) requests.push_back({"ns", h});
    PersistentVips vips = open();  // a restart at every step
    const auto all = vips.assign(requests, {});
    ASSERT_EQ(all.size(), live.size());
    std::set<std::string> distinct;
    for (const auto& a : all) {
      ASSERT_TRUE(distinct.insert(a.v4.to_string()).second) << a.v4.to_string() << " given twice";
      const auto [it, is_new] = known.emplace(a.host, a.v4.to_string());
      ASSERT_EQ(it->second, a.v4.to_string()) << a.host << " moved";
    }
  }
  EXPECT_TRUE(reports_.empty());
}

TEST_F(PersistentVipFileTest, ReservesTheAddressOfARemovedHost) {
  PersistentVips vips = open("10.99.0.0/30");  // two addresses
  const auto first = vips.assign({{"ns", "a"}, {"ns", "b"}}, {});
  EXPECT_EQ(vips.assign({{"ns", "b"}, {"ns", "c"}}, {}).size(), 1U)
      << "a's address is in quarantine";
  ASSERT_EQ(reports_.size(), 1U);
  EXPECT_NE(reports_[0].find("is full"), std::string::npos);
  EXPECT_EQ(assigned(vips.assign({{"ns", "a"}, {"ns", "b"}}, {}), "ns", "a"),
            assigned(first, "ns", "a"));
  vips.assign({{"ns", "b"}}, {});
  now_ += 301;
  EXPECT_EQ(assigned(vips.assign({{"ns", "b"}, {"ns", "c"}}, {}), "ns", "c"),
            assigned(first, "ns", "a"));
}

TEST_F(PersistentVipFileTest, AgreesBetweenTwoFreshNodesAndAvoidsClaimedAddresses) {
  std::vector<VipRequest> requests;
  for (int i = 0; i < 100; ++i) requests.push_back({"ns", "h" + std::to_string(i)});
  const auto one = open().assign(requests, {});
  std::filesystem::remove(directory_ + "/vips");
  EXPECT_EQ(open().assign(requests, {}), one);
  std::filesystem::remove(directory_ + "/vips");
  for (const auto& a : open().assign(requests, {one[0].v4})) EXPECT_NE(a.v4, one[0].v4);
}

// A damaged file is not a first start: clients know the addresses of its hosts.
TEST_F(PersistentVipFileTest, GivesNoAddressesWhileItsFileIsDamaged) {
  const auto given = open().assign({{"ns", "a"}, {"ns", "b"}}, {});
  const std::string path = directory_ + "/vips";
  std::string text;
  {
    std::ifstream in(path);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (std::size_t cut = 0; cut + 1 < text.size(); ++cut) {
    reports_.clear();
    std::ofstream(path, std::ios::trunc) << text.substr(0, cut);
    PersistentVips vips = open();
    ASSERT_EQ(reports_.size(), 1U) << "cut at " << cut;
    EXPECT_NE(vips.trouble().find("is damaged"), std::string::npos);
    EXPECT_TRUE(vips.assign({{"ns", "c"}}, {}).empty());
    EXPECT_EQ(std::filesystem::file_size(path), cut) << "left as it is";
  }
  std::ofstream(path, std::ios::trunc) << text;
  EXPECT_EQ(open().assign({{"ns", "a"}, {"ns", "b"}}, {}), given) << "restored";
}

TEST_F(PersistentVipFileTest, GivesNoAddressesWhereItsFileCannotBeRead) {
  const std::string path = directory_ + "/vips";
  open().assign({{"ns", "a"}}, {});
  std::filesystem::rename(path, directory_ + "/elsewhere");
  const auto refuses = [&] {
    PersistentVips vips = open();
    return !vips.trouble().empty() && vips.assign({{"ns", "a"}}, {}).empty();
  };
  std::filesystem::create_symlink("elsewhere", path);
  EXPECT_TRUE(refuses()) << "a link";
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(refuses()) << "a FIFO, for which it does not wait";
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_TRUE(refuses()) << "a directory";
  std::filesystem::remove(path);
  std::ofstream(path).close();
  EXPECT_TRUE(refuses()) << "an empty file, which is not the first start";
}

TEST_F(PersistentVipFileTest, DoesNotFollowLinksOrWriteToFifos) {
  const std::string path = directory_ + "/vips";
  const std::string precious = directory_ + "/precious";
  std::ofstream(precious) << "precious";
  std::filesystem::create_symlink("precious", path + ".new");
  EXPECT_EQ(open().assign({{"ns", "a"}}, {}).size(), 1U);
  EXPECT_EQ(std::filesystem::file_size(precious), 8U);
  ASSERT_EQ(mkfifo((path + ".new").c_str(), 0600), 0);
  EXPECT_EQ(open().assign({{"ns", "b"}}, {}).size(), 1U);
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
}

}  // namespace
}  // namespace meshdns::registry
