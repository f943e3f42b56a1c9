// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/answer_slots.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace meshdns::dnsd {
namespace {

constexpr std::string_view kDomain = "cluster.local";

class AnswerSlotsTest : public testing::Test {
 protected:
  std::uint64_t stamp_of(std::string_view name) {
    registry::ReadNames names;
    names.add(name);
    AnswerDependencies dependencies;
    EXPECT_TRUE(slots_.add_names(names, kDomain, dependencies)) << name;
    return slots_.stamp(dependencies.slots());
  }
  // Whether an answer for `name` survives a change of `host`.
  bool survives(std::string_view name, const std::string& host) {
    const std::uint64_t before = stamp_of(name);
    change({.records = {{host, nullptr, nullptr}}});
    return stamp_of(name) == before;
  }
  void change(const registry::Changes& changes) {
    slots_.begin_change(changes, kDomain);
    slots_.end_change();
  }

  std::vector<std::uint64_t> counters_ = std::vector<std::uint64_t>(MESHDNS_SLOTS);
  AnswerSlots slots_{counters_, AnswerSlots::Key{7}};
};

TEST_F(AnswerSlotsTest, AnswersDependOnTheHostsThatWereLookedFor) {
  EXPECT_FALSE(survives("api.example.org", "api.example.org"));
  EXPECT_FALSE(survives("example.org", "*.example.org"));
  EXPECT_FALSE(survives("web.shop.svc.cluster.local", "web.shop.svc.cluster.local"));
  EXPECT_TRUE(survives("api.example.org", "web.example.org"));
  EXPECT_TRUE(survives("api.example.org", "x.api.example.org"));
  EXPECT_TRUE(survives("web.shop.svc.cluster.local", "db.shop.svc.cluster.local"));
  EXPECT_TRUE(survives("web.shop.svc.cluster.local", "web.test.svc.cluster.local"));
}

TEST_F(AnswerSlotsTest, HostsAboveAllServicesChangeEverything) {
  for (const char* const host :
       {"*.svc.cluster.local", "*.local", "cluster.local", "*", "*.clusterset.local"})
    EXPECT_FALSE(survives("web.shop.svc.cluster.local", host)) << host;
}

TEST_F(AnswerSlotsTest, ChangesOfOneClientLeaveOthers) {
  const std::uint32_t one = slots_.slot_of(*IpAddress::parse("10.0.0.1"));
  const std::uint32_t other = slots_.slot_of(*IpAddress::parse("10.0.0.2"));
  const std::uint64_t before = slots_.stamp({&one, 1});
  const std::uint64_t other_before = slots_.stamp({&other, 1});
  change({.clients = {*IpAddress::parse("10.0.0.1")}});
  EXPECT_NE(slots_.stamp({&one, 1}), before);
  EXPECT_EQ(slots_.stamp({&other, 1}), other_before);
}

TEST_F(AnswerSlotsTest, ChangesOfEverythingAndVeryManyChangesLeaveNothing) {
  const std::uint64_t before = stamp_of("a.example");
  change({.everything = true});
  EXPECT_NE(stamp_of("a.example"), before);
  registry::Changes many;
  for (int i = 0; i < 40'000; ++i)
    many.records.push_back({"h" + std::to_string(i) + ".example.org", nullptr, nullptr});
  const std::uint64_t then = stamp_of("a.example");
  change(many);
  EXPECT_NE(stamp_of("a.example"), then);
}

TEST_F(AnswerSlotsTest, HoldEachNameOnceAndNotTooMany) {
  registry::ReadNames names;
  for (int i = 0; i < 16; ++i) names.add("a" + std::to_string(i % 8));
  AnswerDependencies dependencies;
  EXPECT_TRUE(slots_.add_names(names, kDomain, dependencies));
  EXPECT_EQ(dependencies.slots().size(), 8U);
  names.add("one.more");
  EXPECT_FALSE(slots_.add_names(names, kDomain, dependencies));
}

TEST_F(AnswerSlotsTest, HoldNoNamesThatDidNotFit) {
  registry::ReadNames names;
  while (names.are_complete()) names.add("a.example");
  AnswerDependencies dependencies;
  EXPECT_FALSE(slots_.add_names(names, kDomain, dependencies));
  names.clear();
  EXPECT_TRUE(slots_.add_names(names, kDomain, dependencies));
}

TEST_F(AnswerSlotsTest, MomentsEndWhenAChangeBegins) {
  const AnswerSlots::Moment moment = slots_.now();
  EXPECT_TRUE(slots_.holds(moment));
  slots_.begin_change({}, kDomain);
  EXPECT_FALSE(slots_.holds(moment));
  EXPECT_FALSE(slots_.now().is_usable()) << "the snapshot in use may be the old one";
  slots_.end_change();
  EXPECT_FALSE(slots_.holds(moment));
  EXPECT_TRUE(slots_.holds(slots_.now()));
  EXPECT_FALSE(slots_.holds(AnswerSlots::Moment{}));
}

TEST_F(AnswerSlotsTest, SeveralChangesMayEndTogether) {
  slots_.begin_change({}, kDomain);
  slots_.begin_change({}, kDomain);
  EXPECT_FALSE(slots_.now().is_usable());
  slots_.end_change();
  EXPECT_TRUE(slots_.now().is_usable());
}

TEST_F(AnswerSlotsTest, NothingHoldsAfterTheEnd) {
  const std::uint64_t before = stamp_of("a.example");
  const AnswerSlots::Moment moment = slots_.now();
  slots_.retire();
  slots_.end_change();
  EXPECT_FALSE(slots_.holds(moment));
  EXPECT_FALSE(slots_.now().is_usable());
  EXPECT_NE(stamp_of("a.example"), before);
}

}  // namespace
}  // namespace meshdns::dnsd
