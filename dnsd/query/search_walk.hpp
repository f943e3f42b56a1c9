// SPDX-License-Identifier: Apache-2.0
// `search_shortcut: all`: a name that ends in one of the client's search domains and is known to
// nobody is the client's resolver walking its list.  We walk the rest of it at once, so that the
// client asks once, and the upstream hears one name instead of ndots:5's many.
//
// Names with a dot are tried as they are before other search domains that only an upstream could
// know: nearly all of them are outside names, and each domain of the node would cost a query more.
// Single labels follow the client's own order.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/cache/cached_message.hpp"
#include "wire/types.hpp"

namespace meshdns::dnsd {

// A value.  Allocates when it begins.
class SearchWalk {
 public:
  bool is_active() const { return active_; }
  bool is_over() const { return over_; }
  // False when `name` ends in none of the domains.  REQUIRES: canonical names, not yet begun.
  bool begin(std::string_view name, const std::vector<std::string>& domains);
  // The next name to try; empty: there is none, and the walk is over.
  std::string_view next();
  // Ends the walk before that.
  void stop(wire::Ede why);

  // The upstream's own denial of the name that was asked, where it was asked; else null.
  MessageRef denial;
  // Why the walk was stopped; nullopt: it was not.
  std::optional<wire::Ede> stopped_by;

 private:
  bool active_ = false;
  bool over_ = false;
  std::size_t next_ = 0;
  std::vector<std::string> names_;
};

}  // namespace meshdns::dnsd
