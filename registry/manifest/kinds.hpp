// SPDX-License-Identifier: Apache-2.0
// The kinds that are read, those that are known to have no bearing on names, and the rest.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "registry/manifest/object.hpp"

namespace meshdns::registry {

struct KindReader {
  Kind kind;
  std::string_view group;  // "" is the core group
  std::span<const std::string_view> versions;
  NameRule name_rule;
  bool is_namespaced;
  Resource (*read)(Object&);
  // Read only if ManifestOptions::gateway_kinds has it; else a kind without bearing.
  bool is_optional = false;
};

// The reader of a type; null when the kind has none or the group is another's.
const KindReader* find_reader(std::string_view group, std::string_view kind);
// Every reader of kinds with that name, whatever the group.
const KindReader* find_reader_of_any_group(std::string_view kind);

// Kinds that often stand in the same files and say nothing about names (Deployment), and those that
// are not always read (Gateway).
bool is_kind_without_bearing(std::string_view kind);

// Groups of kinds that are read.
bool is_watched_group(std::string_view group);

// `; did you mean "Service"?` from the kinds of that group.
std::string did_you_mean_kind(std::string_view group, std::string_view kind);
// The watched group that a typing error has turned into `group`.
std::optional<std::string> nearest_group(std::string_view group);

}  // namespace meshdns::registry
