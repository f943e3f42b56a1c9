// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/yaml_dialect.hpp"

#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::registry {

namespace {

// "tag:yaml.org,2002:str" -> "str"
std::string_view core_name(std::string_view tag) {
  constexpr std::string_view prefix = "tag:yaml.org,2002:";
  if (tag.starts_with(prefix)) tag.remove_prefix(prefix.size());
  return tag;
}

// U+FDD0, a noncharacter: for use inside of programs.
constexpr std::string_view kStandIn = "\xEF\xB7\x90";

bool is_any_of(char c, std::string_view set) { return set.contains(c); }

// Returns whether the colon at `at` belongs to a plain text, though the libraries think otherwise:
// it stands before the end of a flow value, or it is the first of two at the beginning of one.
bool is_plain_colon(std::string_view text, std::size_t at) {
  const char next = at + 1 < text.size() ? text[at + 1] : '\0';
  const char before = at == 0 ? '\n' : text[at - 1];
  const bool is_at_start = is_any_of(before, " \t\r\n[{,");
  if (is_at_start) return next == ':';
  // After a quoted key or a collection it is what it seems.
  return is_any_of(next, ",]}") && !is_any_of(before, "\"']}");
}

std::size_t find_plain_colon(std::string_view text, std::size_t from) {
  std::size_t at = text.find(':', from);
  while (at != std::string_view::npos && !is_plain_colon(text, at)) at = text.find(':', at + 1);
  return at;
}

// Returns whether the text holds the stand-in itself, as it is or as an escape.
bool uses_stand_in(std::string_view text) {
  if (text.contains(kStandIn)) return true;
  for (std::size_t at = text.find('\\'); at != std::string_view::npos; at = text.find('\\', at + 1))
    if (equals_ignoring_case(text.substr(at + 1, 5), "ufdd0") ||
        equals_ignoring_case(text.substr(at + 1, 9), "U0000fdd0"))
      return true;
  return false;
}

std::string exchange(std::string_view text, std::size_t first) {
  std::string out;
  out.reserve(text.size() + 64);
  std::size_t copied = 0;
  for (std::size_t at = first; at != std::string_view::npos; at = find_plain_colon(text, at + 1)) {
    out.append(text.substr(copied, at - copied)).append(kStandIn);
    copied = at + 1;
  }
  return out.append(text.substr(copied));
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

PlainColons::PlainColons(std::string_view text) : original_(text) {
  const std::size_t first = find_plain_colon(text, 0);
  if (first != std::string_view::npos && !uses_stand_in(text)) exchanged_ = exchange(text, first);
}

std::string_view PlainColons::restore(std::string_view scalar) {
  if (exchanged_.empty()) return scalar;
  std::size_t at = scalar.find(kStandIn);
  if (at == std::string_view::npos) return scalar;
  restored_.clear();
  for (; at != std::string_view::npos; at = scalar.find(kStandIn)) {
    restored_.append(scalar.substr(0, at)).append(1, ':');
    scalar.remove_prefix(at + kStandIn.size());
  }
  return restored_.append(scalar);
}

}  // namespace meshdns::registry
