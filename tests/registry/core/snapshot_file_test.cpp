// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/snapshot_file.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Problem = SnapshotFileError::Kind;

constexpr std::int64_t kWrittenAt = 1'700'000'000;

std::string entry(const std::string& name) {
  return "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: " + name +
         ", namespace: shop}\nspec: {hosts: [" + name +
         ".example.org], addresses: [192.0.2.1], resolution: STATIC, "
         "ports: [{number: 80, name: http, protocol: HTTP}]}\n";
}

// A registry with two sources: `files` delivers a.yaml and b.yaml, `table` delivers c.json.
class SavedWorld {
 public:
  SavedWorld() {
    add("a.yaml", entry("one") + entry("two"));
    add("b.yaml", entry("three"));
    add("c.json", entry("four"));
    sources_.sources = {{"files", "east", "net-1", true}, {"table", "", "", false}};
    sources_.source_of = {SavedSources::kNone, 0, 0, 1};
  }

  void add(const std::string& origin, const std::string& yaml) { add(origin, parse(yaml)); }
  void add(const std::string& origin, const std::vector<Resource>& resources) {
    Transaction t;
    std::uint32_t line = 1;
    for (const auto& resource : resources) t.upsert(resource, origin, line++);
    registry_.commit(std::move(t));
  }
  std::string file() const {
    std::string octets;
    const auto written = write_snapshot_file(
        *registry_.current(), sources_, kWrittenAt, [&](std::span<const std::uint8_t> piece) {
          octets.append(reinterpret_cast<const char*>(piece.data()), piece.size());
          return Result<void>();
        });
    EXPECT_TRUE(written);
    return octets;
  }
  SavedSources& sources() { return sources_; }
  const Snapshot& snapshot() const { return *registry_.current(); }

 private:
  Registry registry_{MeshSettings{}};
  SavedSources sources_;
};

// Reads a file that is in memory, of which only `wanted` sources are asked for.
class Reading {
 public:
  explicit Reading(std::string file, std::set<std::string> wanted = {"files", "table"})
      : file_(std::move(file)), wanted_(std::move(wanted)) {}

