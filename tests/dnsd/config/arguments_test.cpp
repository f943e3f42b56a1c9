// SPDX-License-Identifier: Apache-2.0
#include "dnsd/cli/arguments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace meshdns::dnsd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

struct Parsed {
  std::optional<int> status;
  Arguments arguments;
  std::string out;
  std::string err;
};

Parsed parse(std::initializer_list<const char*> words,
             std::string_view default_config = "/nonexistent") {
  std::vector<const char*> argv = {"meshdnsd"};
  argv.insert(argv.end(), words);
  Parsed parsed;
  std::ostringstream out;
  std::ostringstream err;
  parsed.status = parse_arguments(argv, parsed.arguments, out, err, default_config);
  parsed.out = out.str();
  parsed.err = err.str();
  return parsed;
}

TEST(ArgumentsTest, RunIsTheDefaultCommand) {
  for (const Parsed& parsed : {parse({"--config", "a.yaml"}), parse({"run", "--config", "a.yaml"}),
                               parse({"--config=a.yaml"}), parse({"--config", "a.yaml", "run"})}) {
    ASSERT_EQ(parsed.status, std::nullopt) << parsed.err;
    EXPECT_EQ(parsed.arguments.command, Command::Run);
    EXPECT_EQ(parsed.arguments.config.path, "a.yaml");
  }
}

TEST(ArgumentsTest, NeedsAConfigurationUnlessTheDefaultFileExists) {
  const Parsed missing = parse({"run"}, "/nonexistent/meshdns.yaml");
  EXPECT_EQ(missing.status, kExitUsage);
  EXPECT_THAT(missing.err, HasSubstr("/nonexistent/meshdns.yaml"));

  const std::string path = testing::TempDir() + "arguments_test-" + std::to_string(getpid());
  std::ofstream(path) << "{}\n";
  const Parsed found = parse({"run"}, path);
  EXPECT_EQ(found.status, std::nullopt);
  EXPECT_EQ(found.arguments.config.path, path);
  std::filesystem::remove(path);
}

TEST(ArgumentsTest, CommandsForTheRunningDaemonNeedNoConfiguration) {
  const Parsed status = parse({"status", "--json"});
  ASSERT_EQ(status.status, std::nullopt) << status.err;
  EXPECT_TRUE(status.arguments.is_control() && status.arguments.control.as_json);
  const Parsed reload = parse({"reload", "--config", "a.yaml", "--pid", "7"});
  ASSERT_EQ(reload.status, std::nullopt) << reload.err;
  EXPECT_EQ(reload.arguments.command, Command::Reload);
  EXPECT_EQ(reload.arguments.control.pid, 7);
  const Parsed top = parse({"top", "--once"});
  ASSERT_EQ(top.status, std::nullopt) << top.err;
  EXPECT_EQ(top.arguments.command, Command::Top);
  EXPECT_TRUE(top.arguments.is_control() && top.arguments.control.once);
  EXPECT_EQ(parse({"top", "--once", "--json"}).status, kExitUsage);
  EXPECT_FALSE(parse({"run", "--config", "a.yaml"}).arguments.is_control());
}

TEST(ArgumentsTest, FlushNeedsANameOrAZone) {
  EXPECT_EQ(parse({"flush"}).status, kExitUsage);
  EXPECT_EQ(parse({"flush", "a.example.org", "--zone", "example.org"}).status, kExitUsage);
  EXPECT_EQ(parse({"flush", "--zone", "."}).arguments.control.zone, ".");
  EXPECT_EQ(parse({"reload", "--pid", "0"}).status, kExitUsage);
}

