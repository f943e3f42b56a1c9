// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace meshdns::dnsd {

// The addresses, with a comma between two.
template <typename Addresses>
std::string joined(const Addresses& addresses) {
  std::string text;
  for (const auto& address : addresses) text += (text.empty() ? "" : ",") + address.to_string();
  return text;
}

}  // namespace meshdns::dnsd
