// SPDX-License-Identifier: Apache-2.0
// Hosts that ServiceEntries claim and that are the short name of a Service's member,
// "db-0.db.shop", which is an endpoint or, in a name table, a host of its own. Most claimed hosts
// of three labels are not, and must not cost a query the look at a Service: so it is found out
// here, when either of the two comes or goes.
//
// Control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "registry/base/hash.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/tables/host_key.hpp"
#include "registry/tables/host_table.hpp"

namespace meshdns::registry {

class MemberTable {
 public:
  // REQUIRES: both outlive the table.
  MemberTable(const HostTable& hosts, const MeshSettings& settings)
      : hosts_(hosts), settings_(settings) {}

  // Whether a Service has a member of which `host` is the short name.
  bool is_member(std::string_view host) const;

  // The host's record has changed (null = none).  Calls `visit` for each claimed host for which
  // is_member() may have changed.
  void exchange(const HostKey& key, const ServiceRecord* before, const ServiceRecord* after,
                const std::function<void(const HostKey&)>& visit);

 private:
  void count(const ServiceRecord* record, std::string_view host, int difference);
  void visit_members(std::string_view service, const ServiceRecord* record,
                     const std::function<void(const HostKey&)>& visit) const;

  const HostTable& hosts_;
  const MeshSettings& settings_;
  // Of claimed hosts with three labels, the last labels: hardly any of them is a namespace, and the
  // Services of other namespaces are not looked at.
  TextMap<std::uint32_t> tails_;
};

}  // namespace meshdns::registry
