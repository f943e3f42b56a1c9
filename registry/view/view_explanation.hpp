// SPDX-License-Identifier: Apache-2.0
// The words with which a view explains its choices, and those of an answer: addresses, an alias, or
// why there is neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/view/view.hpp"

namespace meshdns::registry {

// Returns the object and its place: "ServiceEntry shop/api (shop.yaml:3)".
std::string describe_source(const StoredRef& source, const Snapshot& snapshot);

// Returns the namespaces that a service is exported to.  REQUIRES: not public.
std::string exported_namespaces(const ServiceRecord& service);

// At most `max` addresses or names are named, and the others counted.  `service`: null = the client
// sees none.
std::string answer_text(const View& view, const ServiceRecord* service, std::size_t max);

// An address that an entry gives to a host by its status, and that an older entry keeps
// (`StatusAddressTable`).
struct LostAddress {
  IpAddress address;
  StoredRef holder;
  std::int64_t created = kUnknownCreationTime;         // the entry that lost it
  std::int64_t holder_created = kUnknownCreationTime;  // Unix seconds
  bool is_seen = false;                                // the client sees the holder
};
// Returns at most a few of the addresses that the entries of the service lost.  Entries that are
// too large to be read for an explanation are left out.
std::vector<LostAddress> lost_addresses(const View& view, const Match& match);

// "a, b and 3 more WHAT": these words, of `count` that there are.
std::string list_of(std::span<const std::string> words, std::size_t count, std::string_view what);

}  // namespace meshdns::registry
