// SPDX-License-Identifier: Apache-2.0
// Changes of hosts that are not derived again, or not from their former records.  A part of
// registry.cpp; control thread.
#pragma once

#include <span>
#include <vector>

#include "registry/controller.hpp"
#include "registry/tables/host_table.hpp"

namespace meshdns::registry {

// Adds the Services whose endpoints have these addresses, which are those of changed Pods: the
// service model shows the Pods' labels.
void add_changes_of_pods(std::span<const IpAddress> addresses, const Snapshot& snapshot,
                         std::vector<HostChange>& changes);

// After a change of the settings: `changes` has all records of `now`, as additions.  Sets their
// former records, and adds the records that only `former` has.
void compare_with_former(const HostTable& former, const HostTable& now,
                         std::vector<HostChange>& changes);

}  // namespace meshdns::registry
