// SPDX-License-Identifier: Apache-2.0
// The credential for requests that change something at the admin endpoint.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "dnsd/admin/http_message.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

inline constexpr std::size_t kMinTokenLength = 16;

// Returns the first line of `path` without white space around it. An Error ("PATH: reason") where
// the file cannot be read, or its token is shorter than kMinTokenLength or has other characters
// than printable ASCII.
Result<std::string> read_admin_token(const std::string& path);

// Compares in a time that does not depend on the contents. An empty token equals nothing.
bool is_same_token(std::string_view given, std::string_view wanted);

// Returns the refusal of a request that changes something, nullopt if it may. A request over the
// Unix socket may always: the mode of the socket is its credential. Over TCP it needs
// "Authorization: Bearer TOKEN" with the token of `token_file`, which is read for each request, so
// that a new token counts at once; empty = no token is configured, and all are refused.
std::optional<HttpResponse> refuse_change(const HttpRequest& request,
                                          const std::string& token_file);

}  // namespace meshdns::dnsd
