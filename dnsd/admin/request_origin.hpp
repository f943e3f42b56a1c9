// SPDX-License-Identifier: Apache-2.0
// Checks where a browser's request comes from: the headers Host and Origin.
#pragma once

#include <string_view>

namespace meshdns::dnsd {

// Returns whether the header Host names this machine by an IP address or as "localhost", with or
// without a port: "127.0.0.1:15054", "[::1]", "LocalHost:80". Everything else is refused, because
// a web page can point a DNS name of its own at this machine (DNS rebinding). The whole value has
// to match: "[::1].example.org", "localhost:80@example.org", "localhost." and "" are refused.
bool is_own_host(std::string_view host);

// Returns whether the header Origin names a page of the server that the client reached as `host`.
bool is_own_origin(std::string_view origin, std::string_view host);

}  // namespace meshdns::dnsd
