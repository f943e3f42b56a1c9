// SPDX-License-Identifier: Apache-2.0
// `meshdnsd check --diff`: the names that two sets of resources answer differently, and the clients
// for whom they do.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "registry/registry.hpp"

namespace meshdns::dnsd {

// A name and what the two sets answer for it.
struct AnswerDifference {
  std::string name;    // "*.example.org" for a wildcard
  std::string before;  // "10.0.0.1, 10.0.0.2"; "not a name of the mesh"
  std::string after;
  std::string source_before;  // "ServiceEntry shop/api (old/shop.yaml:14)"; may be empty
  std::string source_after;
  std::vector<std::string> clients;  // namespaces, sorted
};

struct AnswerDiff {
  std::vector<AnswerDifference> changes;  // by name
  std::size_t names = 0;                  // that were compared
  std::vector<std::string> clients;       // that they were compared for, sorted
};

// Compares the answers for each host of either registry.  `clients`: namespaces; empty = all that
// objects of either registry are in.  Short names of Services follow their full names, and names of
// endpoints and ports are not compared.
AnswerDiff compare_answers(registry::Registry& before, registry::Registry& after,
                           std::vector<std::string> clients);

// A line for each change, and one that counts them.
std::string to_text(const AnswerDiff& diff);
std::string to_json(const AnswerDiff& diff);

}  // namespace meshdns::dnsd
