// SPDX-License-Identifier: Apache-2.0
// The port lists of services, each stored once: most services of a mesh have the same one or two
// ports, and a list of one's own would cost as much as the rest of a record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "registry/snapshot/service_record.hpp"

namespace meshdns::registry {

// Equal lists give the same PortList.  Control thread.
class PortTable {
 public:
  Ref<const PortList> intern(const std::vector<ServicePort>& ports);
  // Number of lists, including those without other users.
  std::size_t size() const { return lists_.size(); }

 private:
  void sweep();

  std::unordered_multimap<std::uint64_t, Ref<const PortList>> lists_;
  std::size_t sweep_at_ = 1024;
};

}  // namespace meshdns::registry
