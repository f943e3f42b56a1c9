// SPDX-License-Identifier: Apache-2.0
// Searches the names of the mesh that one client sees.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "registry/snapshot/client.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::dnsd {

struct NameMatch {
  std::string name;    // "api.example.org", "*.example.org"
  std::string answer;  // "10.0.0.7", "CNAME www.example.org", "no ready endpoints"
  std::string source;  // "ServiceEntry shop/api (shop.yaml:14)"
};

struct NameMatches {
  // Maximum number of names that have the text and are looked at as the client sees them.
  static constexpr std::size_t kMaxCandidates = 2'000;

  std::vector<NameMatch> names;  // sorted
  bool is_complete = true;       // there are no more
};

// The hosts and wildcards that have `text` in them, in any case, and that the client sees.  Takes
// some milliseconds for 100,000 names.
NameMatches find_names(const registry::Snapshot& snapshot, const registry::Client& client,
                       std::string_view text, std::size_t limit);

}  // namespace meshdns::dnsd
