// SPDX-License-Identifier: Apache-2.0
// A hostile manifest causes an error with its line and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "registry/manifest/document.hpp"
#include "tests/registry/manifest/collector.hpp"

namespace meshdns::registry {
namespace {

const std::string kGood =
    "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: api}\n"
    "spec: {hosts: [a.example.org], addresses: [10.0.0.1], resolution: STATIC}\n";
const std::string kGoodJson =
    R"({"apiVersion":"networking.istio.io/v1","kind":"ServiceEntry","metadata":{"name":"api"},)"
    R"("spec":{"hosts":["a.example.org"],"addresses":["10.0.0.1"],"resolution":"STATIC"}})";

std::string nested(std::size_t depth, std::string_view open, std::string_view close) {
  std::string out;
  for (std::size_t i = 0; i < depth; ++i) out += open;
  for (std::size_t i = 0; i < depth; ++i) out += close;
  return out;
}

TEST(HostileInputTest, DepthIsBoundedInYamlAndJson) {
  const auto reads = [](const std::string& text) {
    return read_documents(text, {}, [](const Document&) {}).has_value();
  };
  // A mapping or list at the top is the first of the 64 levels.
  EXPECT_TRUE(reads(nested(64, "[", "]")));
  EXPECT_FALSE(reads(nested(65, "[", "]")));
  EXPECT_TRUE(reads("a: " + nested(63, "[", "]")));
  EXPECT_FALSE(reads("a: " + nested(64, "[", "]")));
  EXPECT_TRUE(reads(nested(32, "{\"a\":[", "]}")));
  EXPECT_FALSE(reads(nested(33, "{\"a\":[", "]}")));
  for (const std::size_t depth : {5000U, 200'000U}) {
    for (const std::string_view open : {"[", "{a: ", "- ", "? ", "{\"a\":"}) {
      const Collected collected = read(kGood + "---\n" + nested(depth, open, ""));
      EXPECT_FALSE(collected.result);
      EXPECT_EQ(collected.resources.size(), 1U);
      ASSERT_EQ(collected.findings.size(), 1U);
      EXPECT_EQ(collected.findings[0].line, 6U) << collected.all();
    }
    EXPECT_FALSE(read(nested(depth, "[", "]")).result);
    EXPECT_FALSE(read(nested(depth, "{\"a\":", "}")).result);
  }
}

TEST(HostileInputTest, AliasesStandForFewValues) {
  std::string laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'j'; ++c) {
    laughs += std::string{c, ':', ' ', '&', c, ' ', '['};
    for (int i = 0; i < 9; ++i) {
      laughs += i == 0 ? "*" : ",*";
      laughs += static_cast<char>(c - 1);
    }
    laughs += "]\n";
  }
  const Collected collected = read(kGood + "---\n" + laughs + "---\n" + kGood);
  EXPECT_TRUE(collected.result);
  EXPECT_EQ(collected.resources.size(), 2U) << "the documents around it are served";
  EXPECT_TRUE(collected.says("expands to more than 256 values")) << collected.all();
}

TEST(HostileInputTest, ManySmallAliasesAreBoundedTogether) {
  std::string text = "a: &a [" + nested(1, "x,", "");
  for (int i = 0; i < 250; ++i) text += "x,";
  text += "x]\nb: [";
  for (int i = 0; i < 20'000; ++i) text += "*a,";
  text += "]\n";
  const auto result = read_documents(text, {}, [](const Document&) {});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("too many values"), std::string::npos);
}

TEST(HostileInputTest, MergesAreBoundedTogether) {
  std::string text = "a: &a {";
  for (int i = 0; i < 200; ++i) text += "k" + std::to_string(i) + ": 1, ";
  text += "}\nb: [";
  for (int i = 0; i < 30'000; ++i) text += "{<<: *a},";
  text += "]\n";
  const auto result = read_documents(text, {}, [](const Document&) {});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("values"), std::string::npos) << result.error().message;
}

TEST(HostileInputTest, MergesOfManyMappingsTakeLinearTime) {
  std::string text = "a: &a {b: 1, c: 2}\nb:\n  <<: [";
  for (int i = 0; i < 200'000; ++i) text += "*a,";
  text += "]\n";
  for (int i = 0; i < 200'000; ++i) text += "  k" + std::to_string(i) + ": 1\n";
  EXPECT_TRUE(read_documents(text, {}, [](const Document&) {}));
}

TEST(HostileInputTest, AliasesDoNotEvadeTheDepth) {
  std::string text = "a0: &a0 " + nested(30, "[", "]") + "\n";
  text += "b: " + nested(40, "[", "");
  text += "*a0" + nested(40, "", "]") + "\n";
  const auto result = read_documents(text, {}, [](const Document&) {});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("levels deep"), std::string::npos)
      << result.error().message;
}

TEST(HostileInputTest, AnchorsAreCounted) {
  std::string text;
  for (int i = 0; i <= 1000; ++i) text += "- &a" + std::to_string(i) + " x\n";
  EXPECT_FALSE(read_documents(text, {}, [](const Document&) {}));
}

TEST(HostileInputTest, TextIsBounded) {
  DocumentLimits limits;
  limits.max_bytes = kGood.size();
  EXPECT_TRUE(read_documents(kGood, limits, [](const Document&) {}));
  limits.max_bytes = kGood.size() - 1;
  EXPECT_FALSE(read_documents(kGood, limits, [](const Document&) {}));
  const std::string large(DocumentLimits().max_bytes + 1, '\n');
  const Collected collected = read(large);
  EXPECT_FALSE(collected.result);
  EXPECT_TRUE(collected.says("67108865 bytes")) << collected.all();
}

TEST(HostileInputTest, ValuesOfOneDocumentAreBounded) {
  DocumentLimits limits;
  limits.max_values = 100;
  const auto reads = [&](std::size_t count) {
    std::string text = "[";
    for (std::size_t i = 0; i + 1 < count; ++i) text += "0,";
    return read_documents(text + "]", limits, [](const Document&) {}).has_value();
  };
  EXPECT_TRUE(reads(100));
  EXPECT_FALSE(reads(101));
}

TEST(HostileInputTest, ManyProblemsEndTheReading) {
  std::string text = "a:\n";
  for (int i = 0; i < 2000; ++i) text += "- {x: 1, x: 2}\n";
  EXPECT_FALSE(read_documents(text, {}, [](const Document&) {}));
}

TEST(HostileInputTest, OnlyUtf8IsText) {
  const std::vector<std::string> bad = {
      "kind: \xFF\xFE\n",
      "a: \xC0\x80\n",
      "a: \xED\xA0\x80\n",
      "a: \xF5\x80\x80\x80\n",
      "a: \xE2\x82\n",
      "a: \x80\n",
      std::string("a: \0 b\n", 7),
      "a: \"\x01\"\n",
      "{\"a\": \"\xFF\"}",
      "{\"a\": \"\xC0\x80\"}",
      "{\"a\": \"\x01\"}",
      "{\"a\": \"\\ud800\"}",
      "\xFF\xFE" + std::string("a\0:\0 \0b\0", 8),
  };
  for (const std::string& text : bad) {
    const Collected collected = read("# first line\n" + text);
    EXPECT_FALSE(collected.result) << text;
    ASSERT_EQ(collected.findings.size(), 1U);
    EXPECT_EQ(collected.findings[0].line, 2U) << collected.all();
  }
  const Collected json = read("{\"a\":\n\"\xFF\"}");
  EXPECT_FALSE(json.result);
  EXPECT_EQ(json.findings.at(0).line, 2U);
}

TEST(HostileInputTest, NulIsNoEndOfText) {
  const Collected yaml = read(
      "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: \"api\\0x\"}\n"
      "spec: {hosts: [\"a.example.org\\0.evil\"], resolution: STATIC}\n");
  EXPECT_EQ(yaml.places(),
            (std::vector<std::string>{"3 error metadata.name", "4 error spec.hosts[0]"}));
  EXPECT_TRUE(yaml.says("api\\000x")) << yaml.all();
  const Collected json =
      read(R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"a\u0000"},)"
           R"("spec":{"clusterIP":"10.0.0.1\u0000"}})");
  EXPECT_EQ(json.places(),
            (std::vector<std::string>{"1 error metadata.name", "1 error spec.clusterIP"}));
  EXPECT_FALSE(read(std::string("{}\0{}", 5)).result);
}

TEST(HostileInputTest, FindingsAreOneLineOfPrintableText) {
  const Collected collected = read(
      "apiVersion: v1\nkind: \"Evil\\n\\e[31m\"\nmetadata: {name: \"a\\nfake.yaml:1: "
      "error\"}\n---\n"
      "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
      "metadata: {name: \"x\\ny\", namespace: \"\xC3\xA4\"}\nspec: {hosts: [\"a\\nb\"], \"f\\nf\": "
      "1, " +
      std::string(500, 'k') + ": 1}\n");
  EXPECT_GE(collected.findings.size(), 5U);
  for (const Finding& finding : collected.findings) {
    const std::string line = finding.to_string();
    EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; })) << line;
    EXPECT_LT(line.size(), 500U) << line;
  }
}

