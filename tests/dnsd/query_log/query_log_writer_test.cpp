// SPDX-License-Identifier: Apache-2.0
#include "dnsd/query_log/query_log_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>

namespace meshdns::dnsd {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::Gt;
using testing::HasSubstr;
using testing::Lt;

const std::string kName(
    "\x03"
    "api\x07"
    "example\x03"
    "org\0",
    17);

// A query and its answer; tests change single fields.
struct LoggedQuery {
  Peer client{*IpAddress::parse("10.60.1.6"), 41234, *IpAddress::parse("127.0.0.1"), false};
  std::string name = kName;
  wire::Rcode rcode = wire::Rcode::NoError;
  bool empty = false;

  AnsweredQuery answered() const {
    return {.client = client,
            .id = 4711,
            .identity = "Pod shop/web-1",
            .qname = name,
            .qtype = wire::Type::A,
            .qclass = wire::Class::In,
            .recursion_desired = true,
            .has_edns = true,
            .dnssec_ok = false,
            .udp_payload = 1232,
            .query_size = 44,
            .rcode = rcode,
            .authoritative = true,
            .truncated = false,
            .empty = empty,
            .reply_size = 60,
            .source = AnswerSource::Registry,
            .upstream = "",
            .duration_ns = 21'400,
            .reply = {}};
  }
};

// The lines that a log wrote to a file.
class LogFile {
 public:
  std::string written(Log& log) {
    log.flush();
    EXPECT_EQ(std::fseek(file_.get(), 0, SEEK_SET), 0);
    std::string text;
    for (int c = 0; (c = std::fgetc(file_.get())) != EOF;) text += static_cast<char>(c);
    return text;
  }
  LogOptions options(LogFormat format) const {
    return {.level = LogLevel::Error, .format = format, .fd = ::fileno(file_.get())};
  }
  std::size_t lines_of(const QueryLogConfig& config, const LoggedQuery& asked, int times) {
    Log log(options(LogFormat::Text));
    QueryLogWriter writer(log, config, 1);
    for (int i = 0; i < times; ++i) writer.on_answer(asked.answered());
    const std::string text = written(log);
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_{std::tmpfile()};
};

class QueryLogWriterTest : public testing::Test, public LogFile {};

TEST_F(QueryLogWriterTest, WritesWhatWasAskedAndAnsweredWhateverTheLogsLevel) {
  Log log(options(LogFormat::Text));
  QueryLogWriter(log, {QueryLogClass::All, 1.0}, 0).on_answer(LoggedQuery().answered());
  EXPECT_THAT(
      written(log),
      EndsWith(" INFO query client=10.60.1.6:41234 proto=udp id=4711 name=api.example.org. type=A "
               "class=IN size=44 do=false bufsize=1232 rcode=NOERROR flags=qr,aa,rd,ra rsize=60 "
               "duration_us=21 identity=\"Pod shop/web-1\" source=registry upstream=\"\"\n"));
}

TEST_F(QueryLogWriterTest, WritesJson) {
  Log log(options(LogFormat::Json));
  QueryLogWriter(log, {QueryLogClass::All, 1.0}, 0).on_answer(LoggedQuery().answered());
  EXPECT_THAT(written(log),
              AllOf(HasSubstr(R"("message":"query","client":"10.60.1.6:41234","proto":"udp")"),
                    HasSubstr(R"("size":44,"do":false,"bufsize":1232,)")));
}

TEST_F(QueryLogWriterTest, NamesNothingThatCouldNotBeRead) {
  LoggedQuery asked;
  asked.name.clear();
  asked.rcode = wire::Rcode::FormErr;
  Log log(options(LogFormat::Text));
  QueryLogWriter(log, {QueryLogClass::All, 1.0}, 0).on_answer(asked.answered());
  EXPECT_THAT(written(log), HasSubstr(R"( name="" type="" class="" size=44 )"));
}

TEST_F(QueryLogWriterTest, EscapesWhatCouldEndALine) {
  LoggedQuery asked;
  asked.name = std::string(
      "\x05"
      "a\n\"=b\0",
      7);
  Log log(options(LogFormat::Text));
  QueryLogWriter(log, {QueryLogClass::All, 1.0}, 0).on_answer(asked.answered());
  EXPECT_EQ(std::ranges::count(written(log), '\n'), 1);
}

// Reads the name in a line by the rules of zone files (RFC 1035, section 5.1), to its wire form.
std::string wire_of_shown(std::string_view text) {
  std::string wire;
  std::string label;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      wire += static_cast<char>(label.size());
      wire += std::exchange(label, {});
    } else if (text[i] != '\\') {
      label += text[i];
    } else if (std::isdigit(static_cast<unsigned char>(text.at(i + 1))) != 0) {
      label += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 3))));
      i += 3;
    } else {
      label += text.at(++i);
    }
  }
  EXPECT_EQ(label, "") << text;
  return wire + '\0';
}

