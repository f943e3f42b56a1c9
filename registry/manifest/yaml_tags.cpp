// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/yaml_tags.hpp"

#include "registry/base/printable.hpp"

namespace meshdns::registry {

namespace {

// "tag:yaml.org,2002:str" -> "str"
std::string_view core_name(std::string_view tag) {
  constexpr std::string_view prefix = "tag:yaml.org,2002:";
  if (tag.starts_with(prefix)) tag.remove_prefix(prefix.size());
  return tag;
}

}  // namespace

ScalarTag scalar_tag(std::string_view tag) {
  const std::string_view name = core_name(tag);
  if (name == "str" || name == "!") return ScalarTag::String;
  if (name.empty() || name == "?" || name == "int" || name == "bool" || name == "float" ||
      name == "null")
    return ScalarTag::Plain;
  return ScalarTag::Unknown;
}

bool is_collection_tag(std::string_view tag, std::string_view expected) {
  const std::string_view name = core_name(tag);
  return name.empty() || name == "?" || name == "!" || name == expected;
}

std::string unknown_tag(std::string_view tag) {
  return "the tag " + in_quotes(core_name(tag)) + " is not supported; remove it";
}

}  // namespace meshdns::registry
