// What an operator wants to know of a service and of a client, a fact a line.
#pragma once

#include <string>
#include <vector>

#include "registry/view/view.hpp"

namespace meshdns::dnsd {

// How it matched, where it comes from, who sees it, its addresses, TTL and endpoints.
// REQUIRES: the match is visible to the view's client.
// "ServiceEntry shop/api (shop.yaml:14)".
std::string place_of(const registry::Snapshot& snapshot, const registry::StoredRef& source);

std::vector<std::string> service_facts(const registry::View& view, const registry::Match& match);

// "client.default, namespace shop"
std::string identity_of(const registry::Client& client);

}  // namespace meshdns::dnsd
