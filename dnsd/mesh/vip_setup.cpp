// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/vip_setup.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "dnsd/mesh/state_file.hpp"
#include "registry/tables/persistent_vips.hpp"

namespace meshdns::dnsd {

VipSetup set_up_vips(const Config& config, const StateDirectory& state, Log& log) {
  const auto report = [&log](const std::string& message) { log.error(message); };
  if (config.mesh.auto_allocate == registry::AutoAllocate::Hash)
    return {std::make_unique<registry::HashVips>(config.mesh.vip_namespace_quota, report), {}};
  if (config.mesh.auto_allocate != registry::AutoAllocate::Persistent) return {};
  if (config.state_dir.empty())
    log.warn(
        "mesh.auto_allocate is persistent but state_dir is empty; a restart assigns other VIPs");
  if (!state.trouble().empty()) {
    log.error("persistent VIPs are off because state_dir cannot be used");
    return {std::make_unique<registry::NoVips>(), "off because state_dir cannot be used"};
  }
  registry::PersistentVipOptions options;
  options.v4 = config.mesh.vip_cidr_v4;
  options.v6 = config.mesh.vip_cidr_v6;
  options.namespace_quota = config.mesh.vip_namespace_quota;
  options.file = state_file(state.path(), "vips");
  options.quarantine = std::chrono::seconds(10 * std::max(config.mesh.ttl.vip, 1U));
  options.clock = unix_now;
  options.report = report;
  auto allocator = std::make_unique<registry::PersistentVips>(std::move(options));
  std::string trouble = allocator->trouble();
  return {std::move(allocator), std::move(trouble)};
}

}  // namespace meshdns::dnsd
