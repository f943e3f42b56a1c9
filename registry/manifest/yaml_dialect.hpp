// SPDX-License-Identifier: Apache-2.0
// The parts of YAML that both readers treat alike, and their libraries do not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "registry/manifest/tree_builder.hpp"

namespace meshdns::registry {

// Returns whether a line (the first is 1) is indented with a tab, which YAML forbids.  Of an error
// in such a line both libraries say something else ("illegal map value").
bool is_indented_with_tab(std::string_view text, std::uint32_t line);
inline constexpr std::string_view kTabMessage =
    "the line is indented with a tab; YAML allows spaces only";

// The values of a library on their way to the tree: their tags, and the colons of unquoted IPv6
// addresses in flow lists and mappings: [2001:db8::], {address: ::1}.  kubectl and istioctl read
// them as text.  Both libraries take such a colon for the end of a key, or give up.  They are
// therefore given a stand-in for it, a code point that no text uses, and the stand-in is turned
// back into a colon in whatever they read: in a quoted text or a comment the exchange changes
// nothing.
class YamlEvents {
 public:
  // REQUIRES: outlived by both.
  YamlEvents(std::string_view text, TreeBuilder& builder);

  // The text for the library: of as many lines as before.
  std::string_view text() const { return exchanged_.empty() ? original_ : exchanged_; }

  struct Properties {
    std::string_view tag;     // resolved ("tag:yaml.org,2002:str"); empty: none
    std::string_view anchor;  // empty: none
  };
  // As in TreeBuilder: false ends the reading.  `quoted`: of a scalar that no tag gives a type.
  bool scalar(std::string_view text, bool quoted, const Properties& properties, std::uint32_t line);
  bool start_mapping(const Properties& properties, std::uint32_t line);
  bool start_sequence(const Properties& properties, std::uint32_t line);

 private:
  void take_properties(const Properties& properties, std::string_view type, std::uint32_t line);
  void refuse_tag(std::string_view tag, std::uint32_t line);
  std::string_view restore(std::string_view scalar);

  std::string_view original_;
  std::string exchanged_;  // empty: there was nothing to exchange
  std::string restored_;
  TreeBuilder& builder_;
};

}  // namespace meshdns::registry
