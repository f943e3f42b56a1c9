// SPDX-License-Identifier: Apache-2.0
// The mesh's own answers for endpoint names, which follow each of its changes at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "registry/model/resolved_name.hpp"

namespace meshdns::resolver {

struct MeshAnswer {
  // The mesh does not answer: the name is looked up, and only `via` of the result counts.
  bool is_outside = false;
  registry::ResolvedName result{};
  friend bool operator==(const MeshAnswer&, const MeshAnswer&) = default;
};

// Control thread.
class MeshNames {
 public:
  virtual ~MeshNames() = default;
  // As a client of the namespace finds `name` when it asks for the endpoint name `host`, both
  // canonical: the name itself, or what an alias outside leads to.
  virtual MeshAnswer find(std::string_view ns, std::string_view host, std::string_view name) = 0;
  // All names that the namespace uses, and all namespaces that use any.
  virtual std::vector<std::string> names_of(std::string_view ns) const = 0;
  virtual std::vector<std::string> namespaces() const = 0;
};

}  // namespace meshdns::resolver
