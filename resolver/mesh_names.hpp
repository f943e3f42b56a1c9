// SPDX-License-Identifier: Apache-2.0
// The mesh's own answers for endpoint names, which come before those from outside.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "registry/model/resolved_name.hpp"

namespace meshdns::resolver {

struct MeshAnswer {
  // The name to look up outside: the one asked about, or the target of its aliases; empty: the mesh
  // answers.
  std::string asks;
  // The answer of the mesh; of a name that is looked up outside only `via` counts.
  registry::ResolvedName result{};
};

// Control thread.
class MeshNames {
 public:
  virtual ~MeshNames() = default;
  // As a client of the namespace finds `host` (canonical).
  virtual MeshAnswer find(std::string_view ns, std::string_view host) = 0;
  // All names that the namespace uses, and all namespaces that use any.
  virtual std::vector<std::string> names_of(std::string_view ns) const = 0;
  virtual std::vector<std::string> namespaces() const = 0;
};

}  // namespace meshdns::resolver
