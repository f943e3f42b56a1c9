// SPDX-License-Identifier: Apache-2.0
// The files of `state_dir`.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

namespace meshdns::dnsd {

// The path of `name` in `state_dir`; empty where nothing is kept.
inline std::string state_file(const std::string& state_dir, std::string_view name) {
  return state_dir.empty() ? std::string() : state_dir + "/" + std::string(name);
}

// Seconds since 1970, by which the files say how old they are.
inline std::int64_t unix_now() { return static_cast<std::int64_t>(std::time(nullptr)); }

}  // namespace meshdns::dnsd