// The value of ` name=`: to the next blank, or to the closing quote.
std::string shown_name_in_text(const std::string& line) {
  std::size_t at = line.find(" name=") + 6;
  const char end = line.at(at) == '"' ? '"' : ' ';
  if (end == '"') ++at;
  std::size_t until = at;
  while (line.at(until) != end) until += line[until] == '\\' ? 2 : 1;
  return line.substr(at, until - at);
}

std::string shown_name_in_json(const std::string& line) {
  rapidjson::Document document;
  document.Parse(line.c_str());
  return document.IsObject() ? document["name"].GetString() : "no JSON: " + line;
}

std::string random_wire_name(std::mt19937& random) {
  static constexpr std::string_view kSigns =
      "\\\".;()@$ =\n\0\x7f\xff"
      "09azAZ";
  std::string wire;
  for (auto labels = random() % 4 + 1; labels > 0; --labels) {
    const std::size_t size = random() % 62 + 1;
    wire += static_cast<char>(size);
    for (std::size_t i = 0; i < size; ++i)
      wire += random() % 2 == 0 ? kSigns[random() % kSigns.size()] : static_cast<char>(random());
  }
  return wire + '\0';
}

TEST_F(QueryLogWriterTest, NamesReadBackAsTheyWereAsked) {
  std::mt19937 random(::testing::UnitTest::GetInstance()->random_seed() + 1U);
  for (int round = 0; round < 60; ++round) {
    LoggedQuery asked;
    asked.name = random_wire_name(random);
    for (const LogFormat format : {LogFormat::Text, LogFormat::Json}) {
      LogFile file;
      Log log(file.options(format));
      QueryLogWriter(log, {QueryLogClass::All, 1.0}, 0).on_answer(asked.answered());
      const std::string line = file.written(log);
      const std::string shown =
          format == LogFormat::Text ? shown_name_in_text(line) : shown_name_in_json(line);
      ASSERT_EQ(wire_of_shown(shown), asked.name) << line;
    }
  }
}

TEST_F(QueryLogWriterTest, HasTheAnswersOfItsClass) {
  struct Case {
    wire::Rcode rcode;
    bool empty;
    bool is_error;
    bool is_denial;
  };
  for (const Case& c : {Case{wire::Rcode::NoError, false, false, false},
                        Case{wire::Rcode::NoError, true, false, true},
                        Case{wire::Rcode::NxDomain, true, false, true},
                        Case{wire::Rcode::ServFail, true, true, false},
                        Case{wire::Rcode::Refused, true, true, false},
                        Case{wire::Rcode::FormErr, true, true, false},
                        Case{wire::Rcode::NotImp, true, true, false}}) {
    LoggedQuery asked;
    asked.rcode = c.rcode;
    asked.empty = c.empty;
    EXPECT_FALSE(has_answer(QueryLogClass::Off, asked.answered()));
    EXPECT_TRUE(has_answer(QueryLogClass::All, asked.answered()));
    EXPECT_EQ(has_answer(QueryLogClass::Errors, asked.answered()), c.is_error)
        << to_string(c.rcode);
    EXPECT_EQ(has_answer(QueryLogClass::Denial, asked.answered()), c.is_denial)
        << to_string(c.rcode);
  }
}

TEST_F(QueryLogWriterTest, LeavesOutWhatIsNotOfItsClass) {
  EXPECT_EQ(lines_of({QueryLogClass::Errors, 1.0}, LoggedQuery(), 10), 0U);
}

TEST_F(QueryLogWriterTest, TakesTheShareThatIsAskedFor) {
  EXPECT_EQ(lines_of({QueryLogClass::All, 0.0}, LoggedQuery(), 2'000), 0U);
  // Four standard deviations of 2,000 throws of a coin that shows heads one time in four.
  EXPECT_THAT(lines_of({QueryLogClass::All, 0.25}, LoggedQuery(), 2'000),
              AllOf(Gt(422U), Lt(578U)));
}

}  // namespace
}  // namespace meshdns::dnsd
