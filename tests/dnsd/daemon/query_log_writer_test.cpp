// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/query_log_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

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
  Client client{*IpAddress::parse("10.60.1.6"), 41234, *IpAddress::parse("127.0.0.1"), false};
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
class QueryLogWriterTest : public testing::Test {
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