  auto read() {
    return read_snapshot_file(
        [this](std::span<std::uint8_t> to) -> Result<std::size_t> {
          if (fail_at_ <= place_) return fail("the disk is gone");
          const std::size_t n = std::min(to.size(), file_.size() - place_);
          std::copy_n(file_.begin() + static_cast<std::ptrdiff_t>(place_), n, to.begin());
          place_ += n;
          return n;
        },
        {.wants = [this](const SavedSource& source) { return wanted_.contains(source.name); },
         .origin =
             [this](std::string_view name) {
               names_.emplace_back(name);
               return static_cast<OriginId>(100 + names_.size());
             }});
  }
  void fail_at(std::size_t place) { fail_at_ = place; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::string file_;
  std::set<std::string> wanted_;
  std::size_t place_ = 0;
  std::size_t fail_at_ = SIZE_MAX;
  std::vector<std::string> names_;
};

// "ServiceEntry shop/one from 101 line 1", sorted.
std::vector<std::string> print(const SavedSnapshot& saved) {
  std::vector<std::string> lines;
  for (const auto& resource : saved.resources)
    lines.push_back(resource->label() + " from " + std::to_string(resource->origin()) + " line " +
                    std::to_string(resource->line()));
  std::ranges::sort(lines);
  return lines;
}

TEST(SnapshotFileTest, GivesBackResourcesWithTheirOriginsAndSources) {
  Reading reading(SavedWorld().file());
  const auto saved = reading.read();
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(saved->written_at, kWrittenAt);
  EXPECT_THAT(saved->sources, ElementsAre(SavedSource{"files", "east", "net-1", true},
                                          SavedSource{"table", "", "", false}));
  EXPECT_THAT(saved->wanted, ElementsAre(true, true));
  EXPECT_THAT(reading.names(), ElementsAre("a.yaml", "b.yaml", "c.json"));
  ASSERT_THAT(saved->origins, SizeIs(3));
  EXPECT_EQ(saved->origins[2].name, "c.json");
  EXPECT_EQ(saved->origins[2].source, 1U);
  EXPECT_THAT(print(*saved), ElementsAre("ServiceEntry shop/four from 103 line 1",
                                         "ServiceEntry shop/one from 101 line 1",
                                         "ServiceEntry shop/three from 102 line 1",
                                         "ServiceEntry shop/two from 101 line 2"));
}

TEST(SnapshotFileTest, KeepsEveryOctetOfAResource) {
  const SavedWorld world;
  Reading reading(world.file());
  const auto saved = reading.read();
  ASSERT_TRUE(saved);
  std::multiset<std::string> before;
  std::multiset<std::string> after;
  world.snapshot().resources.for_each(
      [&](const StoredResource& r) { before.emplace(r.encoded()); });
  for (const auto& resource : saved->resources) after.emplace(resource->encoded());
  EXPECT_EQ(before, after);
}

TEST(SnapshotFileTest, LeavesOutSourcesThatNobodyWants) {
  Reading reading(SavedWorld().file(), {"table"});
  const auto saved = reading.read();
  ASSERT_TRUE(saved);
  EXPECT_THAT(saved->wanted, ElementsAre(false, true));
  EXPECT_THAT(reading.names(), ElementsAre("c.json"));
  EXPECT_THAT(print(*saved), ElementsAre("ServiceEntry shop/four from 101 line 1"));
}

TEST(SnapshotFileTest, LeavesOutOriginsWithoutASource) {
  SavedWorld world;
  world.sources().source_of = {SavedSources::kNone, SavedSources::kNone, 0};
  Reading reading(world.file());
  const auto saved = reading.read();
  ASSERT_TRUE(saved);
  EXPECT_THAT(print(*saved), ElementsAre("ServiceEntry shop/three from 101 line 1"));
}

TEST(SnapshotFileTest, HoldsNothingAsWellAsMuch) {
  SavedWorld world;
  world.sources() = {};
  const auto nothing = Reading(world.file()).read();
  ASSERT_TRUE(nothing);
  EXPECT_THAT(nothing->resources, IsEmpty());

  SavedWorld large;
  std::string yaml;
  for (int i = 0; i < 10'000; ++i) yaml += entry("service-" + std::to_string(i));
  large.add("a.yaml", yaml);
  const auto much = Reading(large.file()).read();  // several blocks
  ASSERT_TRUE(much);
  EXPECT_THAT(much->resources, SizeIs(10'004));
}

TEST(SnapshotFileTest, RefusesEveryCut) {
  const std::string file = SavedWorld().file();
  for (std::size_t n = 0; n < file.size(); ++n) {
    const auto saved = Reading(file.substr(0, n)).read();
    ASSERT_FALSE(saved) << n;
    EXPECT_NE(saved.error().kind, Problem::Unreadable);
  }
}

TEST(SnapshotFileTest, RefusesEveryFlippedBit) {
  const std::string file = SavedWorld().file();
  for (std::size_t i = 0; i < file.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = file;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      ASSERT_FALSE(Reading(damaged).read()) << "octet " << i << " bit " << bit;
    }
}

TEST(SnapshotFileTest, RefusesWhatFollowsTheEnd) {
  const auto saved = Reading(SavedWorld().file() + "x").read();
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().kind, Problem::Corrupt);
}

TEST(SnapshotFileTest, RefusesBlocksOfAnotherFile) {
  // The sources of one file with the resources of another: each block is whole by itself.
  SavedWorld other;
  other.add("a.yaml", entry("five"));
  const std::string first = SavedWorld().file();
  const std::string second = other.file();
  constexpr std::size_t kFirstBlock = 19;  // behind the magic line
  const auto end_of_block = [](const std::string& file) {
    return kFirstBlock + 8 + static_cast<unsigned char>(file[kFirstBlock]);
  };
  const auto whole = first.substr(0, end_of_block(first)) + second.substr(end_of_block(second));
  EXPECT_TRUE(Reading(whole).read()) << "the sources are the same";
  SavedWorld renamed;
  renamed.sources().sources[0].name = "other";
  const std::string third = renamed.file();
  const auto mixed = third.substr(0, end_of_block(third)) + second.substr(end_of_block(second));
  EXPECT_FALSE(Reading(mixed).read());
}

TEST(SnapshotFileTest, TellsForeignFromCorrupt) {
  const struct {
    std::string file;
    Problem kind;
  } cases[] = {
      {"meshdns-snapshot 2\nwhatever follows", Problem::Foreign},
      {"meshdns-snapshot 9\n", Problem::Foreign},
      {"", Problem::Corrupt},
      {"#!/bin/sh\nexit 0\nsomething longer\n", Problem::Corrupt},
      {std::string(1000, '\0'), Problem::Corrupt},
  };
  for (const auto& c : cases) {
    const auto saved = Reading(c.file).read();
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().kind, c.kind) << c.file;
  }
}

TEST(SnapshotFileTest, SaysWhyItCannotBeRead) {
  Reading reading(SavedWorld().file());
  reading.fail_at(100);
  const auto saved = reading.read();
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().kind, Problem::Unreadable);
  EXPECT_THAT(saved.error().message, HasSubstr("the disk is gone"));
}

TEST(SnapshotFileTest, EndsTheWritingWithTheFirstError) {
  const SavedWorld world;
  int calls = 0;
  const auto written = write_snapshot_file(world.snapshot(), {}, kWrittenAt,
                                           [&](std::span<const std::uint8_t>) -> Result<void> {
                                             if (++calls == 2) return fail("no space left");
                                             return {};
                                           });
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "no space left");
  EXPECT_EQ(calls, 2);
}

