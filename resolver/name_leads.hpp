// SPDX-License-Identifier: Apache-2.0
// The targets of the names of namespaces: an answer of the mesh, or a name that is looked up
// outside.  A name that is looked up as it is, as nearly all are, takes no memory here.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "resolver/mesh_names.hpp"

namespace meshdns::resolver {

// One thread.
class NameLeads {
 public:
  using Use = std::pair<std::string, std::string>;  // namespace, name

  // Null: the name is looked up as it is.  Valid until the next change.
  const MeshAnswer* find(std::string_view ns, std::string_view host) const;
  // The name to look up for `host`; empty: the mesh answers.
  std::string asked_for(std::string_view ns, std::string_view host) const;
  // Replaces the lead of `host`.
  void set(std::string_view ns, std::string_view host, MeshAnswer answer);
  void erase(std::string_view ns, std::string_view host);

  // Notes that `host` is looked up as `target`, or no longer.  Returns whether it is the first of
  // the namespace, or was the last.  `is_watched`: whether the namespace watches the target
  // already.
  bool join(std::string_view ns, std::string_view host, std::string_view target, bool is_watched);
  bool leave(std::string_view ns, std::string_view host, std::string_view target);
  // The names of the namespace that are looked up as `target`.
  std::vector<std::string> askers(std::string_view ns, std::string_view target) const;

  // Those that the mesh answers: how many, and of these without an address.
  std::size_t known() const { return known_; }
  std::size_t unresolved() const { return unresolved_; }
  const std::map<Use, MeshAnswer>& all() const { return leads_; }

 private:
  struct Askers {
    bool by_itself = false;  // the target is itself a name that the namespace uses
    std::set<std::string, std::less<>> others;
  };
  void count(const MeshAnswer& answer, bool add);

  std::map<Use, MeshAnswer> leads_;
  std::map<Use, Askers> askers_;  // of targets that others than they themselves lead to
  std::size_t known_ = 0;
  std::size_t unresolved_ = 0;
};

}  // namespace meshdns::resolver
