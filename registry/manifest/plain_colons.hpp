// SPDX-License-Identifier: Apache-2.0
// Colons of unquoted IPv6 addresses in flow lists and mappings: [2001:db8::], {address: ::1}.
//
// kubectl and istioctl read them as text.  Both of our YAML libraries take such a colon for the end
// of a key, or give up.  They are therefore given a stand-in for it, a code point that no text
// uses, and the stand-in is turned back into a colon in whatever they read: in a quoted text or a
// comment the exchange changes nothing.
#pragma once

#include <string>
#include <string_view>

namespace meshdns::registry {

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
