// SPDX-License-Identifier: Apache-2.0
// Findings about one object and findings across objects in one form, for programs: the JSON of
// `meshdnsd check` and of /registry/findings, and SARIF.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "dnsd/answer/json_members.hpp"
#include "registry/analysis/analysis.hpp"
#include "registry/base/finding.hpp"

namespace meshdns::dnsd {

// The ids of findings about one object by itself.
inline constexpr std::string_view kInvalidId = "invalid-resource";
inline constexpr std::string_view kDoubtfulId = "doubtful-resource";

struct ReportedFinding {
  std::string_view id;
  std::string_view level;  // "note", "warning", "error": the words of SARIF, too
  registry::ObjectPlace place;
  std::string field;
  std::string message;
  std::optional<registry::ObjectPlace> other = {};
};

ReportedFinding reported(const registry::Finding& finding);
ReportedFinding reported(const registry::MeshFinding& finding);

// Adds an object.
void put_finding(JsonWriter& json, const ReportedFinding& finding);

}  // namespace meshdns::dnsd
