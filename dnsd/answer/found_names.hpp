// SPDX-License-Identifier: Apache-2.0
// The results of lookups in the registry, kept while one name is explained.
#pragma once

#include <list>
#include <string>
#include <string_view>

#include "registry/view/view.hpp"

namespace meshdns::dnsd {

// An explanation asks for one name by several types, and each looks the same names up.  A deep name
// below many wildcards takes microseconds, so each name is looked up once.  One view, one thread.
class FoundNames {
 public:
  // Returns what view.lookup() returns.  Its `below` is valid as long as this object.  `trace` is
  // filled only by the first lookup of a name.
  const registry::Match& lookup(const registry::View& view, std::string_view name,
                                registry::Trace* trace) {
    for (const Found& found : found_)
      if (found.name == name) return found.match;
    Found& found = found_.emplace_back(std::string(name), registry::Match{});
    found.match = view.lookup(found.name, trace);
    return found.match;
  }

 private:
  struct Found {
    std::string name;
    registry::Match match;
  };
  std::list<Found> found_;  // a list: matches refer to the names
};

}  // namespace meshdns::dnsd
