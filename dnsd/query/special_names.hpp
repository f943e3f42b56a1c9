// SPDX-License-Identifier: Apache-2.0
// Names that never leave this host and that no resource may claim: localhost and invalid (RFC
// 6761), onion (RFC 7686), alt (RFC 9476).
#pragma once

#include <string_view>

#include "dnsd/query/decision.hpp"

namespace meshdns::dnsd {

bool is_special_name(std::string_view name);
// REQUIRES: is_special_name(asked.name).
Decision decide_special(const Asked& asked);

}  // namespace meshdns::dnsd
