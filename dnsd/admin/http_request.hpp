// SPDX-License-Identifier: Apache-2.0
// Requests as libmicrohttpd has read them.
#pragma once

#include <optional>
#include <string_view>

#include "dnsd/admin/http_message.hpp"
#include "dnsd/admin/password_file.hpp"

struct MHD_Connection;

namespace meshdns::dnsd {

// Returns the response to a request that is refused before any of its body has come.
std::optional<HttpResponse> refusal(MHD_Connection* connection, std::string_view method,
                                    std::string_view version);

// Of the header Authorization, with the scheme Basic; nullopt if there is no such header.
std::optional<Credentials> credentials_of(MHD_Connection* connection);

HttpRequest request_of(MHD_Connection* connection, const char* url, bool is_local);

}  // namespace meshdns::dnsd
