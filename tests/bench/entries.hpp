// SPDX-License-Identifier: Apache-2.0
// Resources for the benchmarks that run without a daemon.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "registry/registry.hpp"

namespace meshdns::bench {

std::string host(std::size_t index);

// `names` ServiceEntries of one address, as many of three, as many wildcards, and one host of 300
// endpoints.
std::string manifests(std::size_t names);

// Ends the program if the text has errors.  `network`: of the cluster that the objects come from.
void read_into(std::string_view yaml, registry::Transaction& transaction, std::string_view origin,
               std::string_view network = {});

}  // namespace meshdns::bench
