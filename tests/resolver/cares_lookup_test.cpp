// SPDX-License-Identifier: Apache-2.0
#include "resolver/cares_lookup.hpp"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <uv.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "registry/base/host_name.hpp"
#include "tests/resolver/scripted_server.hpp"

namespace meshdns::resolver {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::size_t open_descriptors() {
  DIR* directory = opendir("/proc/self/fd");
  std::size_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

// One client cookie, and the servers' as learned, for ever.
class FakeCookies final : public ServerCookies {
 public:
  std::string option(const std::string& server) override { return client_part + learned[server]; }
  Verdict judge(const std::string& server, std::string_view option, TimePoint) override {
    if (option.empty()) return learned[server].empty() ? Verdict::Believed : Verdict::Missing;
    if (!option.starts_with(client_part)) return Verdict::Foreign;
    learned[server] = option.substr(client_part.size());
    return Verdict::Believed;
  }
  void note_stream_reply(const std::string& server, std::string_view option, TimePoint) override {
    if (option.empty()) learned[server].clear();
  }
  void note_stream_failure(const std::string&, TimePoint) override { ++failures; }

  const std::string client_part = "our eigh";
  std::map<std::string, std::string> learned;
  int failures = 0;
};

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

class CaresLookupTest : public testing::Test {
 public:
  ~CaresLookupTest() override {
    lookups_.reset();
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "a handle was left open";
  }

 protected:
  CaresLookupTest() { uv_loop_init(&loop_); }

  void use(const std::vector<std::string>& servers, milliseconds timeout = milliseconds{600}) {
    CaresOptions options;
    options.servers_for = [servers](std::string_view) { return servers; };
    options.timeout = timeout;
    options.cookies = &cookies_;
    lookups_ = std::move(*CaresLookups::open(&loop_, std::move(options)));
  }

  Answer look_up(const std::string& host, Family family = Family::V4) {
    std::optional<Answer> result;
    const auto lookup =
        lookups_->start(host, family, [&](Answer&& answer) { result = std::move(answer); });
    EXPECT_FALSE(result) << "called back before start() returned";
    while (!result && uv_run(&loop_, UV_RUN_ONCE) != 0) {
    }
    return result.value_or(Answer{});
  }

  // The first address, or why there is none.
  std::string first_address(const std::string& host) {
    const Answer answer = look_up(host);
    return answer.addresses.empty() ? answer.error : answer.addresses[0].to_string();
  }

  static std::vector<Bytes> answer_192_0_2_1(const ReceivedQuery& query) {
    if (query.qtype != kA) return {reply_to(query).soa(5, 5).bytes()};
    return {reply_to(query).answer(query.qname, kA, 60, address_bytes("192.0.2.1")).bytes()};
  }

