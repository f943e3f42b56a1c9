// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/reflector.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/registry/source/kubernetes/fake_api.hpp"

namespace meshdns::registry::kubernetes {
namespace {

using ::testing::HasSubstr;
using Trouble = ReflectorStatus::Trouble;

std::string bare_object(std::string_view name, int version) {
  return R"({"metadata":{"name":")" + std::string(name) + R"(","resourceVersion":")" +
         std::to_string(version) + R"("}})";
}
std::string event(std::string_view type, std::string_view name, int version) {
  return R"({"type":")" + std::string(type) + R"(","object":)" + bare_object(name, version) + "}\n";
}
std::string bookmark(int version, bool ends_list = false) {
  std::string annotations;
  if (ends_list) annotations = R"(,"annotations":{"k8s.io/initial-events-end":"true"})";
  return R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":")" +
         std::to_string(version) + R"(")" + annotations + "}}}\n";
}
std::string list(std::string_view items, int version, std::string_view token = "") {
  return R"({"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":")" +
         std::to_string(version) + R"(","continue":")" + std::string(token) + R"("},"items":[)" +
         std::string(items) + "]}";
}
std::string status(int code, std::string_view reason, std::string_view message = "no") {
  return R"({"kind":"Status","code":)" + std::to_string(code) + R"(,"reason":")" +
         std::string(reason) + R"(","message":")" + std::string(message) + R"("})";
}

// The set of names that exist according to the reflector.
class Names final : public ReflectorListener {
 public:
  std::optional<std::uint64_t> on_object(const Node& node, std::span<const DocumentProblem>,
                                         bool) override {
    const std::string name(node.find("metadata")->find("name")->text());
    present[hash(name)] = name;
    ++handed_over;
    return hash(name);
  }
  std::optional<std::uint64_t> on_unreadable(const ObjectRef& object, std::string_view) override {
    if (object.name.empty()) return {};
    return hash(std::string(object.name));
  }
  std::optional<std::uint64_t> on_deleted(const ObjectRef& object) override {
    const std::string name(object.name);
    present.erase(hash(name));
    return hash(name);
  }
  void on_listed(std::vector<std::uint64_t> seen) override {
    std::erase_if(present,
                  [&](const auto& item) { return !std::ranges::binary_search(seen, item.first); });
    ++lists;
  }
  void on_state() override {}
  bool may_retry() override { return may; }

  std::string text() const {
    std::set<std::string> names;
    for (const auto& [key, name] : present) names.insert(name);
    std::string all;
    for (const auto& name : names) all += (all.empty() ? "" : " ") + name;
    return all;
  }
  static std::uint64_t hash(const std::string& name) { return std::hash<std::string>()(name); }

  std::map<std::uint64_t, std::string> present;
  int handed_over = 0;
  int lists = 0;
  bool may = true;
};

class ReflectorTest : public ::testing::Test {
 protected:
  ReflectorTest() {
    server_.streams_lists = false;
    make();
  }
  void make() {
    Collection services;
    services.path = kServices;
    services.kind = "Service";
    services.api_version = "v1";
    reflector_ = std::make_unique<Reflector>(
        services, options_,
        Reflector::Environment{transport_, scheduler_, parser_, server_, no_jitter}, names_);
  }
  // Listed as "a b" at version 10, and watching.
  void sync() {
    reflector_->start();
    ASSERT_TRUE(transport_.answer(kServices, 200,
                                  list(bare_object("a", 1) + "," + bare_object("b", 2), 10)));
    ASSERT_TRUE(transport_.begin(kServices));
    ASSERT_EQ(names_.text(), "a b");
    ASSERT_TRUE(reflector_->status().watching);
  }
  const std::string& last_path() const { return transport_.paths.back(); }

  ReflectorOptions options_;
  FakeScheduler scheduler_;
  FakeTransport transport_;
  JsonParser parser_;
  ServerAbilities server_;
  Names names_;
  std::unique_ptr<Reflector> reflector_;
};

TEST_F(ReflectorTest, ListsThenWatchesFromTheListsVersion) {
  reflector_->start();
  EXPECT_EQ(last_path(), "/api/v1/services?limit=500&resourceVersion=0");
  transport_.answer(kServices, 200, list(bare_object("a", 1), 10));
  EXPECT_THAT(last_path(), HasSubstr("?watch=1&allowWatchBookmarks=true&timeoutSeconds=300"));
  EXPECT_THAT(last_path(), HasSubstr("&resourceVersion=10"));
  EXPECT_TRUE(reflector_->status().synced);
}

