// SPDX-License-Identifier: Apache-2.0
// One thing that is wrong or doubtful about one object, with the place where a person can mend it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshdns::registry {

// Note: nothing is wrong; a person may have expected something else.
enum class Severity : std::uint8_t { Note, Warning, Error };
std::string_view to_string(Severity severity);  // "note", "warning", "error"

// Prints as `PATH:LINE: error|warning|note: KIND NAMESPACE/NAME: FIELD: message`; parts that are
// empty are left out together with their separator.
struct Finding {
  Severity severity = Severity::Error;
  std::string path;        // file, or the name of the source
  std::uint32_t line = 0;  // 1-based; 0 = unknown
  std::string kind;        // "ServiceEntry"; empty when the text is not yet an object
  std::string object;      // "namespace/name", or "name" of a cluster-scoped object
  std::string field;       // "spec.hosts[1]"
  std::string message;

  std::string to_string() const;
  friend bool operator==(const Finding&, const Finding&) = default;
};

}  // namespace meshdns::registry
