// SPDX-License-Identifier: Apache-2.0
// `search_shortcut: all`: a name that ends in the first of the client's search domains and is known
// to nobody is the client's resolver walking its list (walked_name()).  We walk the rest of it at
// once, in the resolver's order, so that the client asks once and ends where its own walk would:
// an outside name costs an upstream query more for each domain outside the cluster.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "resolver/cache/cached_message.hpp"
#include "resolver/wire/types.hpp"

namespace meshdns::dnsd {

// A value.  Allocates when it begins.
class SearchWalk {
 public:
  bool is_active() const { return active_; }
  bool is_over() const { return over_; }
  // Walks on with `rest` in each domain but the first, and last as it is.  REQUIRES: canonical
  // names, a first domain, not yet begun.
  void begin(std::string_view rest, const std::vector<std::string>& domains);
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
