// SPDX-License-Identifier: Apache-2.0
// Answers to the names that never leave this host (registry/base/special_names.hpp).
#pragma once

#include <string_view>

#include "dnsd/answer/decision.hpp"

namespace meshdns::dnsd {

bool is_special_name(std::string_view name);
// REQUIRES: is_special_name(asked.name).
Decision decide_special(const Asked& asked);

}  // namespace meshdns::dnsd
