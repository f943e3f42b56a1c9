// SPDX-License-Identifier: Apache-2.0
// The page that a person opens first (docs/admin.md).
#pragma once

#include <string>

#include "dnsd/admin/daemon_parts.hpp"
#include "dnsd/admin/http_message.hpp"

namespace meshdns::dnsd {

// The overview in HTML: state, charts, tables, and with name= an explanation.  No scripts, nothing
// from elsewhere.
std::string status_page(const DaemonParts& daemon, const HttpRequest& request);

}  // namespace meshdns::dnsd