  uv_loop_t loop_{};
  FakeCookies cookies_;
  std::unique_ptr<CaresLookups> lookups_;
};

TEST_F(CaresLookupTest, ResolvesBothFamilies) {
  ScriptedServer server(&loop_, [](const ReceivedQuery& query) -> std::vector<Bytes> {
    const bool v4 = query.qtype == kA;
    return {reply_to(query)
                .answer(query.qname, query.qtype, v4 ? 60 : 90,
                        address_bytes(v4 ? "192.0.2.1" : "2001:db8::1"))
                .bytes()};
  });
  use({server.address()});
  const Answer v4 = look_up("db.example.org", Family::V4);
  ASSERT_EQ(v4.status, Answer::Status::Addresses) << v4.error;
  EXPECT_EQ(v4.addresses[0].to_string(), "192.0.2.1");
  EXPECT_EQ(v4.ttl.count(), 60);
  const Answer v6 = look_up("db.example.org", Family::V6);
  ASSERT_EQ(v6.status, Answer::Status::Addresses) << v6.error;
  EXPECT_EQ(v6.addresses[0].to_string(), "2001:db8::1");
  EXPECT_EQ(v6.ttl.count(), 90);
}

TEST_F(CaresLookupTest, AsksForTheNameAsItIsWithRecursionAndEdns1232) {
  ScriptedServer server(&loop_, [](const ReceivedQuery& query) -> std::vector<Bytes> {
    return {reply_to(query).rcode(3).soa(5, 5).bytes()};
  });
  use({server.address()});
  const Answer answer = look_up("db");
  EXPECT_EQ(answer.status, Answer::Status::NoName) << answer.error;
  ASSERT_EQ(server.queries().size(), 1u) << "no search list is tried";
  EXPECT_EQ(to_lower(server.queries()[0].qname), "db");
  EXPECT_TRUE(server.queries()[0].recursion_desired);
  EXPECT_EQ(server.queries()[0].edns_payload, 1232);
}

TEST_F(CaresLookupTest, LocalhostIsNotTakenFromTheHostsFile) {
  ScriptedServer server(&loop_, answer_192_0_2_1);
  use({server.address()});
  EXPECT_EQ(first_address("localhost"), "192.0.2.1");
}

// As many ports as lookups, IDs all over the range.
TEST_F(CaresLookupTest, PortsAndIdsAreFreshForEveryLookup) {
  ScriptedServer server(&loop_, answer_192_0_2_1);
  use({server.address()});
  constexpr int kLookups = 1'000;
  for (int i = 0; i < kLookups; ++i) look_up(numbered("n", i, ".example.org"));
  std::set<std::uint16_t> ports;
  std::set<std::uint16_t> ids;
  int high_ids = 0;
  for (const ReceivedQuery& query : server.queries()) {
    ports.insert(query.source_port);
    ids.insert(query.id);
    high_ids += query.id >= 0x8000 ? 1 : 0;
  }
  ASSERT_EQ(server.queries().size(), static_cast<std::size_t>(kLookups));
  // Birthday: about 18 repeated ports of 28,232 and 8 repeated IDs of 65,536 are expected.
  EXPECT_GT(ports.size(), 950u);
  EXPECT_GT(ids.size(), 970u);
  // Within five standard deviations of a half.
  EXPECT_GT(high_ids, 420);
  EXPECT_LT(high_ids, 580);
  EXPECT_GT(*ports.rbegin() - *ports.begin(), 16'384);
}

TEST_F(CaresLookupTest, TruncationIsAskedAgainOverTcp) {
  ScriptedServer server(&loop_, [](const ReceivedQuery& query) -> std::vector<Bytes> {
    if (!query.tcp) return {reply_to(query).flags_high(0x83).bytes()};
    MessageBuilder reply = reply_to(query);
    for (int i = 0; i < 200; ++i)
      reply.answer(query.qname, kA, 60, address_bytes(numbered("192.0.2.", i, "")));
    return {reply.bytes()};
  });
  use({server.address()});
  const Answer answer = look_up("db.example.org");
  EXPECT_EQ(answer.addresses.size(), 200u) << answer.error;
  ASSERT_EQ(server.queries().size(), 2u);
  EXPECT_TRUE(server.queries()[1].tcp);
}

TEST_F(CaresLookupTest, SilenceEndsInAFailureWithinTheTimeout) {
  ScriptedServer server(&loop_, [](const ReceivedQuery&) -> std::vector<Bytes> { return {}; });
  use({server.address()}, milliseconds{400});
  const std::uint64_t start = uv_hrtime();
  const Answer answer = look_up("db.example.org");
  const double elapsed_ms = static_cast<double>(uv_hrtime() - start) / 1e6;
  EXPECT_EQ(answer.status, Answer::Status::Failed);
  EXPECT_EQ(answer.error, "no answer in time (asked " + server.address() + ")");
  EXPECT_GE(elapsed_ms, 300);
  EXPECT_LT(elapsed_ms, 4'000) << "c-ares alone would wait for 5 s";
  EXPECT_GE(server.queries().size(), 2u) << "a lost packet is sent again";
}

TEST_F(CaresLookupTest, TheNextServerIsAskedWhenOneFails) {
  struct Case {
    const char* name;
    ScriptedServer::Script script;
  };
  const Case cases[] = {
      {"silent", [](const ReceivedQuery&) -> std::vector<Bytes> { return {}; }},
      {"SERVFAIL",
       [](const ReceivedQuery& query) -> std::vector<Bytes> {
         return {reply_to(query).rcode(2).bytes()};
       }},
      {"REFUSED",
       [](const ReceivedQuery& query) -> std::vector<Bytes> {
         return {reply_to(query).rcode(5).bytes()};
       }},
  };
  for (const Case& test : cases) {
    ScriptedServer bad(&loop_, test.script);
    ScriptedServer good(&loop_, answer_192_0_2_1);
    use({bad.address(), good.address()});
    const Answer answer = look_up("db.example.org");
    EXPECT_EQ(answer.status, Answer::Status::Addresses) << test.name << ": " << answer.error;
    EXPECT_GE(bad.queries().size(), 1u) << test.name;
  }
}

TEST_F(CaresLookupTest, FailuresSayWhatAndWho) {
  ScriptedServer server(&loop_, [](const ReceivedQuery& query) -> std::vector<Bytes> {
    return {reply_to(query).rcode(2).bytes()};
  });
  use({server.address()});
  const Answer answer = look_up("db.example.org");
  EXPECT_EQ(answer.status, Answer::Status::Failed);
  EXPECT_THAT(answer.error, HasSubstr("(asked " + server.address() + ")"));
}

TEST_F(CaresLookupTest, APortWhereNobodyListensFailsSoon) {
  std::string address;
  {
    ScriptedServer server(&loop_, answer_192_0_2_1);
    address = server.address();
  }
  uv_run(&loop_, UV_RUN_DEFAULT);
  use({address}, milliseconds{5'000});
  const std::uint64_t start = uv_hrtime();
  const Answer answer = look_up("db.example.org");
  EXPECT_EQ(answer.status, Answer::Status::Failed);
  EXPECT_LT(static_cast<double>(uv_hrtime() - start) / 1e6, 4'000);
}

TEST_F(CaresLookupTest, NoServerIsAFailureOfItsOwn) {
  for (const std::vector<std::string>& servers :
       {std::vector<std::string>{}, {"not an address"}, {"192.0.2.1"}, {"192.0.2.1:0"}}) {
    use(servers);
    const Answer answer = look_up("db.example.org");
    EXPECT_EQ(answer.status, Answer::Status::Failed);
    EXPECT_EQ(answer.error, "no upstream server serves this name");
  }
}

TEST_F(CaresLookupTest, ServersAreChosenByName) {
  ScriptedServer corporate(&loop_, [](const ReceivedQuery& query) -> std::vector<Bytes> {
    return {reply_to(query).answer(query.qname, kA, 60, address_bytes("198.51.100.1")).bytes()};
  });
  ScriptedServer other(&loop_, answer_192_0_2_1);
  CaresOptions options;
  options.servers_for = [&](std::string_view host) {
    return std::vector{host.ends_with("corp.example") ? corporate.address() : other.address()};
  };
  lookups_ = std::move(*CaresLookups::open(&loop_, std::move(options)));
  EXPECT_EQ(first_address("db.corp.example"), "198.51.100.1");
  EXPECT_EQ(first_address("db.example.org"), "192.0.2.1");
}

TEST_F(CaresLookupTest, EveryLookupHasACaseOfItsOwn) {
  ScriptedServer server(&loop_, answer_192_0_2_1);
  use({server.address()});
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(first_address("a-name-of-many-letters.example.org"), "192.0.2.1");
    names.insert(server.queries().back().qname);
    EXPECT_EQ(to_lower(server.queries().back().qname), "a-name-of-many-letters.example.org");
  }
  EXPECT_GT(names.size(), 98u);
}

TEST_F(CaresLookupTest, RetriesHaveAPortAnIdAndACaseOfTheirOwn) {
  int seen = 0;
  ScriptedServer server(&loop_, [&](const ReceivedQuery& query) -> std::vector<Bytes> {
    return ++seen % 2 == 1 ? std::vector<Bytes>{} : answer_192_0_2_1(query);
  });
  use({server.address()}, milliseconds{300});
  int same_port = 0;
  int same_id = 0;
  int same_case = 0;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(first_address("a-name-of-many-letters.example.org"), "192.0.2.1");
    ASSERT_EQ(server.queries().size(), 2u * static_cast<std::size_t>(i + 1));
    const ReceivedQuery& first = server.queries()[2 * static_cast<std::size_t>(i)];
    const ReceivedQuery& again = server.queries()[2 * static_cast<std::size_t>(i) + 1];
    same_port += first.source_port == again.source_port ? 1 : 0;
    same_id += first.id == again.id ? 1 : 0;
    same_case += first.qname == again.qname ? 1 : 0;
  }
  EXPECT_LE(same_port, 1);
  EXPECT_LE(same_id, 1);
  EXPECT_LE(same_case, 1);
}

// Only what comes over TCP shows that the server is like that; a forged reply would look the same.
TEST_F(CaresLookupTest, ServersThatChangeTheCaseAreAskedOverTcpOnce) {
  ScriptedServer server(&loop_, [](ReceivedQuery query) -> std::vector<Bytes> {
    query.qname = to_lower(query.qname);
    return answer_192_0_2_1(query);
  });
  use({server.address()}, milliseconds{900});
  EXPECT_EQ(first_address("db.example.org"), "192.0.2.1");
  EXPECT_TRUE(server.queries().back().tcp);
  const std::size_t before = server.queries().size();
  EXPECT_EQ(first_address("api.example.org"), "192.0.2.1");
  EXPECT_EQ(server.queries().size(), before + 1);
  EXPECT_FALSE(server.queries().back().tcp);
  EXPECT_EQ(server.queries().back().qname, "api.example.org");
}

// A forged answer is ignored, and the true answer that comes after it is taken.
TEST_F(CaresLookupTest, ForgedAnswersAreIgnored) {
  struct Case {
    const char* name;
    std::function<Bytes(const ReceivedQuery&)> lie;
  };
  const auto lie = [](const ReceivedQuery& query) {
    return reply_to(query).answer(query.qname, kA, 60, address_bytes("192.0.2.66"));
  };
  const Case cases[] = {
      {"wrong ID",
       [&](const ReceivedQuery& query) {
         Bytes bytes = lie(query).bytes();
         bytes[1] ^= 1;
         return bytes;
       }},
      {"wrong name",
       [&](ReceivedQuery query) {
         query.qname = "da.example.org";
         return lie(query).bytes();
       }},
      {"wrong case",
       [&](ReceivedQuery query) {
         for (char& c : query.qname) {
           const char lower = to_lower(c);
           if (lower >= 'a' && lower <= 'z') c = c == lower ? static_cast<char>(c - 0x20) : lower;
         }
         return lie(query).bytes();
       }},
      {"no question",
       [&](const ReceivedQuery& query) {
         Bytes bytes = lie(query).bytes();
         bytes[5] = 0;
         return bytes;
       }},
      {"a query",
       [&](const ReceivedQuery& query) {
         Bytes bytes = lie(query).bytes();
         bytes[2] &= 0x7f;
         return bytes;
       }},
      {"wrong type",
       [&](ReceivedQuery query) {
         query.qtype = kAaaa;
         return lie(query).bytes();
       }},
      {"garbage", [](const ReceivedQuery&) { return Bytes{1, 2, 3, 4, 5}; }},
  };
  for (const Case& test : cases) {
    ScriptedServer server(&loop_, [&](const ReceivedQuery& query) {
      std::vector<Bytes> replies{test.lie(query)};
      replies.push_back(answer_192_0_2_1(query)[0]);
      return replies;
    });
    use({server.address()});
    const Answer answer = look_up("db.example.org");
    ASSERT_EQ(answer.status, Answer::Status::Addresses) << test.name << ": " << answer.error;
    EXPECT_EQ(answer.addresses[0].to_string(), "192.0.2.1") << test.name;
    EXPECT_EQ(server.queries().size(), 1u) << test.name;
  }
}

TEST_F(CaresLookupTest, AServerWithoutEdnsIsAskedWithoutIt) {
  ScriptedServer server(&loop_, [](const ReceivedQuery& query) -> std::vector<Bytes> {
    if (query.edns_payload != 0) {
      Bytes refusal(12, 0);
      refusal[0] = static_cast<std::uint8_t>(query.id >> 8);
      refusal[1] = static_cast<std::uint8_t>(query.id & 0xff);
      refusal[2] = 0x81;
      refusal[3] = 0x81;  // FORMERR without the question, as old servers send it
      return {refusal, reply_to(query).rcode(1).bytes()};
    }
    return answer_192_0_2_1(query);
  });
  use({server.address()});
  const Answer answer = look_up("db.example.org");
  EXPECT_EQ(answer.status, Answer::Status::Addresses) << answer.error;
}

TEST_F(CaresLookupTest, QueriesHaveTheCookieThatTheServerGave) {
  ScriptedServer server(&loop_, [](const ReceivedQuery& query) -> std::vector<Bytes> {
    return {reply_to(query)
                .answer(query.qname, kA, 60, address_bytes("192.0.2.1"))
                .cookie(bytes_of("our eighits eight"))
                .bytes()};
  });
  use({server.address()});
  look_up("a.example.org");
  look_up("b.example.org");
  ASSERT_EQ(server.queries().size(), 2u);
  EXPECT_EQ(server.queries()[0].cookie, bytes_of("our eigh"));
  EXPECT_EQ(server.queries()[1].cookie, bytes_of("our eighits eight"));
}

// A forger who guessed the port, the ID and the case would have to guess the cookie, too.
TEST_F(CaresLookupTest, RepliesWithoutTheCookieLeadToTcp) {
  ScriptedServer server(&loop_, [](const ReceivedQuery& query) -> std::vector<Bytes> {
    MessageBuilder reply = reply_to(query);
    reply.answer(query.qname, kA, 60, address_bytes(query.tcp ? "192.0.2.1" : "203.0.113.66"));
    return {query.tcp ? reply.cookie(bytes_of("our eighits eight")).bytes() : reply.bytes()};
  });
  use({server.address()});
  cookies_.learned[server.address()] = "its eight";
  EXPECT_EQ(first_address("a.example.org"), "192.0.2.1");
  ASSERT_EQ(server.queries().size(), 2u);
  EXPECT_TRUE(server.queries()[1].tcp);
  EXPECT_EQ(server.queries()[1].cookie, bytes_of("our eighits eight"));
  EXPECT_EQ(cookies_.failures, 0);
}

TEST_F(CaresLookupTest, AServerThatHasLostItsCookiesIsBelievedAgain) {
  ScriptedServer server(&loop_, answer_192_0_2_1);
  use({server.address()});
  cookies_.learned[server.address()] = "its eight";
  EXPECT_EQ(first_address("a.example.org"), "192.0.2.1");
  EXPECT_EQ(first_address("b.example.org"), "192.0.2.1");
  EXPECT_EQ(server.queries().size(), 3u) << "TCP only once";
}

TEST_F(CaresLookupTest, RepliesWithTheCookieOfOthersAreIgnored) {
  ScriptedServer server(&loop_, [](const ReceivedQuery& query) -> std::vector<Bytes> {
    MessageBuilder forged = reply_to(query);
    forged.answer(query.qname, kA, 60, address_bytes("203.0.113.66"));
    MessageBuilder right = reply_to(query);
    right.answer(query.qname, kA, 60, address_bytes("192.0.2.1"));
    return {forged.cookie(bytes_of("not oursits eight")).bytes(),
            right.cookie(bytes_of("our eighits eight")).bytes()};
  });
  use({server.address()});
  EXPECT_EQ(first_address("a.example.org"), "192.0.2.1");
  EXPECT_EQ(server.queries().size(), 1u);
}

TEST_F(CaresLookupTest, ANewCookieIsUsedAtOnce) {
  ScriptedServer server(&loop_, [](const ReceivedQuery& query) -> std::vector<Bytes> {
    const Bytes fresh = bytes_of("our eighnew eight");
    if (query.cookie != fresh) return {reply_to(query).rcode(7).cookie(fresh, 1).bytes()};
    return {reply_to(query)
                .answer(query.qname, kA, 60, address_bytes("192.0.2.1"))
                .cookie(fresh)
                .bytes()};
  });
  use({server.address()});
  EXPECT_EQ(first_address("a.example.org"), "192.0.2.1");
  EXPECT_EQ(server.queries().size(), 2u);
}

TEST_F(CaresLookupTest, DestroyingALookupCancelsIt) {
  ScriptedServer server(&loop_, [](const ReceivedQuery&) -> std::vector<Bytes> { return {}; });
  use({server.address()});
  bool called = false;
  auto lookup = lookups_->start("db.example.org", Family::V4, [&](Answer&&) { called = true; });
  for (int i = 0; i < 5; ++i) uv_run(&loop_, UV_RUN_NOWAIT);
  lookup.reset();
  std::optional<Answer> other;
  auto second = lookups_->start("db.example.org", Family::V4,
                                [&](Answer&& answer) { other = std::move(answer); });
  while (!other) uv_run(&loop_, UV_RUN_ONCE);
  EXPECT_FALSE(called);
}

TEST_F(CaresLookupTest, ALookupMayBeDestroyedInItsOwnCallback) {
  ScriptedServer server(&loop_, answer_192_0_2_1);
  use({server.address()});
  std::unique_ptr<Lookup> lookup;
  bool called = false;
  lookup = lookups_->start("db.example.org", Family::V4, [&](Answer&&) {
    lookup.reset();
    called = true;
  });
  while (!called) uv_run(&loop_, UV_RUN_ONCE);
  EXPECT_EQ(lookup, nullptr);
}

TEST_F(CaresLookupTest, LeavesNoDescriptorBehind) {
  ScriptedServer server(&loop_, answer_192_0_2_1);
  use({server.address()});
  look_up("warm.example.org");
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 100; ++i) look_up(numbered("n", i, ".example.org"));
  std::vector<std::unique_ptr<Lookup>> cancelled;
  for (int i = 0; i < 100; ++i)
    cancelled.push_back(lookups_->start("db.example.org", Family::V4, [](Answer&&) {}));
  cancelled.clear();
  uv_run(&loop_, UV_RUN_NOWAIT);
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace meshdns::resolver
