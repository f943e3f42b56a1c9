// SPDX-License-Identifier: Apache-2.0
#include "registry/base/finding.hpp"

namespace meshdns::registry {

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::Note:
      return "note";
    case Severity::Warning:
      return "warning";
    case Severity::Error:
      return "error";
  }
  return "error";
}

std::string Finding::to_string() const {
  std::string out = path;
  if (line != 0) {
    if (!out.empty()) out += ':';
    out += std::to_string(line);
  }
  if (!out.empty()) out += ": ";
  out += registry::to_string(severity);
  out += ": ";
  std::string subject = kind;
  if (!object.empty()) {
    if (!subject.empty()) subject += ' ';
    subject += object;
  }
  if (!subject.empty()) out += subject += ": ";
  if (!field.empty()) {
    out += field;
    out += ": ";
  }
  return out += message;
}

}  // namespace meshdns::registry
