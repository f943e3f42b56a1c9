// SPDX-License-Identifier: Apache-2.0
// Every refusal and warning of a resource, each beside its nearest accepted neighbour: the rows of
// findings.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/registry/manifest/collector.hpp"

namespace meshdns::registry {
namespace {

struct FindingsOfKind {
  std::string name;
  std::vector<std::string> frame;  // lines; one is {text}
  std::vector<FindingCase> rows;
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// Takes a field off the front of a row.
std::string take(std::string_view& rest, std::string_view separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + separator.size(), rest.size()));
  if (part.starts_with(' ')) part.remove_prefix(1);
  return std::string(part);
}

std::vector<FindingsOfKind> table_of_findings() {
  std::ifstream file(MESHDNS_SOURCE_DIR "/tests/registry/manifest/findings.txt");
  std::vector<FindingsOfKind> kinds;
  std::vector<std::pair<std::string, std::string>> shorthands;
  for (std::string line; std::getline(file, line);) {
    std::string_view rest = line;
    if (line.empty() || line.starts_with('#')) continue;
    if (line.starts_with('<')) {
      std::string name = take(rest, " =");
      shorthands.emplace_back(std::move(name), take(rest, "\n"));
    } else if (line.starts_with('[')) {
      kinds.push_back({line.substr(1, line.size() - 2), {}, {}});
    } else if (line.starts_with("  ")) {
      kinds.back().frame.push_back(line.substr(2));
    } else {
      FindingCase& row = kinds.back().rows.emplace_back();
      row.name = take(rest, " |");
      row.text = take(rest, " |");
      for (const auto& [name, text] : shorthands) replace_all(row.text, name, text);
      replace_all(row.text, "\\n", "\n");
      const std::string places = take(rest, " |");
      for (std::string_view left = places; !left.empty();) row.places.push_back(take(left, ";"));
      row.says = take(rest, " |");
    }
  }
  return kinds;
}

std::string framed(const std::vector<std::string>& frame, std::string_view text) {
  std::string out;
  for (const std::string& line : frame) {
    const std::size_t column = line.find("{text}");
    out += column == std::string::npos ? line + "\n" : indent(text, column);
  }
  return out;
}

class ManifestFindings : public testing::TestWithParam<FindingsOfKind> {};

TEST_P(ManifestFindings, AreThoseOfTheTable) {
  for (const FindingCase& row : GetParam().rows)
    expect_findings(row, framed(GetParam().frame, row.text));
}

void PrintTo(const FindingsOfKind& kind, std::ostream* out) { *out << kind.name; }

INSTANTIATE_TEST_SUITE_P(Of, ManifestFindings, testing::ValuesIn(table_of_findings()),
                         [](const testing::TestParamInfo<FindingsOfKind>& kind) {
                           std::string name = kind.param.name;
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

TEST(ManifestFindingsTest, TheTableHasARowForEachRule) {
  std::size_t rows = 0;
  for (const FindingsOfKind& kind : table_of_findings()) rows += kind.rows.size();
  EXPECT_GE(rows, 582U);
}

}  // namespace
}  // namespace meshdns::registry
