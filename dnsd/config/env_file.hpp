// SPDX-License-Identifier: Apache-2.0
// A file of environment variables that a shell is meant to read ("NAME='a value'").
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "registry/manifest/document.hpp"

namespace meshdns::dnsd {

struct EnvValue {
  std::string text;        // without the quotes
  std::uint32_t line = 0;  // 1-based
};

using EnvFile = std::map<std::string, EnvValue, std::less<>>;

// Reads assignments with the shell's quotes, comments and an optional "export".  The last value of
// a name counts.  No shell runs: "$" and "`" outside single quotes are an error, and so is any
// other command.
std::expected<EnvFile, registry::SyntaxError> parse_env_file(std::string_view text);

}  // namespace meshdns::dnsd
