// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/document.hpp"

#include <gtest/gtest.h>

#include "registry/manifest/times.hpp"

namespace meshdns::registry {
namespace {

// One line per value: "LINE path = text", in the order of the text.
void print(const Node& node, const std::string& path, std::string& out) {
  out += std::to_string(node.line()) + " " + path;
  if (node.is_scalar())
    out += node.is_quoted() ? " = '" + std::string(node.text()) + "'"
                            : " = " + std::string(node.text());
  else
    out += node.is_mapping() ? " {" + std::to_string(node.size()) + "}"
                             : " [" + std::to_string(node.size()) + "]";
  out += "\n";
  std::size_t index = 0;
  for (const Node& child : node)
    print(child,
          node.is_mapping() ? path + "/" + std::string(child.key())
                            : path + "[" + std::to_string(index++) + "]",
          out);
}

struct Trees {
  std::string text;
  std::vector<std::string> problems;
  ReadResult result;
};

Trees read_all(std::string_view text, const DocumentLimits& limits = {}) {
  Trees trees;
  trees.result = read_documents(text, limits, [&](const Document& document) {
    print(document.root, "", trees.text);
    for (const DocumentProblem& problem : document.problems)
      trees.problems.push_back(std::to_string(problem.line) + " " + problem.field + ": " +
                               problem.message);
  });
  return trees;
}

TEST(DocumentTest, TreeKeepsLinesOfKeysAndElements) {
  EXPECT_EQ(read_all("a:\n  b: 1\n  c:\n  - x\n  - \"y\"\nd: {e: [f, g]}\n").text,
            "1  {2}\n1 /a {2}\n2 /a/b = 1\n3 /a/c [2]\n4 /a/c[0] = x\n5 /a/c[1] = 'y'\n"
            "6 /d {1}\n6 /d/e [2]\n6 /d/e[0] = f\n6 /d/e[1] = g\n");
}

TEST(DocumentTest, JsonGivesTheSameTree) {
  EXPECT_EQ(read_all("{\"a\": {\n\"b\": 1,\n\"c\": [\n\"x\",\nnull, true, -2.5e3]}}").text,
            "1  {1}\n1 /a {2}\n2 /a/b = 1\n3 /a/c [4]\n4 /a/c[0] = 'x'\n5 /a/c[1] = null\n"
            "5 /a/c[2] = true\n5 /a/c[3] = -2.5e3\n");
}

TEST(DocumentTest, DocumentsAreSeparate) {
  EXPECT_EQ(read_all("---\na: 1\n---\n---\n- b\n").text, "2  {1}\n2 /a = 1\n5  [1]\n5 [0] = b\n");
}

TEST(DocumentTest, ScalarsHaveTheirTypes) {
  std::vector<std::string> described;
  ASSERT_TRUE(read_handwritten_documents(
      "[a, \"1\", 1, -0x1F, 0o17, 1.5, .inf, 1e3, true, False, null, ~, '', 1.2.3.4, 10.0.0.0/8, "
      "2001:db8::1, 99999999999999999999, 1_000, yes, 2026-01-31, [], {}]",
      {}, [&](const Document& document) {
        for (const Node& node : document.root) described.emplace_back(node.describe());
      }));
  EXPECT_EQ(described, (std::vector<std::string>{
                           "a string", "a string", "a number",  "a number",  "a number", "a number",
                           "a number", "a number", "a boolean", "a boolean", "null",     "null",
                           "a string", "a string", "a string",  "a string",  "a number", "a string",
                           "a string", "a string", "a list",    "a mapping"}));
}

TEST(DocumentTest, ScalarsConvertOnlyToTheirOwnType) {
  bool called = false;
  ASSERT_TRUE(read_handwritten_documents(
      "s: word\nq: \"12\"\ni: -12\nh: 0xff\nmax: 9223372036854775807\nmin: -9223372036854775808\n"
      "over: 9223372036854775808\nb: true\nn: null\nblock: |\n  12\ntagged: !!str 12\n",
      {}, [&](const Document& document) {
        called = true;
        const auto at = [&](std::string_view key) -> const Node& {
          return *document.root.find(key);
        };
        EXPECT_EQ(at("s").as_string(), "word");
        EXPECT_EQ(at("q").as_string(), "12");
        EXPECT_EQ(at("q").as_integer(), std::nullopt);
        EXPECT_EQ(at("i").as_integer(), -12);
        EXPECT_EQ(at("i").as_string(), std::nullopt);
        EXPECT_EQ(at("h").as_integer(), 255);
        EXPECT_EQ(at("max").as_integer(), INT64_MAX);
        EXPECT_EQ(at("min").as_integer(), INT64_MIN);
        EXPECT_EQ(at("over").as_integer(), std::nullopt);
        EXPECT_EQ(at("b").as_bool(), true);
        EXPECT_EQ(at("b").as_string(), std::nullopt);
        EXPECT_TRUE(at("n").is_null());
        EXPECT_EQ(at("block").as_string(), "12\n");
        EXPECT_EQ(at("tagged").as_string(), "12");
        EXPECT_EQ(document.root.find("absent"), nullptr);
        EXPECT_EQ(at("s").find("x"), nullptr);
        EXPECT_EQ(at("s").begin(), at("s").end());
      }));
  EXPECT_TRUE(called);
}

TEST(DocumentTest, ReportsDuplicateKeysWithBothLines) {
  EXPECT_EQ(read_all("a:\n  b: 1\n  c: 2\n  b: 3\n").problems,
            std::vector<std::string>{"4 a.b: the key is given twice, first on line 2"});
  EXPECT_EQ(read_all("{\"a\": [{}, {\"x\": 1,\n\"x\": 2}]}").problems,
            std::vector<std::string>{"2 a[1].x: the key is given twice, first on line 1"});
  EXPECT_EQ(read_all("a: {b: 1}\nc: {b: 1}\n").problems, std::vector<std::string>{});
}

TEST(DocumentTest, FindsDuplicateKeysInLargeMappings) {
  for (const int size : {11, 12, 13, 1000}) {
    std::string text;
    for (int i = 0; i < size; ++i) text += "k" + std::to_string(i) + ": 1\n";
    EXPECT_TRUE(read_all(text).problems.empty()) << size;
    EXPECT_EQ(read_all(text + "k5: 2\n").problems,
              std::vector<std::string>{std::to_string(size + 1) +
                                       " k5: the key is given twice, first on line 6"});
  }
}

TEST(DocumentTest, ExpandsSmallAliases) {
  EXPECT_EQ(read_all("a: &x\n  b: [1]\nc: *x\nd: &y v\ne: *y\n").text,
            "1  {4}\n1 /a {1}\n2 /a/b [1]\n2 /a/b[0] = 1\n3 /c {1}\n2 /c/b [1]\n2 /c/b[0] = 1\n"
            "4 /d = v\n5 /e = v\n");
  EXPECT_EQ(read_all("a: &x 1\nb: &x 2\nc: *x\n").text, "1  {3}\n1 /a = 1\n2 /b = 2\n3 /c = 2\n");
}

TEST(DocumentTest, MergesMappings) {
  EXPECT_EQ(read_all("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n").text,
            "1  {2}\n1 /a {2}\n1 /a/b = 1\n1 /a/c = 2\n2 /d {2}\n4 /d/c = 3\n1 /d/b = 1\n")
      << "a key of the mapping itself wins, wherever it stands";
  EXPECT_EQ(read_all("- &x {a: 1}\n- &y {a: 2, b: 3}\n- {<<: [*x, *y]}\n").text,
            "1  [3]\n1 [0] {1}\n1 [0]/a = 1\n2 [1] {2}\n2 [1]/a = 2\n2 [1]/b = 3\n"
            "3 [2] {2}\n1 [2]/a = 1\n2 [2]/b = 3\n")
      << "the earlier mapping wins";
  EXPECT_EQ(read_all("<<: {a: {b: 1}}\n").text, "1  {1}\n1 /a {1}\n1 /a/b = 1\n");
  EXPECT_EQ(read_all("<<: &x {a: 1}\nb: *x\n").text, "1  {2}\n2 /b {1}\n1 /b/a = 1\n1 /a = 1\n");
}

TEST(DocumentTest, MergedMappingsCanBeMergedAgain) {
  const Trees trees = read_all("- &a {x: 1}\n- &b {<<: *a, y: 2}\n- {<<: *b, z: 3}\n");
  EXPECT_TRUE(trees.problems.empty());
  EXPECT_NE(trees.text.find("3 [2] {3}\n3 [2]/z = 3\n2 [2]/y = 2\n1 [2]/x = 1\n"),
            std::string::npos)
      << trees.text;
}

TEST(DocumentTest, ReportsMergesOfOtherValues) {
  for (const std::string text : {"<<: 1\n", "<<:\n", "<<: [1]\n", "<<: [[]]\n"})
    EXPECT_EQ(read_all(text).problems,
              std::vector<std::string>{"1 <<: a merge key takes a mapping, or a list of mappings"})
        << text;
  EXPECT_EQ(read_all("a: &x {<<: *x}\n").problems.size(), 2U);
  EXPECT_TRUE(read_all("c: {\"<<\": 1}\n").problems.empty()) << "an ordinary key in quotes";
}

TEST(DocumentTest, ReportsUnknownAliasesAndTags) {
  EXPECT_EQ(read_all("a: *x\n").problems,
            std::vector<std::string>{"1 a: alias \"x\" has no anchor before it"});
  EXPECT_EQ(read_all("a: &x {b: *x}\n").problems,
            std::vector<std::string>{"1 a.b: alias \"x\" has no anchor before it"});
  EXPECT_EQ(read_all("a: !thing 1\n").problems,
            std::vector<std::string>{"1 a: the tag \"!thing\" is not supported; remove it"});
  EXPECT_EQ(read_all("a: !!binary aGk=\n").problems.size(), 1U);
}

TEST(DocumentTest, DeliversListsInParts) {
  DocumentLimits limits;
  limits.split_lists = true;
  const std::string item = "- {apiVersion: v1, kind: A, n: ";
  const Trees trees =
      read_all("items:\n" + item + "1}\n" + item + "2}\n- {n: 3}\nkind: List\n", limits);
  EXPECT_EQ(trees.text,
            "2  {3}\n2 /apiVersion = v1\n2 /kind = A\n2 /n = 1\n"
            "3  {3}\n3 /apiVersion = v1\n3 /kind = A\n3 /n = 2\n"
            "1  {2}\n1 /items [1]\n4 /items[0] {1}\n4 /items[0]/n = 3\n5 /kind = List\n");
}

TEST(DocumentTest, AliasRefersToAnElementThatWasDelivered) {
  DocumentLimits limits;
  limits.split_lists = true;
  const Trees trees = read_all(
      "- {apiVersion: v1, kind: A, n: &x {deep: value}}\n- {apiVersion: v1, kind: B, n: *x}\n",
      limits);
  EXPECT_TRUE(trees.problems.empty());
  EXPECT_NE(trees.text.find("1 /n/deep = value\n2  {3}\n"), std::string::npos) << trees.text;
  EXPECT_NE(trees.text.rfind("/n/deep = value"), trees.text.find("/n/deep = value"));
}

TEST(JsonParserTest, TextsAreParsedOneAfterTheOther) {
  JsonParser parser;
  for (int i = 0; i < 100; ++i) {
    const auto root = parser.parse("{\"n\": " + std::to_string(i) + "}");
    ASSERT_TRUE(root);
    EXPECT_EQ((*root)->find("n")->as_integer(), i);
  }
  EXPECT_FALSE(parser.parse("{} {}"));
  EXPECT_FALSE(parser.parse(""));
  EXPECT_FALSE(parser.parse("{\"a\": }"));
  EXPECT_EQ(parser.parse("[1,\n2,\nx]").error().line, 3U);
  ASSERT_TRUE(parser.parse("{\"a\":1,\"a\":2}"));
  EXPECT_EQ(parser.problems().size(), 1U);
  ASSERT_TRUE(parser.parse(" 7 "));
  EXPECT_TRUE(parser.problems().empty());
}

TEST(DocumentTest, StopsWhenAsked) {
  std::stop_source stopping;
  DocumentLimits limits;
  limits.split_lists = true;
  for (const std::string_view text :
       {"a: {}\n---\nb: {}\n---\nc: {}\n", "{\"a\":{}} {\"b\":{}} {\"c\":{}}",
        "- {apiVersion: v1, kind: A}\n- {apiVersion: v1, kind: B}\n"}) {
    stopping = std::stop_source();
    limits.stop = stopping.get_token();
    int documents = 0;
    const auto stop_at_first = [&](const Document&) {
      ++documents;
      stopping.request_stop();
    };
    const ReadResult result = read_documents(text, limits, stop_at_first);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().message, "the reading was stopped");
    EXPECT_EQ(documents, 1) << text;
  }
}

TEST(TimestampTest, ReadsRfc3339) {
  EXPECT_EQ(parse_timestamp_ms("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(parse_timestamp_ms("2026-01-31T12:00:00Z"), 1769860800000);
  EXPECT_EQ(parse_timestamp_ms("2026-01-31T14:00:00+02:00"), 1769860800000);
  EXPECT_EQ(parse_timestamp_ms("2026-01-31T06:30:00-05:30"), 1769860800000);
  EXPECT_EQ(parse_timestamp_ms("2026-01-31T12:00:00.123456789Z"), 1769860800123);
  EXPECT_EQ(parse_timestamp_ms("2024-02-29T00:00:00Z"), 1709164800000);
  for (const std::string_view text :
       {"", "2026-01-31", "2026-01-31 12:00:00Z", "2026-01-31T12:00:00", "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:00.Z", "2026-01-31T12:00:00Zx", "2026-01-31T12:00:00+0200", "yesterday"})
    EXPECT_EQ(parse_timestamp_ms(text), std::nullopt) << text;
}

}  // namespace
}  // namespace meshdns::registry
