// SPDX-License-Identifier: Apache-2.0
// The page /top, and its entries as text.
#pragma once

#include <string>

#include "dnsd/admin/daemon_parts.hpp"
#include "dnsd/query/top_queries.hpp"
#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

// The argument limit= is the number of entries of each list: 10, at most 100.
HttpResponse show_top(const DaemonParts& daemon, const HttpRequest& request);

// The name of the entry, or its last labels after "...".  Safe to show.
std::string top_name(const TopEntry& entry);
IpAddress top_address(const TopEntry& entry);

// The Pod or workload at an address.  Empty: unknown, or clients are not told apart.
struct TopClient {
  std::string description;
  std::string ns;
};
TopClient top_client(const DaemonParts& daemon, const IpAddress& address);

}  // namespace meshdns::dnsd
