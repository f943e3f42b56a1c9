// SPDX-License-Identifier: Apache-2.0
// The page /explain.
#pragma once

#include "dnsd/admin/daemon_parts.hpp"
#include "dnsd/admin/http_message.hpp"

namespace meshdns::dnsd {

// /explain of a name, with search= the names that have a text, or with connect= of a connection.
HttpResponse show_explanation(const DaemonParts& daemon, const HttpRequest& request);

}  // namespace meshdns::dnsd
