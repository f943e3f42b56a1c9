// SPDX-License-Identifier: Apache-2.0
#include "resolver/names/cares_lookup.hpp"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <uv.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/resolver/names/message_builder.hpp"

namespace meshdns::resolver {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::SizeIs;

std::size_t open_descriptors() {
  DIR* directory = opendir("/proc/self/fd");
  std::size_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

std::string question_of(const Bytes& message) {
  std::string name;
  std::size_t at = 12;
  for (; message[at] != 0; at += message[at] + std::size_t{1})
    name.append(name.empty() ? "" : ".")
        .append(message.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                message.begin() + static_cast<std::ptrdiff_t>(at) + 1 + message[at]);
  return name + (message[at + 2] == kA ? " A" : " AAAA");
}

// Answers at once, later, or never.
class FakePath final : public QueryPath {
 public:
  void ask(PathQuery query, Reply reply) override {
    asked.push_back(query);
    if (script) return reply(script(query));
    waiting.push_back(std::move(reply));
  }

  std::function<Bytes(const PathQuery&)> script;
  std::vector<PathQuery> asked;
  std::vector<Reply> waiting;
};

MessageBuilder reply_to(const PathQuery& query) {
  const std::string question = question_of(query.message);
  const std::size_t space = question.find(' ');
  return MessageBuilder(question.substr(0, space), question.substr(space) == " A" ? kA : kAaaa,
                        static_cast<std::uint16_t>(query.message[0] << 8 | query.message[1]));
}

Bytes address_reply(const PathQuery& query) {
  const bool v4 = question_of(query.message).ends_with(" A");
  return reply_to(query)
      .answer(query.host, v4 ? kA : kAaaa, v4 ? 60 : 90,
              address_bytes(v4 ? "192.0.2.1" : "2001:db8::1"))
      .bytes();
}

class CaresLookupTest : public testing::Test {
 public:
  ~CaresLookupTest() override {
    lookups_.reset();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "a handle was left open";
  }

 protected:
  CaresLookupTest() {
    uv_loop_init(&loop_);
    lookups_ = std::move(*CaresLookups::open(&loop_, path_, milliseconds{5'000}));
  }

  std::unique_ptr<Lookup> start(const std::string& host, Family family = Family::V4) {
    result_.reset();
    auto lookup = lookups_->start("shop", host, family,
                                  [this](Answer&& answer) { result_ = std::move(answer); });
    EXPECT_FALSE(result_) << "called back before start() returned";
    return lookup;
  }
  Answer look_up(const std::string& host, Family family = Family::V4) {
    const auto lookup = start(host, family);
    while (!result_ && uv_run(&loop_, UV_RUN_ONCE) != 0) {
    }
    return result_.value_or(Answer{});
  }

  uv_loop_t loop_{};
  FakePath path_;
  std::unique_ptr<CaresLookups> lookups_;
  std::optional<Answer> result_;
};

TEST_F(CaresLookupTest, ResolvesBothFamilies) {
  path_.script = address_reply;
  const Answer v4 = look_up("db.example.org", Family::V4);
  ASSERT_EQ(v4.status, Answer::Status::Addresses) << v4.error;
  EXPECT_EQ(v4.addresses[0].to_string(), "192.0.2.1");
  EXPECT_EQ(v4.ttl.count(), 60);
  const Answer v6 = look_up("db.example.org", Family::V6);
  ASSERT_EQ(v6.status, Answer::Status::Addresses) << v6.error;
  EXPECT_EQ(v6.addresses[0].to_string(), "2001:db8::1");
  EXPECT_EQ(v6.ttl.count(), 90);
}

TEST_F(CaresLookupTest, AsksOnceForTheNameAsItIs) {
  path_.script = [](const PathQuery& query) { return reply_to(query).rcode(3).soa(5, 5).bytes(); };
  const Answer answer = look_up("db");
  EXPECT_EQ(answer.status, Answer::Status::NoName) << answer.error;
  ASSERT_THAT(path_.asked, SizeIs(1)) << "no search list is tried, and nothing again";
  EXPECT_EQ(path_.asked[0].ns, "shop");
  EXPECT_EQ(path_.asked[0].host, "db");
  const Bytes& message = path_.asked[0].message;
  EXPECT_EQ(question_of(message), "db A");
  EXPECT_EQ(message[2], 0x01) << "RD";
  EXPECT_EQ(message[11], 1) << "an OPT record";
  EXPECT_EQ(Bytes(message.end() - 2, message.end()), Bytes({0, 0})) << "without options";
}

TEST_F(CaresLookupTest, LocalhostIsNotTakenFromTheHostsFile) {
  path_.script = address_reply;
  const Answer answer = look_up("localhost");
  ASSERT_EQ(answer.status, Answer::Status::Addresses) << answer.error;
  EXPECT_EQ(answer.addresses[0].to_string(), "192.0.2.1");
}

TEST_F(CaresLookupTest, TakesAReplyThatComesLater) {
  const auto lookup = start("db.example.org");
  while (path_.waiting.empty()) uv_run(&loop_, UV_RUN_NOWAIT);
  path_.waiting[0](address_reply(path_.asked[0]));
  EXPECT_FALSE(result_) << "called back from inside of the query path";
  while (!result_) uv_run(&loop_, UV_RUN_ONCE);
  EXPECT_EQ(result_->status, Answer::Status::Addresses) << result_->error;
}

TEST_F(CaresLookupTest, TakesTheLongestReplyOfAStream) {
  path_.script = [](const PathQuery& query) {
    MessageBuilder reply = reply_to(query);
    for (int i = 0; i < 1'400; ++i)
      reply.answer(
          query.host, kA, 60,
          {192, 0, static_cast<std::uint8_t>(i / 250), static_cast<std::uint8_t>(i % 250 + 1)});
    return reply.bytes();
  };
  const Answer answer = look_up("a-rather-long-name.example.org");
  ASSERT_EQ(answer.status, Answer::Status::Addresses) << answer.error;
  EXPECT_THAT(answer.addresses, SizeIs(256));
}

TEST_F(CaresLookupTest, ReturnsTheAliases) {
  path_.script = [](const PathQuery& query) {
    return reply_to(query)
        .answer(query.host, kCname, 60, name_bytes("b.example.org"))
        .answer("b.example.org", kCname, 60, name_bytes("C.example.org"))
        .answer("c.example.org", kA, 60, address_bytes("192.0.2.1"))
        .bytes();
  };
  EXPECT_THAT(look_up("a.example.org").via, ElementsAre("b.example.org", "c.example.org"));
}

TEST_F(CaresLookupTest, FailuresSayWhat) {
  for (const auto& [rcode, text] :
       {std::pair{1, "FORMERR"}, {2, "SERVFAIL"}, {4, "NOTIMP"}, {5, "REFUSED"}, {9, "rcode 9"}}) {
    path_.script = [code = rcode](const PathQuery& query) {
      return reply_to(query).rcode(static_cast<std::uint8_t>(code)).bytes();
    };
    const Answer answer = look_up("db.example.org");
    EXPECT_EQ(answer.status, Answer::Status::Failed);
    EXPECT_EQ(answer.error, text);
  }
  EXPECT_THAT(path_.asked, SizeIs(5)) << "only the query path tries again";
  EXPECT_EQ(look_up(std::string(64, 'a')).error, "not a domain name");
}

TEST_F(CaresLookupTest, NoReplyIsAFailure) {
  path_.script = [](const PathQuery&) { return Bytes(); };
  const Answer answer = look_up("db.example.org");
  EXPECT_EQ(answer.status, Answer::Status::Failed);
  EXPECT_FALSE(answer.error.empty());
  EXPECT_THAT(path_.asked, SizeIs(1));
}

TEST_F(CaresLookupTest, SilenceEndsInAFailureWithinTheTimeout) {
  lookups_->set_timeout(milliseconds{50});
  const Answer answer = look_up("db.example.org");
  EXPECT_EQ(answer.status, Answer::Status::Failed);
  EXPECT_EQ(answer.error, "no answer in time");
  EXPECT_THAT(path_.asked, SizeIs(1));
  path_.waiting[0](address_reply(path_.asked[0]));  // late: nobody is there
}

TEST_F(CaresLookupTest, RepliesToOtherQuestionsAreNoAnswers) {
  lookups_->set_timeout(milliseconds{50});
  path_.script = [](const PathQuery& query) {
    PathQuery other = query;
    other.message[1] ^= 1;  // the ID
    return address_reply(other);
  };
  EXPECT_EQ(look_up("db.example.org").status, Answer::Status::Failed);
  path_.script = [](const PathQuery& query) {
    return MessageBuilder("other.example.org", kA,
                          static_cast<std::uint16_t>(query.message[0] << 8 | query.message[1]))
        .answer("other.example.org", kA, 60, address_bytes("192.0.2.1"))
        .bytes();
  };
  EXPECT_EQ(look_up("db.example.org").status, Answer::Status::Failed);
}

TEST_F(CaresLookupTest, SurvivesAnyReply) {
  lookups_->set_timeout(milliseconds{20});
  for (const Bytes& reply : {Bytes{0}, Bytes(11, 0), Bytes(12, 0xff), Bytes(65'535, 0xc0)}) {
    path_.script = [&reply](const PathQuery&) { return reply; };
    EXPECT_EQ(look_up("db.example.org").status, Answer::Status::Failed);
  }
}

TEST_F(CaresLookupTest, DestroyingALookupCancelsIt) {
  auto lookup = start("db.example.org");
  while (path_.waiting.empty()) uv_run(&loop_, UV_RUN_NOWAIT);
  lookup.reset();
  path_.waiting[0](address_reply(path_.asked[0]));
  lookup = start("db.example.org");
  lookup.reset();  // before anything was asked
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_FALSE(result_);
}

TEST_F(CaresLookupTest, ALookupMayBeDestroyedInItsOwnCallback) {
  path_.script = address_reply;
  std::unique_ptr<Lookup> lookup;
  bool called = false;
  lookup = lookups_->start("shop", "db.example.org", Family::V4, [&](Answer&&) {
    called = true;
    lookup.reset();
  });
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_TRUE(called);
}

TEST_F(CaresLookupTest, LeavesNoDescriptorBehind) {
  path_.script = address_reply;
  look_up("db.example.org");
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) look_up("db.example.org");
  path_.script = nullptr;
  for (int i = 0; i < 20; ++i) start("db.example.org");
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace meshdns::resolver
