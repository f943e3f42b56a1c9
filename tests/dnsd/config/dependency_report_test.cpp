// SPDX-License-Identifier: Apache-2.0
#include "dnsd/cli/dependency_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace meshdns::dnsd {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kNow = 1'764'338'700;  // 2025-11-28T14:05:00Z

std::string row(const std::string& workload, const std::string& host, int questions,
                const std::string& first, const std::string& last,
                const std::string& result = "address", const std::string& more = "") {
  return R"({"namespace":"shop","workload":")" + workload + R"(","hostNamespace":"data","host":")" +
         host + R"(","questions":)" + std::to_string(questions) + R"(,"first":"2025-11-)" + first +
         R"(Z","last":"2025-11-)" + last + R"(Z","result":")" + result + "\"" + more + "}";
}

std::string page(const std::string& rows, const std::string& workloads = "") {
  return R"({"record":"mesh","dependencies":[)" + rows + R"(],"workloads":[)" + workloads + "]}\n";
}

class DependencyReportTest : public testing::Test {
 protected:
  DependencyReportTest() : path_(testing::TempDir() + "nodes-" + std::to_string(::getpid())) {}
  ~DependencyReportTest() override { std::remove(path_.c_str()); }

  // Empty, or why the file is refused, without its path.
  std::string read(const std::string& text) {
    std::ofstream(path_) << text;
    const auto added = report_.add_file(path_);
    if (added) return {};
    EXPECT_EQ(added.error().message.rfind(path_ + ": ", 0), 0U) << added.error().message;
    return added.error().message.substr(path_.size() + 2);
  }
  std::string text() const {
    std::ostringstream out;
    report_.print_text(out, kNow);
    return out.str();
  }

  DependencyReport report_;

 private:
  std::string path_;
};

TEST_F(DependencyReportTest, MergesTheRowsOfSeveralNodes) {
  const std::string first_node =
      page(row("web", "api.example.org", 5, "20T10:00:00", "27T10:00:00", "address",
               R"(,"types":["A"],"object":"old","rule":"r")") +
               "," + row("web", "db.example.org", 1, "28T14:00:00", "28T14:00:00", "hidden"),
           R"({"namespace":"shop","workload":"web","since":"2025-11-20T10:00:00Z","dropped":1})");
  const std::string second_node =
      page(row("web", "api.example.org", 7, "21T10:00:00", "28T14:04:48", "address",
               R"(,"types":["AAAA"],"object":"new")"),
           R"({"namespace":"shop","workload":"web","since":"2025-11-21T10:00:00Z","dropped":2})");
  EXPECT_EQ(read(first_node + second_node), "");
  const std::string merged = report_.to_json();
  EXPECT_EQ(
      merged,
      R"({"dependencies":[{"namespace":"shop","workload":"web","hostNamespace":"data","host":"api.example.org",)"
      R"("object":"new","first":"2025-11-20T10:00:00Z","last":"2025-11-28T14:04:48Z","questions":12,)"
      R"("types":["A","AAAA"],"result":"address","rule":""},{"namespace":"shop","workload":"web",)"
      R"("hostNamespace":"data","host":"db.example.org","object":"","first":"2025-11-28T14:00:00Z",)"
      R"("last":"2025-11-28T14:00:00Z","questions":1,"types":[],"result":"hidden","rule":""}],)"
      R"("workloads":[{"namespace":"shop","workload":"web","since":"2025-11-20T10:00:00Z","dropped":3,)"
      R"("incomplete":true}]})");
  report_ = {};
  EXPECT_EQ(read(merged), "");
  EXPECT_EQ(report_.to_json(), merged) << "what is merged can be merged again";
}

TEST_F(DependencyReportTest, PrintsATable) {
  EXPECT_EQ(text(), "no such question is recorded\n");
  const std::string hidden =
      R"json(,"types":["A"],"object":"ServiceEntry data/db (data.yaml:3)",)json"
      R"json("rule":"exportTo does not include namespace shop")json";
  EXPECT_EQ(
      read(page(
          row("web", "api.example.org", 1234, "20T14:05:00", "28T14:04:48", "address",
              R"(,"types":["A","AAAA"])") +
              "," +
              row("web", "db.example.org", 12, "28T10:05:00", "28T14:02:00", "hidden", hidden) +
              "," + row("job", "", 1, "28T14:05:00", "28T14:05:00", "outside"),
          R"({"namespace":"shop","workload":"web","since":"2025-11-20T14:05:00Z","dropped":2})")),
      "");
  EXPECT_EQ(text(),
            "shop/job\n"
            "  questions  last       first       result   types   host\n"
            "          1  0 s ago    0 s ago     outside          (other names)\n"
            "\n"
            "shop/web, since 2025-11-20T14:05:00Z, incomplete: 2 rows did not fit "
            "(dependencies.memory)\n"
            "  questions  last       first       result   types   host\n"
            "       1234  12 s ago   8 days ago  address  A AAAA  api.example.org\n"
            "         12  3 min ago  4 h ago     hidden   A       db.example.org  ServiceEntry "
            "data/db (data.yaml:3): exportTo does not include namespace shop\n");
}

