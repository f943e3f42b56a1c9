// SPDX-License-Identifier: Apache-2.0
// Every number that a configuration can hold, with everything that looks like a number and is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/load.hpp"

namespace meshdns::dnsd {
namespace {

using Strings = std::vector<std::string>;

// A configuration with one key, e.g. "server.tcp.idle_timeout", and the line of its value.
struct Text {
  std::string yaml = "# a line\n# and another one\n";
  std::uint32_t line = 2;
};
Text text_with(const std::string& key, const std::string& value) {
  Text text;
  std::string indent;
  std::size_t at = 0;
  for (;;) {
    const std::size_t dot = key.find('.', at);
    text.yaml += indent + key.substr(at, dot - at) + ":";
    ++text.line;
    if (dot == std::string::npos) break;
    text.yaml += "\n";
    indent += "  ";
    at = dot + 1;
  }
  text.yaml += " " + value + "\n";
  return text;
}

void expect_taken(const std::string& key, const std::string& value) {
  const auto loaded = parse_config(text_with(key, value).yaml, "t.yaml");
  EXPECT_TRUE(loaded.valid()) << key << ": " << value << ": " << loaded.findings[0].to_string();
}

void expect_refused(const std::string& key, const std::string& value) {
  const Text text = text_with(key, value);
  const auto loaded = parse_config(text.yaml, "t.yaml");
  ASSERT_FALSE(loaded.valid()) << key << ": " << value << " is taken";
  const auto& finding = loaded.findings[0];
  EXPECT_EQ(finding.line, text.line) << key << ": " << value;
  // Text that is not even YAML belongs to no key.
  const bool is_no_yaml = finding.field.empty() && (finding.message == "unknown token" ||
                                                    finding.message == "end of map not found");
  EXPECT_TRUE(is_no_yaml || finding.field == key || finding.field.starts_with(key + "["))
      << finding.to_string() << " is not about " << key;
  EXPECT_LT(finding.message.size(), 1000u);
}

// In place of digits.  None is a number that people and programs read alike.
Strings odd_digits() {
  Strings all = {"-1",
                 "-0",
                 "+1",
                 "0x10",
                 "0X1F",
                 "0o10",
                 "0b11",
                 "010",
                 "00",
                 "1_000",
                 "1,000",
                 "1'000",
                 "1e3",
                 "1E3",
                 "1e400",
                 "1.",
                 "1.5.5",
                 "1 000",
                 "1 0",
                 "--1",
                 "1-",
                 "nan",
                 ".nan",
                 "inf",
                 ".inf",
                 "-inf",
                 "true",
                 "null",
                 "~",
                 "five",
                 "1:30",
                 "1;",
                 "1#",
                 "%31",
                 "$1",
                 "1%",
                 "-2147483649",
                 "4294967296",
                 "4294967297",
                 "9223372036854775808",
                 "18446744073709551615",
                 "18446744073709551616",
                 "18446744073709551617",
                 "340282366920938463463374607431768211456",
                 "\xd9\xa1",          // ARABIC-INDIC DIGIT ONE
                 "\xef\xbc\x91",      // FULLWIDTH DIGIT ONE
                 "\xc2\xb2",          // SUPERSCRIPT TWO
                 "\xe2\x88\x92\x31",  // MINUS SIGN
                 "1\xc2\xa0",         // NO-BREAK SPACE
                 std::string(400, '9'),
                 "0." + std::string(400, '0') + "1"};
  return all;
}

Strings odd_values() {
  Strings all = odd_digits();
  const Strings more = {"",       "''", "'5'", "' 5'",     "'5 '", "[5]",
                        "{a: 5}", "[]", "{}",  "!!int 5x", "1.5"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// The range of a key: the least and the longest value that are taken, and those beside them.
struct Range {
  Strings taken;
  Strings refused;
};
Range numbers(const std::string& min, const std::string& max, const std::string& beyond) {
  Range range{{min, max}, {beyond}};
  if (min != "0") range.refused.emplace_back("0");
  return range;
}

const std::map<std::string, Range>& whole_numbers() {
  static const std::map<std::string, Range> kTable = {
      {"server.workers", numbers("0", "1024", "1025")},
      {"server.tcp.max_connections", numbers("1", "1000000", "1000001")},
      {"server.tcp.max_connections_per_client", numbers("1", "1000000", "1000001")},
      {"server.rate_limit.responses_per_second", numbers("0", "1000000", "1000001")},
      {"server.rate_limit.slip", numbers("0", "100", "101")},
      {"server.rate_limit.ipv4_prefix", {{"8", "32"}, {"7", "33"}}},
      {"server.rate_limit.ipv6_prefix", {{"16", "128"}, {"15", "129"}}},
      {"mesh.ttl.vip", numbers("0", "604800", "604801")},
      {"mesh.ttl.endpoint", numbers("0", "604800", "604801")},
      {"mesh.ttl.kubernetes", numbers("0", "604800", "604801")},
      {"mesh.ttl.negative", numbers("0", "604800", "604801")},
      {"mesh.vip_namespace_quota", numbers("0", "16777216", "16777217")},
      {"upstream.max_in_flight", numbers("1", "1000000", "1000001")},
  };
  return kTable;
}

const std::map<std::string, Range>& shares() {
  static const std::map<std::string, Range> kTable = {
      {"log.queries.sample",
       {{"0", "1", "0.5", "1.0", "0.0001"}, {"1.0000001", "2", "-0.5", "00", "00.5", "01"}}}};
  return kTable;
}

const std::map<std::string, Range>& durations() {
  static const std::map<std::string, Range> kTable = {
      {"server.tcp.idle_timeout", {{"100ms", "1h", "60m"}, {"99ms", "0", "3600001ms", "61m"}}},
      {"server.lameduck", {{"0", "0s", "5m", "1ms"}, {"301s", "300001ms"}}},
      {"upstream.timeout", {{"10ms", "1m", "1s500ms"}, {"9ms", "0s", "60001ms"}}},
      {"cache.min_ttl", {{"0s", "1h", "1000ms"}, {"86401s", "1500ms", "1ms"}}},
      {"cache.max_ttl", {{"0s", "168h"}, {"604801s", "169h", "1ms"}}},
      {"cache.negative_max_ttl", {{"0s", "24h"}, {"86401s", "25h", "1ms"}}},
      {"cache.serve_stale", {{"0s", "168h"}, {"604801s", "169h", "1ms"}}},
      {"history.keep", {{"0s", "1s", "168h", "8760h"}, {"31536001s", "8761h", "1ms"}}},
      {"dependencies.keep", {{"1h", "3601s", "8760h"}, {"0s", "3599s", "31536001s", "1h1ms"}}},
  };
  return kTable;
}

const std::map<std::string, Range>& sizes() {
  static const std::map<std::string, Range> kTable = {
      {"cache.size",
       {{"0", "1", "auto", "64MiB", "1024GiB", "1099511627776"}, {"1025GiB", "1099511627777"}}},
      {"history.size",
       {{"0", "1MiB", "1048576", "64MiB", "1024GiB"}, {"1", "1023KiB", "1048575", "1025GiB"}}},
      {"dependencies.memory",
       {{"1MiB", "1048576", "16MiB", "1024GiB"}, {"0", "1023KiB", "1048575", "1025GiB"}}},
  };
  return kTable;
}

bool is_size_or_duration(const std::string& text) {
  static const std::regex kForm("(\\d+(ms|s|m|h|KiB|MiB|GiB)?)|auto");
  return std::regex_match(text, kForm);
}

// The keys that hold a number by default, and how.
void collect(const rapidjson::Value& node, const std::string& key, std::set<std::string>& found) {
  if (node.IsObject()) {
    for (const auto& member : node.GetObject())
      collect(member.value, (key.empty() ? "" : key + ".") + member.name.GetString(), found);
  } else if (node.IsNumber() || (node.IsString() && is_size_or_duration(node.GetString()))) {
    found.insert(key);
  }
}

// A key that is new in the schema must come into a table above.
TEST(ConfigNumbersTest, CoverEveryNumberOfTheSchema) {
  rapidjson::Document document;
  document.Parse(to_json(Config()).c_str());
  std::set<std::string> in_schema;
  collect(document, "", in_schema);
  for (const auto* const words : {"mesh.authoritative", "server.cookies.mode", "upstream.cookies"})
    in_schema.erase(words);  // whose default is "auto", too
  std::set<std::string> in_tables;
  for (const auto* const table : {&whole_numbers(), &shares(), &durations(), &sizes()})
    for (const auto& [key, range] : *table) in_tables.insert(key);
  EXPECT_EQ(in_schema, in_tables);
}

TEST(ConfigNumbersTest, AcceptOnlyNumbersInRange) {
  for (const auto* const table : {&whole_numbers(), &shares(), &durations(), &sizes()})
    for (const auto& [key, range] : *table) {
      for (const std::string& value : range.taken) expect_taken(key, value);
      for (const std::string& value : range.refused) expect_refused(key, value);
    }
}

TEST(ConfigNumbersTest, RefuseWholeNumbersInAnyOtherForm) {
  for (const auto& [key, range] : whole_numbers())
    for (const std::string& value : odd_values()) expect_refused(key, value);
}

TEST(ConfigNumbersTest, RefuseSharesInAnyOtherForm) {
  for (const auto& [key, range] : shares())
    for (const std::string& value : odd_values()) {
      const bool is_share = value == "1." || value == "0." + std::string(400, '0') + "1";
      if (!is_share && value != "010" && value != "00") expect_refused(key, value);
    }
}

TEST(ConfigNumbersTest, RefuseDurationsInAnyOtherForm) {
  const Strings units = {"", "s", "ms", "h", "S", "sec", " s", "d", "us", "\xc2\xb5s", "KiB", "ss"};
  for (const auto& [key, range] : durations()) {
    for (const std::string& digits : odd_values())
      for (const std::string& unit : units) expect_refused(key, digits + unit);
    for (const char* const value :
         {"5", "s", "ms5", "5S", "5 s", "5d", "5us", "5s5", "5ss", "1.5s"})
      expect_refused(key, value);
  }
}

TEST(ConfigNumbersTest, RefuseSizesInAnyOtherForm) {
  const Strings units = {"",  "MiB", "KiB",  "GiB", "MB", "M",
                         "k", "mib", " MiB", "TiB", "B",  "MiBMiB"};
  const std::set<std::string> good = {"4294967296", "4294967297", "4294967296KiB", "4294967297KiB"};
  for (const auto& [key, range] : sizes()) {
    for (const std::string& digits : odd_digits())
      for (const std::string& unit : units)
        if (good.count(digits + unit) == 0 || unit == "KiB") expect_refused(key, digits + unit);
    for (const char* const value : {"5MB", "5M", "5mib", "5 MiB", "5TiB", "5B", "5MiB5", "1.5MiB"})
      expect_refused(key, value);
  }
}

// Keys with an address and a port, and how often the port stands in them.
TEST(ConfigNumbersTest, RefusePortsInAnyOtherForm) {
  const std::vector<std::pair<std::string, Strings>> keys = {
      {"server.listen", {"[\"127.0.0.1:", "\"]"}},
      {"server.listen", {"[\"[::1]:", "\"]"}},
      {"admin.listen", {"\"127.0.0.1:", "\""}},
      {"upstream.servers", {"[\"192.0.2.1:", "\"]"}},
      {"upstream.servers", {"[\"tls://192.0.2.1:", "#a.example\"]"}},
  };
  for (const auto& [key, around] : keys) {
    for (const char* const good : {"1", "53", "65535"})
      expect_taken(key, around[0] + good + around[1]);
    for (const char* const bad : {"65536", "65589", "", " 53", "53 "})
      expect_refused(key, around[0] + bad + around[1]);
    for (const std::string& bad : odd_digits())
      if (bad.find_first_of("\"#") == std::string::npos)
        expect_refused(key, around[0] + bad + around[1]);
  }
}

TEST(ConfigNumbersTest, RefusePrefixLengthsInAnyOtherForm) {
  struct Case {
    std::string key, before, after;
    Strings taken, refused;
  };
  const std::vector<Case> cases = {
      {"server.allow", "[\"10.0.0.0/", "\"]", {"0", "8", "32"}, {"33", "255", "256", "264"}},
      {"server.allow", "[\"2001:db8::/", "\"]", {"0", "32", "128"}, {"129", "256", "288"}},
      {"server.allow",
       "[\"::ffff:10.0.0.0/",
       "\"]",
       {"96", "104", "128"},
       {"0", "8", "32", "95", "129"}},
      {"upstream.deny_answers", "[\"10.0.0.0/", "\"]", {"0", "32"}, {"33", "256"}},
      {"mesh.vip_cidr_v4", "\"10.0.0.0/", "\"", {"8", "30"}, {"3", "31", "32", "33"}},
      {"mesh.vip_cidr_v6", "\"2001:db8::/", "\"", {"32", "126"}, {"7", "127", "128", "129"}},
      {"dns64.prefix", "\"64:ff9b::/", "\"", {"32", "64", "96"}, {"0", "31", "33", "128", "352"}},
      {"mesh.reverse_zones", "[\"10.0.0.0/", "\"]", {"0", "8", "17", "32"}, {"33", "256"}},
  };
  for (const Case& c : cases) {
    for (const std::string& good : c.taken) expect_taken(c.key, c.before + good + c.after);
    Strings refused = odd_digits();
    refused.insert(refused.end(), c.refused.begin(), c.refused.end());
    refused.insert(refused.end(), {"", " 8", "8 ", "08"});
    for (const std::string& bad : refused)
      if (bad.find('"') == std::string::npos) expect_refused(c.key, c.before + bad + c.after);
  }
}

}  // namespace
}  // namespace meshdns::dnsd
