// SPDX-License-Identifier: Apache-2.0
// The service that is selected for a connection, as text (`meshdnsd explain --connect`) and as JSON
// (/explain?connect=).
#pragma once

#include <string>
#include <vector>

#include "registry/traffic/traffic_match.hpp"

namespace meshdns::dnsd {

// One fact a line: the connection and client, the service and the rule that chose it, its sources,
// the endpoints, what else was considered.
std::vector<std::string> traffic_lines(const registry::View& view,
                                       const registry::Connection& connection,
                                       const registry::TrafficMatch& match);
std::string traffic_json(const registry::View& view, const registry::Connection& connection,
                         const registry::TrafficMatch& match);

}  // namespace meshdns::dnsd