TEST_F(ReflectorTest, FollowsEvents) {
  sync();
  transport_.send(kServices, event("ADDED", "c", 11) + event("DELETED", "a", 12));
  EXPECT_EQ(names_.text(), "b c");
  EXPECT_EQ(reflector_->status().resource_version, "12");
  EXPECT_EQ(reflector_->status().objects, 2U);
}

TEST_F(ReflectorTest, ReadsPagesAndTakesAwayOnlyAtTheirEnd) {
  sync();
  reflector_->resync();
  transport_.answer(kServices, 200, list(bare_object("b", 2), 20, "t/1="));
  EXPECT_THAT(last_path(), HasSubstr("?limit=500&continue=t%2F1%3D"));
  EXPECT_EQ(names_.text(), "a b") << "no moment of emptiness";
  transport_.answer(kServices, 200, list(bare_object("c", 3), 20));
  EXPECT_EQ(names_.text(), "b c");
}

TEST_F(ReflectorTest, ListsInOnePieceWhenAPagesTokenExpires) {
  reflector_->start();
  transport_.answer(kServices, 200, list(bare_object("a", 1), 10, "t"));
  transport_.answer(kServices, 410, status(410, "Expired"));
  EXPECT_EQ(last_path(), "/api/v1/services");
  transport_.answer(kServices, 200, list(bare_object("b", 2), 30));
  EXPECT_EQ(names_.text(), "b");
  EXPECT_THAT(last_path(), HasSubstr("resourceVersion=30"));
}

