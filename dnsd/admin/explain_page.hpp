// SPDX-License-Identifier: Apache-2.0
// The page /explain, and what it shares with the status page.
#pragma once

#include <string_view>

#include "dnsd/admin/daemon_parts.hpp"
#include "dnsd/admin/http_message.hpp"
#include "dnsd/answer/explanation.hpp"

namespace meshdns::dnsd {

// The client that `from` names: an IP address or a namespace; empty = client.default.  A null
// client: the address is not a known one, and client.unknown is refuse.
Result<Ref<const registry::Client>> client_from(const DaemonParts& daemon, std::string_view from);

// The arguments name=, type= and from=.  The Error names the argument that is wrong.
Result<Explanation> explanation_for(const DaemonParts& daemon, const HttpRequest& request);

// /explain of a name, with search= the names that have a text, or with connect= of a connection.
HttpResponse show_explanation(const DaemonParts& daemon, const HttpRequest& request);

}  // namespace meshdns::dnsd
