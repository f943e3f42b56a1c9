// SPDX-License-Identifier: Apache-2.0
// Facts about a service and a client for operators, one per line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "registry/view/view.hpp"

namespace meshdns::dnsd {

// Said of a snapshot that is not synced.
inline constexpr std::string_view kNotSynced =
    "registry: not complete, a source has not been read as a whole yet (/readyz says which)";

// "registry: waits for files:/etc/meshdns/resources", for operators; empty: for nothing known.
std::string awaited_source(const registry::Snapshot& snapshot);

// "ServiceEntry shop/api (shop.yaml:14)".
std::string place_of(const registry::Snapshot& snapshot, const registry::StoredRef& source);

// The match, the source, the visibility, the addresses, the TTL and the endpoints.
// REQUIRES: the match is visible to the view's client.
std::vector<std::string> service_facts(const registry::View& view, const registry::Match& match);

// "client.default, namespace shop"
std::string identity_of(const registry::Client& client);

}  // namespace meshdns::dnsd
