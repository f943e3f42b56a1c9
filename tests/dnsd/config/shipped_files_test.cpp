// SPDX-License-Identifier: Apache-2.0
// conf/meshdns.yaml and docs/configuration.md agree with the loader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <string>

#include "dnsd/config/load.hpp"

namespace meshdns::dnsd {
namespace {

using testing::IsEmpty;

std::string read(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string kConfig = MESHDNS_SOURCE_DIR "/conf/meshdns.yaml";
const std::string kDocumentation = MESHDNS_SOURCE_DIR "/docs/configuration.md";

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

TEST(ShippedConfigTest, HasTheDefaultsExceptForSourcesAndASocketForChanges) {
  const auto loaded = load_config({kConfig});
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT(loaded->findings, IsEmpty());
  Config expected;
  expected.sources = {FilesSource{"conf/examples", "", ""}};
  expected.admin.listen.insert(expected.admin.listen.begin(),
                               UnixAddress{"/tmp/meshdns-admin.sock"});
  EXPECT_THAT(changed_sections(expected, loaded->config), IsEmpty()) << to_json(loaded->config);
  EXPECT_EQ(loaded->config, expected);
}

TEST(ShippedConfigTest, HasEveryKey) {
  const std::string text = read(kConfig);
  for (const std::string& key : known_keys())
    EXPECT_TRUE(std::regex_search(
        text, std::regex("[ #{-]" + last_part(key) + ":|\n" + last_part(key) + ":")))
        << key;
}

struct Row {
  std::string key;
  std::string default_value;
};

// The rows of the page's tables, `| `KEY` | `DEFAULT` | ...`.
std::vector<Row> documented_keys() {
  const std::string text = read(kDocumentation);
  const std::regex row("\n\\| `([A-Za-z0-9_.]+)` \\| (?:`([^`]*)`|required) \\|");
  std::vector<Row> rows;
  for (std::sregex_iterator i(text.begin(), text.end(), row), end; i != end; ++i)
    rows.push_back({(*i)[1].str(), (*i)[2].str()});
  return rows;
}

// Those that hold a value rather than further keys.
std::vector<std::string> leaf_keys() {
  std::vector<std::string> leaves = known_keys();
  std::erase_if(leaves, [keys = leaves](const std::string& key) {
    return std::ranges::any_of(keys, [&](const auto& k) { return k.starts_with(key + "."); });
  });
  leaves.emplace_back("mesh.service_entry_visibility.policies");
  leaves.emplace_back("mesh.service_entry_visibility.policies.matchingRules");
  leaves.emplace_back(
      "mesh.service_entry_visibility.policies.matchingRules.namespaceSelector.matchExpressions");
  return leaves;
}

TEST(ConfigurationPageTest, HasEveryKeyAndNoOther) {
  std::vector<std::string> documented;
  for (const Row& row : documented_keys()) documented.push_back(row.key);
  EXPECT_THAT(documented, testing::UnorderedElementsAreArray(leaf_keys()));
}

// "a.b.c" with its value, as YAML.
std::string yaml_of(const Row& row) {
  std::string text;
  for (const char c : row.key)
    if (c == '.')
      text += ": {";
    else
      text += c;
  text += ": " + row.default_value;
  return text + std::string(static_cast<std::size_t>(std::ranges::count(row.key, '.')), '}');
}

TEST(ConfigurationPageTest, HasTheDefaultsOfTheLoader) {
  for (const Row& row : documented_keys()) {
    if (row.key.starts_with("sources.") || row.key.find(".policies.") != std::string::npos)
      continue;
    LoadedConfig loaded = parse_config(yaml_of(row), row.key);
    loaded.config.mesh.origins = {};  // of these rows only
    for (const auto& finding : loaded.findings) ADD_FAILURE() << finding.to_string();
    EXPECT_EQ(loaded.config, Config()) << yaml_of(row);
  }
}

// Every fenced YAML block is a valid configuration.
TEST(ConfigurationPageTest, HasExamplesThatLoad) {
  const std::string text = read(kDocumentation);
  const std::regex block("```yaml\n([^`]*)```");
  int count = 0;
  for (std::sregex_iterator i(text.begin(), text.end(), block), end; i != end; ++i, ++count)
    for (const auto& finding : parse_config((*i)[1].str(), "configuration.md").findings)
      ADD_FAILURE() << finding.to_string() << "\n" << (*i)[1].str();
  EXPECT_GE(count, 3);
}

}  // namespace
}  // namespace meshdns::dnsd
