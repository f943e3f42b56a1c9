// SPDX-License-Identifier: Apache-2.0
// The page /top.
#pragma once

#include "dnsd/admin/daemon_parts.hpp"

namespace meshdns::dnsd {

// The argument limit= is the number of entries of each list: 10, at most 100.
HttpResponse show_top(const DaemonParts& daemon, const HttpRequest& request);

}  // namespace meshdns::dnsd
