// SPDX-License-Identifier: Apache-2.0
// Reads text fields of the API's objects and of the kubeconfig.
#pragma once

#include <string_view>

#include "registry/manifest/document.hpp"

namespace meshdns::registry::kubernetes {

// The scalar `key` of a mapping; empty where there is none, or null, or no mapping.  It lives as
// long as the document.
inline std::string_view text_of(const Node* object, std::string_view key) {
  const Node* const value = object == nullptr ? nullptr : object->find(key);
  return value == nullptr || value->is_null() ? std::string_view() : value->text();
}

}  // namespace meshdns::registry::kubernetes
