// SPDX-License-Identifier: Apache-2.0
// Questions of the command line to the running daemon, through its admin endpoint.
#pragma once

#include <string>
#include <string_view>

#include "dnsd/config/config.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// The explanation of a running daemon, as lines.  An Error says why there is none: the admin
// endpoint is off, nobody answers there, or a daemon with another configuration does.
Result<std::string> explanation_of_daemon(const Config& config, std::string_view name,
                                          std::string_view type, std::string_view from);

}  // namespace meshdns::dnsd
