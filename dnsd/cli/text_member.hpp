// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rapidjson/document.h>

#include <cstddef>
#include <string>

#include "registry/base/printable.hpp"

namespace meshdns::dnsd {

inline constexpr std::size_t kMaxShownText = 1'000;

// The text of a member of a page's JSON, safe for a terminal and cut at `limit` bytes.  Empty: the
// object has no such text.
inline std::string text_member(const rapidjson::Value& object, const char* key,
                               std::size_t limit = kMaxShownText) {
  const auto found = object.FindMember(key);
  if (found == object.MemberEnd() || !found->value.IsString()) return {};
  return registry::printable({found->value.GetString(), found->value.GetStringLength()}, limit);
}

}  // namespace meshdns::dnsd
