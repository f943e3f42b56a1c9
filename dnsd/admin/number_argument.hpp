// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "dnsd/admin/http_message.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// The number of the argument, or `otherwise` if it is missing or empty.  The Error names the
// argument and shows its text.
Result<std::uint64_t> number_argument(const HttpRequest& request, std::string_view name,
                                      std::uint64_t otherwise);

}  // namespace meshdns::dnsd