TEST(ArgumentsTest, ShowsOrForgetsDependencies) {
  const Parsed shown = parse({"dependencies", "--namespace", "shop", "--workload", "web", "--host",
                              "example.org", "--since", "168h", "--hidden", "--dot"});
  ASSERT_EQ(shown.status, std::nullopt) << shown.err;
  EXPECT_TRUE(shown.arguments.is_control());
  const DependencyArguments& options = shown.arguments.dependencies;
  EXPECT_EQ(options.ns + " " + options.workload + " " + options.host, "shop web example.org");
  EXPECT_EQ(options.since, std::chrono::hours(168));
  EXPECT_TRUE(options.hidden && options.dot && !options.mermaid && !options.forget);
  EXPECT_EQ(parse({"dependencies"}).arguments.dependencies.since, std::nullopt);
  EXPECT_THAT(parse({"dependencies", "--from", "a", "b", "--json"}).arguments.dependencies.from,
              ElementsAre("a", "b"));

  EXPECT_TRUE(
      parse({"dependencies", "--forget", "--workload", "web"}).arguments.dependencies.forget);
  EXPECT_EQ(parse({"dependencies", "--forget", "--all"}).status, std::nullopt);
  const Parsed all = parse({"dependencies", "--forget"});
  EXPECT_EQ(all.status, kExitUsage);
  EXPECT_THAT(all.err, HasSubstr("--namespace, --workload or --host is missing (--all for all"));
  for (const Parsed& parsed :
       {parse({"dependencies", "--all"}),
        parse({"dependencies", "--forget", "--all", "--host", "a"}),
        parse({"dependencies", "--forget", "--host", "a", "--since", "1h"}),
        parse({"dependencies", "--forget", "--host", "a", "--from", "b"}),
        parse({"dependencies", "--forget", "--host", "a", "--hidden"}),
        parse({"dependencies", "--dot", "--mermaid"}), parse({"dependencies", "--dot", "--json"}),
        parse({"dependencies", "--from"}), parse({"dependencies", "--from", ""})})
    EXPECT_EQ(parsed.status, kExitUsage);
}

TEST(ArgumentsTest, ChecksConfigurationAndPaths) {
  const Parsed both = parse({"check", "--config", "a.yaml", "x.yaml", "dir"});
  ASSERT_EQ(both.status, std::nullopt) << both.err;
  EXPECT_EQ(both.arguments.command, Command::Check);
  EXPECT_EQ(both.arguments.config.path, "a.yaml");
  EXPECT_THAT(both.arguments.paths, ElementsAre("x.yaml", "dir"));

  const Parsed paths = parse({"check", "x.yaml"});
  ASSERT_EQ(paths.status, std::nullopt) << paths.err;
  EXPECT_EQ(paths.arguments.config.path, "");
  EXPECT_EQ(parse({"check"}).status, kExitUsage);
}

TEST(ArgumentsTest, ExplainsAName) {
  const Parsed parsed =
      parse({"explain", "--config", "a.yaml", "api.example.org", "aaaa", "--from", "shop"});
  ASSERT_EQ(parsed.status, std::nullopt) << parsed.err;
  EXPECT_EQ(parsed.arguments.command, Command::Explain);
  EXPECT_EQ(parsed.arguments.explain.name, "api.example.org");
  EXPECT_EQ(parsed.arguments.explain.type, "AAAA");
  EXPECT_EQ(parsed.arguments.explain.from, "shop");
  EXPECT_EQ(parse({"explain", "--config", "a.yaml", "api.example.org"}).arguments.explain.type, "");
}

TEST(ArgumentsTest, ExplainsAMomentOfThePast) {
  const Parsed ago =
      parse({"explain", "--config", "a.yaml", "api.example.org", "--at", "-2h", "--from", "shop"});
  ASSERT_EQ(ago.status, std::nullopt) << ago.err;
  EXPECT_TRUE(ago.arguments.explain.at.has_value());
  EXPECT_EQ(ago.arguments.explain.from, "shop");
  EXPECT_FALSE(parse({"explain", "--config", "a.yaml", "a.example.org"}).arguments.explain.at);
  const Parsed wrong = parse({"explain", "--config", "a.yaml", "a.example.org", "--at", "noon"});
  EXPECT_EQ(wrong.status, kExitUsage);
  EXPECT_THAT(wrong.err, HasSubstr("--at: \"noon\" is not a time; write 14:05, -2h or "));
  EXPECT_EQ(
      parse({"explain", "--config", "a.yaml", "a.example.org", "--offline", "--at", "-2h"}).status,
      kExitUsage);
}

