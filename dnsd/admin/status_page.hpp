// SPDX-License-Identifier: Apache-2.0
// The page that a person opens first (docs/admin.md).
#pragma once

#include <string>

#include "dnsd/admin/daemon_parts.hpp"
#include "dnsd/admin/http_message.hpp"

namespace meshdns::dnsd {

// The overview in HTML: the state, charts and tables, and with name= an explanation, or with
// search= the names that have that text.  It loads nothing from elsewhere, and needs no script.
std::string status_page(const DaemonParts& daemon, const HttpRequest& request);

// The parts of it that change, as two events of LivePage: `state` and `live`.
std::string live_events(const DaemonParts& daemon);

}  // namespace meshdns::dnsd
