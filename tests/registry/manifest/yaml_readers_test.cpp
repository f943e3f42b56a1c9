// SPDX-License-Identifier: Apache-2.0
// Both YAML readers, libyaml's for manifests and yaml-cpp's for the configuration, give one tree.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "registry/manifest/document.hpp"

namespace meshdns::registry {
namespace {

namespace fs = std::filesystem;

// One line per value.  yaml-cpp does not preserve the spelling of a null.
void print_tree(const Node& node, const std::string& path, std::string& out) {
  out += std::to_string(node.line()) + " " + path;
  if (node.is_null())
    out += " null";
  else if (node.is_scalar())
    out += (node.is_quoted() ? " string " : " plain ") + std::string(node.text());
  else
    out += node.is_mapping() ? " {" : " [";
  out += "\n";
  std::size_t index = 0;
  for (const Node& child : node)
    print_tree(
        child,
        path + "/" + (node.is_mapping() ? std::string(child.key()) : std::to_string(index++)), out);
}

using Reader = ReadResult (*)(std::string_view, const DocumentLimits&, const DocumentListener&);

struct Reading {
  std::string trees;
  bool is_readable = false;
  std::string error;  // with its line
};

Reading read_by(Reader reader, const std::string& text) {
  Reading reading;
  const auto listener = [&](const Document& document) {
    reading.trees += "document\n";
    print_tree(document.root, "", reading.trees);
    for (const DocumentProblem& problem : document.problems)
      reading.trees +=
          std::to_string(problem.line) + " " + problem.field + ": " + problem.message + "\n";
  };
  const auto result = reader(text, {}, listener);
  reading.is_readable = result.has_value();
  if (!result) reading.error = std::to_string(result.error().line) + ": " + result.error().message;
  return reading;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Without the fuzzer's seeds, which are wrong on purpose: an alias without an anchor spoils a
// document for the one and the whole text for the other.
std::vector<fs::path> yaml_files() {
  std::vector<fs::path> files;
  for (const char* folder : {"conf", "tests"})
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(MESHDNS_SOURCE_DIR) / folder))
      if (entry.is_regular_file() &&
          entry.path().string().find("/fuzz/corpus/") == std::string::npos &&
          (entry.path().extension() == ".yaml" || entry.path().extension() == ".yml"))
        files.push_back(entry.path());
  return files;
}

void expect_same(const std::string& text, const std::string& name) {
  const Reading bulk = read_by(read_documents, text);
  const Reading handwritten = read_by(read_handwritten_documents, text);
  EXPECT_EQ(bulk.is_readable, handwritten.is_readable) << name;
  if (bulk.is_readable) {
    EXPECT_EQ(bulk.trees, handwritten.trees) << name;
  }
}

TEST(YamlReadersTest, GiveOneTreeForEveryFileOfTheRepository) {
  const auto files = yaml_files();
  EXPECT_GT(files.size(), 50U);
  for (const fs::path& path : files) {
    expect_same(text_of(path), path);
  }
}

TEST(YamlReadersTest, GiveOneTreeForEachFeatureOfYaml) {
  for (const std::string text : {"a: 1\n",
                                 "---\na: 1\n---\nb: 2\n...\n---\n- x\n",
                                 "# nothing\n",
                                 "",
                                 "--- text\n",
                                 "a:\nb: ~\nc: null\nd: \"\"\n",
                                 "a: {b: [c, {d: e}], f: g}\n",
                                 "k: [a: b, c]\n",
                                 "a: &x 1\nb: *x\n",
                                 "a: &x {b: 1}\nc: *x\nd: *x\n",
                                 "a: &x 1\nb: &x 2\nc: *x\n",
                                 "t: |\n  line\n   more\n\n  end\nf: >-\n  folded\n  text\n",
                                 "a: 'it''s'\nb: \"\\u00e9\\n\\x41\"\n",
                                 "a: !!str 12\nb: !!int 12\nc: ! 12\nd: !own 12\n",
                                 "a: !!map {b: c}\nb: !!seq [c]\nc: !own [d]\n",
                                 "<<: {a: 1}\nb: 2\n",
                                 "a: &x {b: 1}\nc: {<<: *x, d: 2}\n",
                                 "a: 1\na: 2\n",
                                 "? a\n: b\n",
                                 "\"quoted key\": 1\n",
                                 "a: word with: colon\n",
                                 "a: b c  d\n  continued\n",
                                 "url: http://[::1]:8080/x#y\n",
                                 "list:\n- a\n- b\nother:\n  - c\n",
                                 "a: 'x'\r\nb: y\r\n",
                                 "- - - deep\n",
                                 "%YAML 1.2\n---\na: 1\n",
                                 ("\xEF\xBB\xBF"
                                  "a: 1\n"),
                                 "a: 0x1F\nb: 0o17\nc: .inf\nd: 1e3\n",
                                 "a: yes\nb: No\nc: TRUE\n",
                                 "a: [1,\n  2,\n  3]\nb: 4\n"}) {
    expect_same(text, text);
  }
}

// The text of a value, as both readers have it.
std::string value_of(const std::string& text, const std::string& path) {
  expect_same(text, text);
  const Reading reading = read_by(read_documents, text);
  EXPECT_TRUE(reading.is_readable) << text;
  const std::string start = "1 " + path + " plain ";
  const std::size_t at = reading.trees.find(start);
  if (at == std::string::npos) return "none of " + reading.trees;
  const std::size_t from = at + start.size();
  return reading.trees.substr(from, reading.trees.find('\n', from) - from);
}

TEST(YamlReadersTest, ReadUnquotedAddressesInFlowCollections) {
  EXPECT_EQ(value_of("a: [2001:db8::]\n", "/a/0"), "2001:db8::");
  EXPECT_EQ(value_of("a: [2001:db8::/32]\n", "/a/0"), "2001:db8::/32");
  EXPECT_EQ(value_of("a: [fe80::, 192.0.2.1]\n", "/a/0"), "fe80::");
  EXPECT_EQ(value_of("a: [fe80::, 192.0.2.1]\n", "/a/1"), "192.0.2.1");
  EXPECT_EQ(value_of("a: [fe80::,x]\n", "/a/0"), "fe80::");
  EXPECT_EQ(value_of("a: [x,::1]\n", "/a/1"), "::1");
  EXPECT_EQ(value_of("a: [::1, 2001:db8::]\n", "/a/0"), "::1");
  EXPECT_EQ(value_of("a: [::]\n", "/a/0"), "::");
  EXPECT_EQ(value_of("a: [ ::, x ]\n", "/a/0"), "::");
  EXPECT_EQ(value_of("a: [::ffff:192.0.2.1]\n", "/a/0"), "::ffff:192.0.2.1");
  EXPECT_EQ(value_of("a: {b: ::1}\n", "/a/b"), "::1");
  EXPECT_EQ(value_of("a: {b: fe80::, c: d}\n", "/a/b"), "fe80::");
  EXPECT_EQ(value_of("a: {b: [2001:db8::], c: ::}\n", "/a/c"), "::");
  EXPECT_EQ(value_of("a: ::1\n", "/a"), "::1");
}

TEST(YamlReadersTest, LeaveOtherColonsAlone) {
  for (const std::string text :
       {"a: {\"b\":1}\n", "a: {\"b\":}\n", "a: {'b':}\n", "a: {\"b\": [],\"c\":{}}\n",
        "a: \"x:]\"\nb: 'y:,'\nc: \"::1\"\n", "# [a:]\na: 1 # ::1]\n", "a: |\n  b: [::1]\n  c:,\n",
        "a: b:]\n", "a::b: c\n", "a: [b: c, d: ]\n", "? ::1\n: b\n", "{a: b, c: [d: e]}\n"})
    expect_same(text, text);
  const Reading literal = read_by(read_documents, "a: |\n  [::1]\nb: \"x::]\"\n");
  EXPECT_NE(literal.trees.find("string [::1]\n"), std::string::npos) << literal.trees;
  EXPECT_NE(literal.trees.find("string x::]\n"), std::string::npos) << literal.trees;
}

TEST(YamlReadersTest, RefuseTheSameTexts) {
  for (const std::string text :
       {"a: [1, 2\n", "a: {b: 1\n", "a: \"open\n", "a: 'open\n", "a: *nowhere\n", "\ta: 1\n",
        "a: b: c\n", "a: \x01\n", "a: \xff\n", "a: 1\n b: 2\n", "[a]: b\n", "? {a: b}\n: c\n",
        "a: @x\n", "a: `x\n", "- a\nb: c\n", "a: \"\\q\"\n", "}\n"}) {
    const Reading bulk = read_by(read_documents, text);
    const Reading handwritten = read_by(read_handwritten_documents, text);
    EXPECT_FALSE(bulk.is_readable && bulk.trees.find(": ") == std::string::npos) << text;
    EXPECT_FALSE(handwritten.is_readable) << text << handwritten.trees;
  }
}

// The libraries speak of an illegal map value, of the end of a map, or of a token.
TEST(YamlReadersTest, NameATabInTheIndentation) {
  const std::vector<std::pair<std::string, std::string>> texts = {{"a:\n\tb: [c]\n", "2"},
                                                                  {"a:\n  b: [c]\n\td: 2\n", "3"},
                                                                  {"a:\n  b:\n\t- c\n", "3"},
                                                                  {"a: 1\n\tb: 2\n", "2"},
                                                                  {"\ta: 1\n", "1"},
                                                                  {"a:\n  \tb: [c]\n", "2"},
                                                                  {"a:\n-\tb: 1\n\tc: 2\n", "2"},
                                                                  {"a:\n\n# c\n\tb: 1\n", "4"}};
  for (const auto& [text, line] : texts)
    for (const Reader reader : {read_documents, read_handwritten_documents})
      EXPECT_EQ(read_by(reader, text).error,
                line + ": the line is indented with a tab; YAML allows spaces only")
          << text;
  // Tabs that do no harm, before another error.
  for (const std::string text :
       {"a: |\n  x\n  \ty\nb: [1\n", "a: \"x\n\ty\"\nb: [1\n", "a:\tb\nc: [1\n", "a: [1\t\n"})
    for (const Reader reader : {read_documents, read_handwritten_documents}) {
      const Reading reading = read_by(reader, text);
      EXPECT_FALSE(reading.is_readable) << text;
      EXPECT_EQ(reading.error.find("tab"), std::string::npos) << text << reading.error;
    }
}

TEST(YamlReadersTest, HaveTheSameLimits) {
  std::string deep = "a: ";
  for (int i = 0; i < 10000; ++i) deep += "[";
  std::string billion = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name < 'j'; ++name) {
    const std::string before(1, static_cast<char>(name - 1));
    billion += std::string(1, name) + ": &" + name + " [";
    for (int i = 0; i < 9; ++i) billion += "*" + before + (i < 8 ? ", " : "]\n");
  }
  for (const std::string& text : {deep, billion})
    for (const Reader reader : {read_documents, read_handwritten_documents}) {
      const Reading reading = read_by(reader, text);
      EXPECT_TRUE(!reading.is_readable ||
                  reading.trees.find("expands to more than") != std::string::npos);
    }
}

}  // namespace
}  // namespace meshdns::registry
