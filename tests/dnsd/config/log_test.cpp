// SPDX-License-Identifier: Apache-2.0
#include "dnsd/log/log.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "dnsd/log/journal.hpp"
#include "dnsd/log/line_format.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;

TEST(LogPayloadTest, IsMessageAndFieldsInText) {
  EXPECT_EQ(
      log_payload(LogFormat::Text, "upstream is down",
                  {{"server", "10.0.0.53:53"}, {"failures", 3}, {"up", false}, {"share", 0.5}}, 2),
      "upstream is down server=10.0.0.53:53 failures=3 up=false share=0.5 repeated=2");
}

TEST(LogPayloadTest, QuotesValuesThatWouldLookLikeMoreFields) {
  EXPECT_EQ(log_payload(LogFormat::Text, "m",
                        {{"a", "x y"}, {"b", "x=y"}, {"c", "say \"no\""}, {"d", ""}}),
            R"(m a="x y" b="x=y" c="say \"no\"" d="")");
}

TEST(LogPayloadTest, IsTheMembersOfAJsonObject) {
  EXPECT_EQ(log_payload(LogFormat::Json, "bad \"name\"\n",
                        {{"name", std::string("a\0\\b", 4)},
                         {"n", 7U},
                         {"d", -1},
                         {"ok", true},
                         {"share", 1.0},
                         {"none", std::numeric_limits<double>::quiet_NaN()}},
                        4),
            R"("message":"bad \"name\"\\010","name":"a\\000\\b","n":7,"d":-1,"ok":true,)"
            R"("share":1,"none":null,"repeated":4})");
}

TEST(LogPayloadTest, DoesNotEscapeAMessageTwice) {
  const std::string message = "a.yaml: error: " + registry::in_quotes("x\n");
  EXPECT_EQ(log_payload(LogFormat::Text, message, {}), R"(a.yaml: error: "x\010")");
}

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0); }
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  int write_end() const { return ends_[1]; }
  // Returns the lines that are in the pipe now.
  std::vector<std::string> read_lines() const {
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(ends_[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(n));
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  // Fills the pipe, as if it had not been read for a long time.
  void fill() const {
    ::fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    const std::string block(4096, 'x');
    while (::write(ends_[1], block.data(), block.size()) > 0) {
    }
    ::fcntl(ends_[1], F_SETFL, 0);
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST(LogTest, WritesInOrderWhatTheLevelAdmits) {
  const Pipe pipe;
  {
    Log log({.level = LogLevel::Warn, .fd = pipe.write_end()});
    log.info("left out");
    log.warn("first");
    log.set_level(LogLevel::Debug);
    log.debug("second", {{"n", 2}});
    log.trace("left out");
    EXPECT_TRUE(log.enabled(LogLevel::Debug));
    EXPECT_FALSE(log.enabled(LogLevel::Trace));
    EXPECT_EQ(log.dropped(), 0U);
  }
  const auto lines = pipe.read_lines();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], EndsWith(" WARN first"));
  EXPECT_THAT(lines[1], EndsWith(" DEBUG second n=2"));
}

TEST(LogTest, AnnouncesAtEveryLevel) {
  const Pipe pipe;
  {
    Log log({.level = LogLevel::Off, .fd = pipe.write_end()});
    log.error("left out");
    log.announce("ready: 127.0.0.1:15053");
  }
  const auto lines = pipe.read_lines();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], EndsWith("INFO ready: 127.0.0.1:15053"));
}

TEST(LogTest, ChangesTheFormatWhileRunning) {
  const Pipe pipe;
  {
    Log log({.fd = pipe.write_end()});
    log.info("one");
    log.set_format(LogFormat::Json);
    log.info("two");
  }
  const auto lines = pipe.read_lines();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], EndsWith("INFO one"));
  EXPECT_THAT(lines[1], HasSubstr("\"message\":\"two\""));
}

TEST(LogTest, FoldsRepeatedMessages) {
  const Pipe pipe;
  {
    Log log({.fd = pipe.write_end()});
    for (int i = 0; i < 1000; ++i)
      log.write_folded(LogLevel::Warn, "upstream timed out", {{"try", i}});
  }
  const auto lines = pipe.read_lines();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], EndsWith("WARN upstream timed out try=0"));
}

// Returns the line that a log writes for one warning.
std::string line_of(LogFormat format, std::string_view message, LogFields fields) {
  const Pipe pipe;
  {
    Log log({.format = format, .fd = pipe.write_end()});
    log.warn(message, fields);
  }
  const auto lines = pipe.read_lines();
  EXPECT_EQ(lines.size(), 1U);
  return lines.empty() ? "" : lines[0];
}

TEST(LogTest, WritesTimeInUtcAndLevel) {
  const auto second_now = [] {
    using std::chrono::system_clock;
    const std::time_t now = system_clock::to_time_t(system_clock::now());
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    char text[20];
    return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc));
  };
  for (const LogFormat format : {LogFormat::Text, LogFormat::Json}) {
    const std::string before = second_now();
    const std::string line = line_of(format, "m", {{"n", 1}});
    const std::string after = second_now();
    const bool is_text = format == LogFormat::Text;
    const std::string time = line.substr(is_text ? 0 : 9, 24);
    EXPECT_THAT(time, testing::MatchesRegex("[0-9-]{10}T[0-9:]{8}[.][0-9]{3}Z"));
    EXPECT_GE(time.substr(0, 19), before);
    EXPECT_LE(time.substr(0, 19), after);
    EXPECT_EQ(line, is_text ? time + " WARN m n=1"
                            : R"({"time":")" + time + R"(","level":"warn","message":"m","n":1})");
  }
}