TEST_F(ReflectorTest, ListsAgainWhenTheWatchsVersionIsGone) {
  for (const bool as_event : {false, true}) {
    names_ = {};
    make();
    sync();
    if (as_event) {
      transport_.send(kServices, R"({"type":"ERROR","object":)" + status(410, "Expired") + "}");
    } else {
      transport_.end(kServices);
      scheduler_.pass(Milliseconds(1'000));
      transport_.answer(kServices, 410, status(410, "Gone"));
    }
    EXPECT_EQ(last_path(), "/api/v1/services?limit=500") << "as of now, not from a cache";
    transport_.answer(kServices, 200, list(bare_object("c", 40), 41));
    EXPECT_EQ(names_.text(), "c");
    EXPECT_EQ(reflector_->status().relists, 1U);
  }
}

TEST_F(ReflectorTest, ResumesAWatchThatEndsWithoutListing) {
  sync();
  transport_.send(kServices, event("ADDED", "c", 11));
  transport_.end(kServices);
  EXPECT_THAT(last_path(), HasSubstr("resourceVersion=11"));
  EXPECT_EQ(names_.lists, 1);
}

TEST_F(ReflectorTest, WaitsBeforeItResumesAWatchThatEndsAtOnce) {
  sync();
  const std::size_t before = transport_.paths.size();
  transport_.end(kServices);
  EXPECT_EQ(transport_.paths.size(), before);
  scheduler_.pass(Milliseconds(100));
  EXPECT_EQ(transport_.paths.size(), before + 1);
}

TEST_F(ReflectorTest, ResumesFromBookmarks) {
  sync();
  transport_.send(kServices, bookmark(50));
  scheduler_.pass(Milliseconds(2'000));
  transport_.end(kServices, fail("connection reset"));
  EXPECT_THAT(last_path(), HasSubstr("resourceVersion=50"));
}

TEST_F(ReflectorTest, PassesOverAnEventThatComesTwice) {
  sync();
  const int before = names_.handed_over;
  transport_.send(kServices, event("ADDED", "c", 11) + event("ADDED", "c", 11));
  EXPECT_EQ(names_.handed_over, before + 1);
  EXPECT_EQ(reflector_->status().objects, 3U);
  EXPECT_EQ(names_.lists, 1);
}

TEST_F(ReflectorTest, ListsAgainWhenTheOrderIsLost) {
  sync();
  transport_.send(kServices, event("ADDED", "c", 20) + event("MODIFIED", "d", 15));
  EXPECT_EQ(last_path(), "/api/v1/services?limit=500");
}

TEST_F(ReflectorTest, ListsAgainWhenTheServerHasGoneBack) {
  sync();
  transport_.send(kServices, bookmark(5));
  EXPECT_EQ(last_path(), "/api/v1/services?limit=500");
}

TEST_F(ReflectorTest, GoesOnAfterGarbageFromWhereItWas) {
  sync();
  transport_.send(kServices, event("ADDED", "c", 11) + "\x01\x02 garbage");
  EXPECT_EQ(reflector_->status().trouble, Trouble::Failing);
  scheduler_.pass(Milliseconds(200));
  EXPECT_THAT(last_path(), HasSubstr("resourceVersion=11"));
  EXPECT_EQ(names_.text(), "a b c");
}

TEST_F(ReflectorTest, ListsAgainWhenThereIsNothingButGarbage) {
  sync();
  for (int i = 0; i < 2; ++i) {
    transport_.send(kServices, R"({"type":"ADDED","object":"none"})");
    scheduler_.pass(Milliseconds(1'000));
    transport_.begin(kServices);
  }
  EXPECT_EQ(last_path(), "/api/v1/services?limit=500");
  EXPECT_EQ(names_.text(), "a b");
}

TEST_F(ReflectorTest, DoesNotBelieveAListThatIsCutShort) {
  sync();
  reflector_->resync();
  transport_.begin(kServices);
  transport_.send(kServices, R"({"kind":"ServiceList","metadata":{},"items":[)");
  transport_.end(kServices);
  EXPECT_EQ(names_.text(), "a b");
  EXPECT_EQ(reflector_->status().trouble, Trouble::Failing);
  scheduler_.pass(Milliseconds(200));
  transport_.begin(kServices);
  transport_.send(kServices, R"({"kind":"ServiceList","items":[)" + bare_object("c", 1));
  transport_.end(kServices, fail("connection reset by peer"));
  EXPECT_EQ(names_.text(), "a b c");
  EXPECT_EQ(reflector_->status().trouble, Trouble::Unreachable);
}

TEST_F(ReflectorTest, DoesNotBelieveAListOfAnotherKind) {
  sync();
  reflector_->resync();
  transport_.answer(kServices, 200,
                    R"({"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[]})");
  EXPECT_EQ(names_.text(), "a b");
  EXPECT_THAT(reflector_->status().error, HasSubstr("PodList"));
}

TEST_F(ReflectorTest, HasAnEmptyListConfirmedWhereThereWasMuch) {
  options_.suspicious_objects = 2;
  make();
  sync();
  reflector_->resync();
  transport_.answer(kServices, 200, list("", 20));
  EXPECT_EQ(names_.text(), "a b");
  EXPECT_EQ(transport_.open(), 0U);
  scheduler_.pass(options_.confirmation_delay);
  transport_.answer(kServices, 200, list("", 21));
  EXPECT_EQ(names_.text(), "");
}

TEST_F(ReflectorTest, TriesARefusalAgainSoonAtFirstThenSeldom) {
  reflector_->start();
  std::size_t tries = 0;
  for (int second = 0; second < 120; ++second) {
    while (transport_.find(kServices) != nullptr) {
      transport_.answer(kServices, 403, status(403, "Forbidden"));
      ++tries;
    }
    scheduler_.pass(Milliseconds(1'000));
    if (second == 0) {
      EXPECT_GE(transport_.paths.size(), 2U) << "within the first second";
    }
  }
  EXPECT_EQ(reflector_->status().trouble, Trouble::Forbidden);
  EXPECT_LT(tries, 20U);
  tries = 0;
  for (int second = 0; second < 600; ++second) {
    if (transport_.answer(kServices, 403, status(403, "Forbidden"))) ++tries;
    scheduler_.pass(Milliseconds(1'000));
  }
  EXPECT_LE(tries, 10U) << "once a minute at most";
  EXPECT_GE(tries, 4U);
}

TEST_F(ReflectorTest, ObeysRetryAfter) {
  reflector_->start();
  transport_.answer(kServices, 429, status(429, "TooManyRequests"), std::chrono::seconds(7));
  scheduler_.pass(Milliseconds(6'900));
  EXPECT_EQ(transport_.paths.size(), 1U);
  scheduler_.pass(Milliseconds(1'200));
  EXPECT_EQ(transport_.paths.size(), 2U);
}

TEST_F(ReflectorTest, RenewsCredentialsThatAreNotTaken) {
  reflector_->start();
  transport_.answer(kServices, 401, status(401, "Unauthorized"));
  EXPECT_EQ(transport_.renewals, 1);
  scheduler_.pass(Milliseconds(100));
  EXPECT_TRUE(transport_.answer(kServices, 200, list(bare_object("a", 1), 10)));
  EXPECT_EQ(reflector_->status().trouble, Trouble::None);
}

TEST_F(ReflectorTest, TriesOftenEnoughWhileTheServerIsAway) {
  sync();
  transport_.end(kServices, fail("refused"));
  for (int second = 0; second < 300; ++second) {
    if (transport_.find(kServices) != nullptr) transport_.end(kServices, fail("refused"));
    scheduler_.pass(Milliseconds(1'000));
  }
  scheduler_.pass(options_.retry_limit);
  EXPECT_NE(transport_.find(kServices), nullptr) << "4 s after the server is back";
  EXPECT_LT(transport_.paths.size(), 200U);
  EXPECT_THAT(last_path(), HasSubstr("resourceVersion=10")) << "resumes; nothing is listed";
}

TEST_F(ReflectorTest, WaitsForItsTurnWhileOthersProbe) {
  names_.may = false;
  reflector_->start();
  transport_.end(kServices, fail("refused"));
  scheduler_.pass(Milliseconds(60'000));
  EXPECT_EQ(transport_.paths.size(), 1U);
  reflector_->retry_now();
  EXPECT_EQ(transport_.paths.size(), 2U);
}

TEST_F(ReflectorTest, AsksAnewWhenAWatchIsSilent) {
  sync();
  scheduler_.pass(options_.silence_limit / 2);
  transport_.send(kServices, bookmark(12));
  scheduler_.pass(options_.silence_limit - Milliseconds(1));
  EXPECT_EQ(transport_.distrusts, 0);
  scheduler_.pass(Milliseconds(1));
  EXPECT_EQ(transport_.distrusts, 1);
  EXPECT_THAT(last_path(), HasSubstr("resourceVersion=12"));
  EXPECT_EQ(transport_.open(), 1U);
}

TEST_F(ReflectorTest, KeepsWatchesShortWithoutHttp2) {
  transport_.is_multiplexed = false;
  sync();
  EXPECT_THAT(last_path(), HasSubstr("timeoutSeconds=25&"));
  scheduler_.pass(Milliseconds(24'000));
  transport_.end(kServices);
  EXPECT_THAT(last_path(), HasSubstr("timeoutSeconds=25&"));
  EXPECT_EQ(transport_.distrusts, 0);
}

TEST_F(ReflectorTest, AsksAnewAfter40SecondsOfSilenceWithoutHttp2) {
  transport_.is_multiplexed = false;
  sync();
  scheduler_.pass(Milliseconds(39'999));
  EXPECT_EQ(transport_.distrusts, 0);
  scheduler_.pass(Milliseconds(1));
  EXPECT_EQ(transport_.distrusts, 1);
  EXPECT_EQ(transport_.open(), 1U);
  EXPECT_EQ(reflector_->status().errors, 0U);
}

TEST_F(ReflectorTest, LosesNothingInAnHourOfSilence) {
  sync();
  // The server takes every watch, and says nothing, not even by bookmarks.
  for (std::chrono::seconds passed{0}; passed < std::chrono::hours(1); ++passed) {
    scheduler_.pass(std::chrono::seconds(1));
    if (!reflector_->status().watching) {
      ASSERT_TRUE(transport_.begin(kServices));
    }
  }
  EXPECT_GE(transport_.distrusts, 30);
  EXPECT_EQ(reflector_->status().lists, 1U);
  EXPECT_EQ(reflector_->status().errors, 0U);
  EXPECT_THAT(last_path(), HasSubstr("resourceVersion=10"));
  EXPECT_EQ(transport_.open(), 1U);
  EXPECT_EQ(names_.text(), "a b");
  transport_.send(kServices, event("ADDED", "c", 11));
  EXPECT_EQ(names_.text(), "a b c");
}

TEST_F(ReflectorTest, GivesUpOnAServerThatDoesNotAnswer) {
  reflector_->start();
  scheduler_.pass(options_.answer_limit);
  EXPECT_EQ(reflector_->status().trouble, Trouble::Unreachable);
  EXPECT_EQ(transport_.distrusts, 1);
}

TEST_F(ReflectorTest, GivesUpAListThatDoesNotEnd) {
  options_.list_bytes = 10'000;
  make();
  sync();
  transport_.end(kServices, fail("reset"));
  reflector_->resync();
  ASSERT_TRUE(transport_.begin(kServices));
  ASSERT_TRUE(transport_.send(kServices, R"({"items":[)"));
  int parts = 0;
  while (parts < 500 && transport_.send(kServices, bare_object("new", parts) + ",")) ++parts;
  EXPECT_LT(parts, 500);
  EXPECT_THAT(reflector_->status().error, HasSubstr("the list is longer than 10000 bytes"));
  EXPECT_EQ(names_.text(), "a b new") << "nothing is taken away by half a list";
}

TEST_F(ReflectorTest, GivesUpARefusalThatDoesNotEnd) {
  reflector_->start();
  ASSERT_TRUE(transport_.begin(kServices, 500));
  int parts = 0;
  while (parts < 1'000 && transport_.send(kServices, std::string(1'000, 'x'))) ++parts;
  EXPECT_LT(parts, 100);
  EXPECT_THAT(reflector_->status().error, HasSubstr("500 xxx"));
  EXPECT_EQ(transport_.open(), 0U);
}

TEST_F(ReflectorTest, IsPatientWithASlowServer) {
  reflector_->start();
  transport_.begin(kServices);
  const std::string text = list(bare_object("a", 1) + "," + bare_object("b", 2), 10);
  for (const char c : text) {
    scheduler_.pass(options_.answer_limit - Milliseconds(1));
    ASSERT_TRUE(transport_.send(kServices, std::string_view(&c, 1)));
  }
  transport_.end(kServices);
  EXPECT_EQ(names_.text(), "a b");
}

class StreamedListTest : public ReflectorTest {
 protected:
  StreamedListTest() { server_.streams_lists = true; }
};

TEST_F(StreamedListTest, ReadsTheListFromTheWatchAndGoesOnWithIt) {
  reflector_->start();
  EXPECT_THAT(last_path(), HasSubstr("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"));
  transport_.begin(kServices);
  // In no particular order.
  transport_.send(kServices, event("ADDED", "b", 9) + event("ADDED", "a", 3));
  EXPECT_FALSE(reflector_->status().synced);
  transport_.send(kServices, bookmark(10, true) + event("DELETED", "a", 11));
  EXPECT_TRUE(reflector_->status().synced);
  EXPECT_EQ(names_.text(), "b");
  EXPECT_EQ(transport_.paths.size(), 1U);
}

TEST_F(StreamedListTest, ReadsPagesWhereTheServerDoesNotStream) {
  reflector_->start();
  transport_.answer(kServices, 422, status(422, "Invalid", "resourceVersionMatch is forbidden"));
  EXPECT_EQ(last_path(), "/api/v1/services?limit=500&resourceVersion=0");
  EXPECT_FALSE(server_.streams_lists);
}

TEST_F(StreamedListTest, BeginsAnewWhenTheListBreaksOff) {
  reflector_->start();
  transport_.begin(kServices);
  transport_.send(kServices, event("ADDED", "a", 9));
  transport_.end(kServices);
  EXPECT_FALSE(reflector_->status().synced);
  scheduler_.pass(Milliseconds(200));
  EXPECT_THAT(last_path(), HasSubstr("sendInitialEvents"));
  transport_.begin(kServices);
  transport_.send(kServices, event("ADDED", "b", 9) + bookmark(10, true));
  EXPECT_EQ(names_.text(), "b");
}

TEST_F(StreamedListTest, HasAnEmptyListConfirmed) {
  options_.suspicious_objects = 1;
  make();
  reflector_->start();
  transport_.begin(kServices);
  transport_.send(kServices, event("ADDED", "a", 9) + bookmark(10, true));
  reflector_->resync();
  transport_.begin(kServices);
  transport_.send(kServices, bookmark(11, true));
  EXPECT_EQ(names_.text(), "a");
  EXPECT_EQ(transport_.open(), 0U);
  scheduler_.pass(options_.confirmation_delay);
  transport_.begin(kServices);
  transport_.send(kServices, bookmark(11, true));
  EXPECT_EQ(names_.text(), "");
}

}  // namespace
}  // namespace meshdns::registry::kubernetes