// The machine of the test may be in any zone, with or without daylight saving time.
TEST(ArgumentsTest, ReadsMomentsOfThePast) {
  constexpr std::int64_t kNow = 1'764'338'700;  // 2025-11-28T14:05:00Z
  const auto moment = [](std::string_view text) { return parse_moment(text, kNow).value_or(-1); };
  EXPECT_EQ(moment("2025-11-28T14:05:00Z"), kNow);
  EXPECT_EQ(moment("2025-11-28T13:04:59Z"), kNow - 3601);
  EXPECT_EQ(moment("2025-11-28T14:05:00+01:30"), kNow - 5400);
  EXPECT_EQ(moment("2025-11-28T04:05:00-02:00"), kNow - 28'800);
  EXPECT_EQ(moment("2025-11-27 14:05Z"), kNow - 86'400);
  EXPECT_EQ(moment("2024-02-29T00:00:00Z"), 1'709'164'800);
  EXPECT_EQ(moment("-2h"), kNow - 7200);
  EXPECT_EQ(moment("-1h30m"), kNow - 5400);
  EXPECT_EQ(moment("-0"), kNow);
  for (const char* const text : {"00:00", "12:30:59", "23:59:59", "14:05"}) {
    const std::int64_t found = moment(text);
    EXPECT_LE(found, kNow) << text;
    EXPECT_GT(found, kNow - 93'600) << text;
    const auto time = static_cast<std::time_t>(found);
    std::tm local{};
    ::localtime_r(&time, &local);
    std::array<char, 16> shown{};
    std::strftime(shown.data(), shown.size(), "%H:%M:%S", &local);
    EXPECT_EQ(std::string(shown.data()).substr(0, std::string_view(text).size()), text);
    // The same with its date, and without a zone.
    std::array<char, 32> dated{};
    std::strftime(dated.data(), dated.size(), "%Y-%m-%dT%H:%M:%S", &local);
    EXPECT_EQ(moment(dated.data()), found) << dated.data();
  }
  for (const char* const text : {"",
                                 "14",
                                 "1405",
                                 "14:5",
                                 "24:00",
                                 "14:60",
                                 "14:05:60",
                                 "14:05:0",
                                 "14-05",
                                 "+2h",
                                 "-",
                                 "-2",
                                 "-2x",
                                 "--2h",
                                 "2025-11-28",
                                 "2025-11-28T",
                                 "2025-11-28T14:05:00Zx",
                                 "2025-11-28T14:05:00+1",
                                 "2025-13-01T00:00:00Z",
                                 "2025-11-28T1a:05:00Z",
                                 "2025-11-28T14:05:00.5Z",
                                 "now",
                                 " 14:05",
                                 "14:05 ",
                                 "-1:05",
                                 "2025-11-28T-1:05:00Z"})
    EXPECT_FALSE(parse_moment(text, kNow)) << text;
  EXPECT_FALSE(parse_moment("2025-11-28T14:05:01Z", kNow)) << "the future";
}

TEST(ArgumentsTest, ExplainsAConnection) {
  const Parsed parsed = parse({"explain", "--config", "a.yaml", "--connect", "[2001:db8::1]:443",
                               "--sni", "api.example.org"});
  ASSERT_EQ(parsed.status, std::nullopt) << parsed.err;
  ASSERT_TRUE(parsed.arguments.explain.connect);
  EXPECT_EQ(parsed.arguments.explain.connect->to_string(), "[2001:db8::1]:443");
  EXPECT_EQ(parsed.arguments.explain.sni, "api.example.org");
}

TEST(ArgumentsTest, RefusesInvalidArguments) {
  for (const Parsed& parsed : {
           parse({"explain", "--config", "a.yaml"}),
           parse({"explain", "--config", "a.yaml", "--connect", "10.0.0.1"}),
           parse({"explain", "--config", "a.yaml", "--connect", "name:80"}),
           parse({"explain", "--config", "a.yaml", "n", "--sni", "x"}),
           parse({"explain", "--config", "a.yaml", "--connect", "10.0.0.1:80", "--sni", "x",
                  "--host", "y"}),
           parse({"explain", "--config", "a.yaml", "n", "A", "too-many"}),
           parse({"run", "--config"}),
           parse({"run", "--config", ""}),
           parse({"run", "--confg", "a.yaml"}),
           parse({"run", "check", "--config", "a.yaml"}),
           parse({"serve", "--config", "a.yaml"}),
           parse({"run", "--config", "a.yaml", "stray"}),
       }) {
    EXPECT_EQ(parsed.status, kExitUsage);
    EXPECT_THAT(parsed.err, Not(IsEmpty()));
    EXPECT_THAT(parsed.out, IsEmpty());
  }
}

struct WrongWord {
  std::initializer_list<const char*> words;
  const char* said;
};

TEST(ArgumentsTest, GuessesWhatAWordShouldBe) {
  for (const auto& [words, said] : std::initializer_list<WrongWord>{
           {{"chekc"}, "chekc; did you mean \"check\"?"},
           {{"log-levle", "debug"}, "did you mean \"log-level\"?"},
           {{"help", "statsu"}, "\"statsu\" is not a command; did you mean \"status\"?"},
           {{"--confg", "a.yaml"}, "did you mean \"--config\"?"},
           {{"check", "--strikt", "a.yaml"}, "did you mean \"--strict\"?"},
           {{"status", "--jsno"}, "did you mean \"--json\"?"},
           {{"flush", "--zome=example.org"}, "did you mean \"--zone\"?"},
           {{"check", "--format", "jsno", "a.yaml"},
            "\"jsno\" is not one of text, json, sarif; did you mean \"json\"?"},
           {{"log-level", "debgu"},
            "LEVEL: \"debgu\" is not one of trace, debug, info, warn, error, off; did you mean "
            "\"debug\"?"},
           {{"explain", "n", "CNAM"},
            "TYPE: \"CNAM\" is not a record type; did you mean \"CNAME\"?"}}) {
    const Parsed parsed = parse(words);
    EXPECT_EQ(parsed.status, kExitUsage);
    EXPECT_THAT(parsed.err, HasSubstr(said));
    EXPECT_THAT(parsed.out, IsEmpty());
  }
  EXPECT_THAT(parse({"status", "--loud"}).err, Not(HasSubstr("did you mean")));
}

TEST(ArgumentsTest, ChecksWordsBeforeAnybodyIsAsked) {
  const std::string long_label(64, 'a');
  for (const Parsed& parsed :
       {parse({"explain", "a..b"}), parse({"explain", long_label.c_str()}),
        parse({"explain", "n", "NONE"}), parse({"explain", "n", "--from", "a.b"}),
        parse({"explain", "n", "--from", "10.0.0.300"}), parse({"flush", "a..b"}),
        parse({"flush", "--zone", "a..b"}), parse({"cache", "a..b"}),
        parse({"cache", "--zone", "..."}), parse({"cache", ""}),
        parse({"check", "--diff", "a", "b", "--client", "a_b"}), parse({"log-level", "loud"}),
        parse({"dependencies", "--namespace", "a.b"}), parse({"dependencies", "--host", "a..b"}),
        parse({"dependencies", "--workload", ""}), parse({"dependencies", "--since", "168"}),
        parse({"check", "--format", "xml", "a.yaml"})}) {
    EXPECT_EQ(parsed.status, kExitUsage);
    EXPECT_THAT(parsed.err, Not(IsEmpty()));
  }
  for (const Parsed& parsed :
       {parse({"explain", "--config", "c", "_http._tcp.a.example.org.", "type65", "--from", "::1"}),
        parse({"explain", "--config", "c", "a\\.b.example.org", "srv", "--from", "shop"}),
        parse({"flush", "--zone", "."}), parse({"cache", "*.example.org"}),
        parse({"log-level", "off"}), parse({"check", "--format", "sarif", "a.yaml"})})
    EXPECT_EQ(parsed.status, std::nullopt) << parsed.err;
  EXPECT_EQ(parse({"check", "--format", "sarif", "a.yaml"}).arguments.check.format,
            CheckFormat::Sarif);
}

std::string letters_of(std::string text) {
  std::ranges::sort(text);
  return text;
}

TEST(ArgumentsTest, ShowsTheUsageOfACommand) {
  EXPECT_EQ(parse({"help"}).out, parse({"--help"}).out);
  for (const char* command :
       {"run", "check", "explain", "status", "cache", "dependencies", "help"}) {
    const Parsed help = parse({"help", command});
    EXPECT_EQ(help.status, 0);
    // The library lists what an option excludes in no certain order.
    EXPECT_EQ(letters_of(help.out), letters_of(parse({command, "--help"}).out));
    EXPECT_THAT(help.out, HasSubstr(command));
  }
}

TEST(ArgumentsTest, PrintsVersionAndHelpOnStandardOutput) {
  const Parsed version = parse({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, StartsWith("meshdnsd 0.1.0"));
  const Parsed help = parse({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* word : {"run", "check", "explain", "--config", "--version"})
    EXPECT_THAT(help.out, HasSubstr(word));
  EXPECT_THAT(parse({"explain", "--help"}).out, HasSubstr("--connect"));
}

}  // namespace
}  // namespace meshdns::dnsd
