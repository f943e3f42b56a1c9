// SPDX-License-Identifier: Apache-2.0
// The localities of Nodes.
//
// Control thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "registry/model/locality.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {

class NodeTable {
 public:
  // Cluster and name.
  using Key = std::pair<std::string, std::string>;

  void put(const KubeNode& node);
  void erase(const KubeNode& node);
  // Of the Node `name` of a cluster, or of the sources without a cluster; empty: unknown.
  Locality locality_of(std::string_view cluster, std::string_view name) const;
  // The nodes whose locality has changed since the last call.
  std::set<Key> take_changes() { return std::exchange(changes_, {}); }

 private:
  std::map<Key, Locality> nodes_;
  std::set<Key> changes_;
};

}  // namespace meshdns::registry
