// SPDX-License-Identifier: Apache-2.0
// Names that never leave this host and that no resource may claim: localhost and invalid (RFC
// 6761), onion (RFC 7686), alt (RFC 9476).
#pragma once

#include <string_view>

namespace meshdns {

// The one of these zones that `name` is at or below; empty when there is none.  `name` is
// canonical, or a wildcard such as "*.onion".
std::string_view special_zone_of(std::string_view name);

}  // namespace meshdns
