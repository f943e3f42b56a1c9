#include "registry/base/finding.hpp"

namespace meshdns::registry {

std::string Finding::to_string() const {
  std::string out = path;
  if (line != 0) out += (out.empty() ? "" : ":") + std::to_string(line);
  if (!out.empty()) out += ": ";
  out += severity == Severity::Error ? "error: " : "warning: ";
  if (!kind.empty()) out += kind;
  if (!object.empty()) out += (kind.empty() ? "" : " ") + object;
  if (!kind.empty() || !object.empty()) out += ": ";
  if (!field.empty()) out += field + ": ";
  return out + message;
}

}  // namespace meshdns::registry