// A write of at most PIPE_BUF octets to a pipe is atomic.
TEST(LogTest, KeepsLinesShortAndWholeForAnyText) {
  const std::string long_text(100'000, '"');
  const std::string binary(100'000, '\xff');
  for (const LogFormat format : {LogFormat::Text, LogFormat::Json})
    for (const std::string& text : {long_text, binary}) {
      const std::string line =
          line_of(format, text, {{"a", text}, {"b", text}, {"c", text}, {"d", text}, {"e", 1}});
      EXPECT_LE(line.size(), 3960U);  // `repeated` adds up to 32
      if (format == LogFormat::Text) continue;
      rapidjson::Document json;
      ASSERT_FALSE(json.Parse(line.c_str()).HasParseError()) << line;
      EXPECT_EQ(json["e"].GetInt(), 1) << "a field that fits behind those that do not";
    }
}

// If the log is not read, lines are lost but writers do not wait.
TEST(LogTest, LosesLinesAndNoTimeWhenNobodyReads) {
  const Pipe pipe;
  pipe.fill();
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t dropped = 0;
  {
    Log log({.fd = pipe.write_end(), .queue_length = 64});
    for (int i = 0; i < 1'000; ++i) log.info("line", {{"n", i}});
    EXPECT_LT(std::chrono::steady_clock::now() - start, 900ms);  // the sink's patience is 1 s
    dropped = log.dropped();
  }
  EXPECT_GT(dropped, 900U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(LogTest, GoesOnWhenTheReaderIsBack) {
  const Pipe pipe;
  pipe.fill();
  {
    Log log({.fd = pipe.write_end()});
    log.info("while blocked");
    pipe.read_lines();
    log.flush(5s);
    log.info("after");
  }
  EXPECT_THAT(pipe.read_lines().back(), EndsWith("INFO after"));
}

TEST(JournalTest, AnEntryHasPriorityIdentifierAndMessage) {
  EXPECT_EQ(journal_entry(LogLevel::Warn, "WARN upstream server is down upstream=10.0.0.53:53",
                          "upstream server is down upstream=10.0.0.53:53"),
            "SYSLOG_IDENTIFIER=meshdnsd\nPRIORITY=4\nMESSAGE_ID=b4718f18bf1c46c39cf8ad51893a39e6\n"
            "MESSAGE=WARN upstream server is down upstream=10.0.0.53:53\n");
  EXPECT_EQ(journal_entry(LogLevel::Error, "ERROR x", "x"),
            "SYSLOG_IDENTIFIER=meshdnsd\nPRIORITY=3\nMESSAGE=ERROR x\n");
}

TEST(JournalTest, AnIdentifierBelongsToAMessageInBothFormats) {
  for (const LogFormat format : {LogFormat::Text, LogFormat::Json})
    EXPECT_EQ(journal_message_id(log_payload(format, "query", {{"client", "a"}})),
              "d899d953bdcf4be0a0befc2ea0dcd0da");
  EXPECT_EQ(journal_message_id("query"), "d899d953bdcf4be0a0befc2ea0dcd0da");
  for (const std::string_view other : {"queryable", "", "que", "the query"})
    EXPECT_EQ(journal_message_id(other), "") << other;
}

TEST(JournalTest, IsOnlyTheStreamThatSystemdNames) {
  Pipe pipe;
  struct stat status{};
  ASSERT_EQ(::fstat(pipe.write_end(), &status), 0);
  const std::string place = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
  EXPECT_TRUE(is_journal_stream(pipe.write_end(), place.c_str()));
  EXPECT_FALSE(is_journal_stream(pipe.write_end(), (place + "1").c_str()));
  EXPECT_FALSE(is_journal_stream(pipe.write_end(), nullptr));
  EXPECT_FALSE(is_journal_stream(-1, place.c_str()));
}

TEST(LogTest, SurvivesAClosedReader) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::close(ends[0]);
  {
    Log log({.fd = ends[1]});
    log.info("nobody hears this");  // SIGPIPE would end the test
    log.flush();
    EXPECT_EQ(log.dropped(), 1U);
  }
  ::close(ends[1]);
}

TEST(LogTest, NeverSplitsLinesOnASlowSocket) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const int small = 4096;
  ASSERT_EQ(::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
  std::string received;
  {
    Log log({.fd = ends[1], .queue_length = 4096});
    for (int i = 0; i < 500; ++i) log.info(std::string(300, 'm'), {{"n", i}});
    log.info("end of test");
    char buffer[1000];
    while (received.find("end of test") == std::string::npos) {
      const ssize_t n = ::read(ends[0], buffer, sizeof buffer);
      ASSERT_GT(n, 0);
      received.append(buffer, static_cast<std::size_t>(n));
    }
    EXPECT_EQ(log.dropped(), 0U);
  }
  EXPECT_EQ(std::ranges::count(received.substr(0, received.find("end of test")), '\n'), 500);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace meshdns::dnsd