TEST(HostileInputTest, HalfWrittenTextIsAnErrorOrAnEarlierVersionOfItself) {
  for (const std::string& whole : {kGood, kGoodJson}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const Collected collected = read(std::string_view(whole).substr(0, length));
      // A cut text that is valid YAML may be an object of its own; it is never taken for a
      // complete document.
      if (collected.resources.empty()) continue;
      EXPECT_TRUE(collected.result);
      EXPECT_GE(length, whole.size() - 1) << whole.substr(0, length);
    }
  }
}

TEST(HostileInputTest, LongWordsAreNotCompared) {
  std::string text =
      "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a}\n"
      "spec:\n  hosts: [a.example.org]\n";
  for (int i = 0; i < 40; ++i)
    text += "  ? \"" + std::string(100'000, 'x') + std::to_string(i) + "\"\n  : 1\n";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(read(text).resources.size(), 1U);
  // 40 words of 100,000 octets against 9 names would be 400 million steps.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(HostileInputTest, KeysThatAreNotTextAreErrors) {
  EXPECT_FALSE(read("? [a, b]\n: 1\n").result);
  EXPECT_FALSE(read("{a: b}: 1\n").result);
  EXPECT_FALSE(read("a: &x [1]\n*x : 2\n").result);
}

}  // namespace
}  // namespace meshdns::registry