// The number changes with each struct of registry/model/resources.hpp.  It is part of each file, so
// that files of other layouts are not used: another number means that nothing is answered from the
// saved state after an upgrade, unless the reader learns the layout of before.
TEST(SnapshotFileTest, KeepsTheLayoutOfTheVersionBefore) {
  EXPECT_EQ(encoding_layout(), 2'070'713'386U);
}

// A headless Service with an endpoint of each family, by itself.
std::vector<Resource> a_headless_service() {
  auto resources = parse(
      "Service shop/db\nspec: {clusterIP: None, ports: [{port: 80}]}\nEndpointSlice shop/db-1 "
      "{labels: {kubernetes.io/service-name: db}}\naddressType: IPv4\nendpoints: [{addresses: "
      "[10.1.0.1], hostname: m}]\n");
  std::get<EndpointSlice>(resources.at(1))
      .subsets[0]
      .endpoints[0]
      .addresses.push_back(*IpAddress::parse("2001:db8::1"));
  return resources;
}

std::vector<Resource> resources_in(const std::string& file) {
  const auto saved = Reading(file).read();
  EXPECT_TRUE(saved) << saved.error().message;
  std::vector<Resource> resources;
  for (const auto& stored : saved->resources) resources.push_back(stored->decode());
  std::ranges::sort(resources, {}, [](const Resource& r) { return key_of(r).to_string(); });
  std::ranges::reverse(resources);
  return resources;
}

TEST(SnapshotFileTest, ReadsAFileOfTheVersionBefore) {
  constexpr std::string_view kFile =
      "6d657368646e732d736e617073686f7420310a2f000000f5024f10aaa8b2db0780e2cfaa06020566"
      "696c65730465617374056e65742d3101057461626c65000000010006642e79616d6c8e000000f60a"
      "5d7700012a04000473686f7002646200008080808080808080800100010000015000000354435000"
      "0000000000000000025e05000473686f700464622d3100011a6b756265726e657465732e696f2f73"
      "6572766963652d6e616d65026462808080808080808080010264620000010102040a010001062001"
      "0db800000000000000000000000101016d0000000000000000000000f60a5d77";
  std::string octets;
  for (std::size_t i = 0; i < kFile.size(); i += 2)
    octets += static_cast<char>(std::stoi(std::string(kFile.substr(i, 2)), nullptr, 16));
  EXPECT_EQ(resources_in(octets), a_headless_service());
}

// The version before has the same layout.  It finds labels that mean nothing to it.
TEST(SnapshotFileTest, TheVersionBeforeReadsTheOutboundPolicies) {
  auto resources = parse(
      "Sidecar shop/default\nspec: {outboundTrafficPolicy: {mode: ALLOW_ANY}}\nConfigMap "
      "istio-system/istio\ndata: {mesh: 'outboundTrafficPolicy: {mode: REGISTRY_ONLY}'}\n");
  SavedWorld world;
  world.add("p.yaml", resources);
  world.sources().source_of.push_back(0);
  auto read = resources_in(world.file());
  std::erase_if(read, [](const Resource& r) { return kind_of(r) == Kind::ServiceEntry; });
  ASSERT_EQ(read, resources);
  EXPECT_EQ(outbound_policy_of(meta_of(read.at(0))), OutboundPolicy::AllowAny);
  EXPECT_EQ(outbound_policy_of(meta_of(read.at(1))), OutboundPolicy::RegistryOnly);
  for (const Resource& resource : read) EXPECT_EQ(meta_of(resource).labels.size(), 1U);
}

TEST(SnapshotFileTest, TheVersionBeforeReadsTheFamilyOfAService) {
  auto resources = a_headless_service();
  set_only_family(std::get<KubeService>(resources[0]), "IPv4");
  SavedWorld world;
  world.add("d.yaml", resources);
  world.sources().source_of.push_back(0);
  auto read = resources_in(world.file());
  std::erase_if(read, [](const Resource& r) { return kind_of(r) == Kind::ServiceEntry; });
  EXPECT_EQ(read, resources);
  std::get<KubeService>(read.at(0)).meta.labels.clear();
  EXPECT_EQ(read, a_headless_service());
}

}  // namespace
}  // namespace meshdns::registry
