// SPDX-License-Identifier: Apache-2.0
// UTF-8 text of others.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace meshdns::registry {

// Returns whether all of `text` is valid UTF-8 (RFC 3629, section 4).
bool is_utf8(std::string_view text);

struct UnreadableByte {
  std::size_t offset = 0;
  std::string_view reason;
};

// The first place where `text` is not UTF-8, or has a control character that YAML does not allow in
// a file (YAML 1.2, section 5.1); nullopt if there is none.
std::optional<UnreadableByte> find_unreadable(std::string_view text);

}  // namespace meshdns::registry
