// SPDX-License-Identifier: Apache-2.0
// The allocator of persistent VIPs, as mesh.auto_allocate and state_dir allow.
#pragma once

#include <memory>
#include <string>

#include "dnsd/config/config.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/mesh/state_directory.hpp"
#include "registry/tables/vip_allocator.hpp"

namespace meshdns::dnsd {

struct VipSetup {
  std::unique_ptr<registry::VipAllocator> allocator;  // null: the registry's own is right
  std::string trouble;                                // why there are no persistent VIPs, or empty
};

// Without the file that is configured there are no VIPs: other addresses than before would lead
// clients astray.  REQUIRES: `log` outlives the allocator.
VipSetup set_up_vips(const Config& config, const StateDirectory& state, Log& log);

}  // namespace meshdns::dnsd