TEST_F(DependencyReportTest, SaysThatNothingIsRecorded) {
  EXPECT_EQ(read(R"({"record":"off","dependencies":[],"workloads":[]})"), "");
  EXPECT_EQ(text(), "nothing is recorded (dependencies.record is off)\n");
}

TEST_F(DependencyReportTest, KeepsWhatTheOptionsName) {
  const std::string rows = row("web", "api.example.org", 1, "20T10:00:00", "20T10:00:00") + "," +
                           row("web", "b.api.example.org", 1, "28T14:00:00", "28T14:00:00") + "," +
                           row("job", "api.example.net", 1, "28T14:00:00", "28T14:00:00", "hidden");
  const auto hosts_with = [&](const DependencyArguments& options) {
    report_ = {};
    EXPECT_EQ(read(page(rows)), "");
    report_.keep(options, kNow);
    std::string found;
    for (const char* host : {"\"api.example.org", "\"b.api.example.org", "\"api.example.net"})
      if (report_.to_json().find(host) != std::string::npos) found += host;
    return found;
  };
  DependencyArguments options;
  EXPECT_EQ(hosts_with(options), "\"api.example.org\"b.api.example.org\"api.example.net");
  options.host = "API.example.org.";
  EXPECT_EQ(hosts_with(options), "\"api.example.org\"b.api.example.org");
  options.since = std::chrono::hours(1);
  EXPECT_EQ(hosts_with(options), "\"b.api.example.org");
  options = {};
  options.workload = "job";
  EXPECT_EQ(hosts_with(options), "\"api.example.net");
  options.ns = "blog";
  EXPECT_EQ(hosts_with(options), "");
  options = {};
  options.hidden = true;
  EXPECT_EQ(hosts_with(options), "\"api.example.net");
}

TEST_F(DependencyReportTest, RefusesWhatIsNoPageWithItsPlace) {
  EXPECT_EQ(read(" \n"), "is empty");
  EXPECT_THAT(read("{} {"), HasSubstr("page 1: is not what `meshdnsd dependencies --json` prints"));
  EXPECT_THAT(read(page("") + "[]"), HasSubstr("page 2: is not what"));
  EXPECT_THAT(read(page("") + "{,"), HasSubstr("is not JSON at octet 53: "));
  EXPECT_THAT(read(page("{}")), HasSubstr("page 1: element 1 of \"dependencies\" has no first"));
  EXPECT_THAT(read(page(row("web", "a", 1, "20T10:00:00", "20T10:00"))),
              HasSubstr("element 1 of \"dependencies\" has no first, last, questions or result"));
  EXPECT_THAT(read(page(row("web", "a", -1, "20T10:00:00", "20T10:00:00"))),
              HasSubstr("element 1"));
  const std::string endless(1'000'000, '[');
  EXPECT_THAT(read(endless), HasSubstr("is not JSON at octet"));
  EXPECT_EQ(text(), "no such question is recorded\n") << "nothing of a page with an error is added";
}

TEST_F(DependencyReportTest, NoNameEndsItsQuotesInAGraph) {
  EXPECT_EQ(read(page(row("web", R"(a\"];b#\n\\)", 2, "28T14:00:00", "28T14:00:00", "hidden") +
                      "," + row("web", "api.example.org", 3, "28T14:00:00", "28T14:00:00"))),
            "");
  std::ostringstream dot;
  report_.print_dot(dot);
  EXPECT_EQ(dot.str(), R"dot(digraph dependencies {
  rankdir=LR;
  node [shape=box];
  "shop/web" -> "a\"];b#\\010\\ (data)" [label="2 hidden", style=dashed];
  "shop/web" -> "api.example.org (data)" [label="3"];
}
)dot");
  std::ostringstream mermaid;
  report_.print_mermaid(mermaid);
  EXPECT_EQ(mermaid.str(), R"mermaid(flowchart LR
  n0["shop/web"] -.->|"2 hidden"| n1["a#34;]#59;b#35;#92;010#92; (data)"]
  n0 -->|"3"| n2["api.example.org (data)"]
)mermaid");
}

}  // namespace
}  // namespace meshdns::dnsd
