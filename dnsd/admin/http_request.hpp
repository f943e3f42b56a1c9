// SPDX-License-Identifier: Apache-2.0
// Requests as libmicrohttpd has read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "dnsd/admin/http_message.hpp"
#include "dnsd/admin/password_gate.hpp"
#include "registry/base/result.hpp"

struct MHD_Connection;

namespace meshdns::dnsd {

// Checks where a browser's request comes from: the headers Host and Origin.
// Returns whether the header Host names this machine by an IP address or as "localhost", with or
// without a port: "127.0.0.1:15054", "[::1]", "LocalHost:80". Everything else is refused, because
// a web page can point a DNS name of its own at this machine (DNS rebinding). The whole value has
// to match: "[::1].example.org", "localhost:80@example.org", "localhost." and "" are refused.
bool is_own_host(std::string_view host);

// Returns whether the header Origin names a page of the server that the client reached as `host`.
bool is_own_origin(std::string_view origin, std::string_view host);

// The number of the argument, or `otherwise` if it is missing or empty.  The Error names the
// argument and shows its text.
Result<std::uint64_t> number_argument(const HttpRequest& request, std::string_view name,
                                      std::uint64_t otherwise);

// Returns the response to a request that is refused before any of its body has come.
std::optional<HttpResponse> refusal(MHD_Connection* connection, std::string_view method,
                                    std::string_view version);

// Returns the credentials of the header Authorization with the scheme Basic; nullopt without one.
std::optional<Credentials> credentials_of(MHD_Connection* connection);

HttpRequest request_of(MHD_Connection* connection, const char* url, bool is_local);

}  // namespace meshdns::dnsd
