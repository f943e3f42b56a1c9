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

bool is_indented_with_tab(std::string_view text, std::uint32_t line) {
  for (std::uint32_t number = 1; number < line; ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find_first_not_of(" \t-")).contains('\t');
}

YamlEvents::YamlEvents(std::string_view text, TreeBuilder& builder)
    : original_(text), builder_(builder) {
  const std::size_t first = find_plain_colon(text, 0);
  if (first != std::string_view::npos && !uses_stand_in(text)) exchanged_ = exchange(text, first);
}

bool YamlEvents::scalar(std::string_view text, bool quoted, const Properties& properties,
                        std::uint32_t line) {
  const std::string_view tag = core_name(properties.tag);
  builder_.anchor_next(properties.anchor);
  if (tag == "str" || tag == "!")
    quoted = true;
  else if (tag == "?" || tag == "int" || tag == "bool" || tag == "float" || tag == "null")
    quoted = false;
  else if (!tag.empty())
    refuse_tag(tag, line);
  return builder_.scalar(restore(text), quoted, line);
}

bool YamlEvents::start_mapping(const Properties& properties, std::uint32_t line) {
  take_properties(properties, "map", line);
  return builder_.start_mapping(line);
}

bool YamlEvents::start_sequence(const Properties& properties, std::uint32_t line) {
  take_properties(properties, "seq", line);
  return builder_.start_sequence(line);
}

void YamlEvents::take_properties(const Properties& properties, std::string_view type,
                                 std::uint32_t line) {
  const std::string_view tag = core_name(properties.tag);
  builder_.anchor_next(properties.anchor);
  if (!tag.empty() && tag != "?" && tag != "!" && tag != type) refuse_tag(tag, line);
}

void YamlEvents::refuse_tag(std::string_view tag, std::uint32_t line) {
  builder_.problem(line, "the tag " + in_quotes(tag) + " is not supported; remove it");
}

std::string_view YamlEvents::restore(std::string_view scalar) {
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
