// SPDX-License-Identifier: Apache-2.0
// The parts of YAML that both readers treat alike, and their libraries do not.
#pragma once

#include <string>
#include <string_view>

namespace meshdns::registry {

// The type that a scalar's tag gives it.  `tag` is the resolved tag ("tag:yaml.org,2002:str"),
// empty or
// "?" for a plain scalar without one, "!" for a quoted one.
enum class ScalarTag { Plain, String, Unknown };
ScalarTag scalar_tag(std::string_view tag);

// True if `tag` is empty or names the core type `expected` ("map", "seq").
bool is_collection_tag(std::string_view tag, std::string_view expected);

// The problem's message for a tag that is not known.
std::string unknown_tag(std::string_view tag);

// Colons of unquoted IPv6 addresses in flow lists and mappings: [2001:db8::], {address: ::1}.
// kubectl and istioctl read them as text.  Both libraries take such a colon for the end of a key,
// or give up.  They are therefore given a stand-in for it, a code point that no text uses, and the
// stand-in is turned back into a colon in whatever they read: in a quoted text or a comment the
// exchange changes nothing.
class PlainColons {
 public:
  // REQUIRES: outlived by `text`.
  explicit PlainColons(std::string_view text);

  // The text for the library: of as many lines as before.
  std::string_view text() const { return exchanged_.empty() ? original_ : exchanged_; }

  // A scalar as it was written.  Valid until the next call.
  std::string_view restore(std::string_view scalar);

 private:
  std::string_view original_;
  std::string exchanged_;  // empty: there was nothing to exchange
  std::string restored_;
};

}  // namespace meshdns::registry
