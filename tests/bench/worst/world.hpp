// SPDX-License-Identifier: Apache-2.0
// The registry that the search for the worst queries asks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace meshdns::bench {

std::string number(std::size_t i);
// `labels` labels "x", as far as a name has room for them, in front of `end`.
std::string deep_name(std::size_t labels, std::string_view end);

// Objects as YAML, and the network of the cluster that they come from.
struct Manifest {
  std::string yaml;
  std::string network;
};
std::vector<Manifest> world();

}  // namespace meshdns::bench
