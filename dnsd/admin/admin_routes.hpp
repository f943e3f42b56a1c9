// SPDX-License-Identifier: Apache-2.0
// The pages of the admin endpoint: the daemon's state as text, JSON and metrics (docs/admin.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dnsd/admin/daemon_parts.hpp"
#include "dnsd/admin/http_server.hpp"

namespace meshdns::dnsd {

// The `status` handlers read parts.health on any thread; all others run on the control thread.
HttpRoutes admin_routes(DaemonParts parts);

// Health and metrics alone, for an address that others may reach.
HttpRoutes metrics_routes(DaemonParts parts);

// The answer of /readyz.
HttpResponse readiness_response(const Readiness& readiness);

// All metrics in the Prometheus text format.  Labels never hold names of queries: their number is
// bounded by the configuration.
std::string metrics_text(const DaemonParts& daemon);

// All upstreams in use, by name.
std::vector<UpstreamStatus> upstream_status(const DaemonParts& daemon);

}  // namespace meshdns::dnsd
