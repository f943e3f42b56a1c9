// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/mesh_state.hpp"

#include <cstdint>
#include <memory>
#include <utility>

#include "dnsd/config/values.hpp"
#include "dnsd/mesh/client_settings.hpp"
#include "dnsd/mesh/state_file.hpp"

namespace meshdns::dnsd {

MeshState::MeshState(const Config& config, Log& log)
    : registry(config.mesh),
      publisher(registry.current()),
      feed(registry, log),
      analysis(registry, log),
      answers(registry, log) {
  registry.set_serial(static_cast<std::uint32_t>(unix_now()));
  registry.set_publish(
      [this](std::shared_ptr<const registry::Snapshot> s) { publisher.publish(std::move(s)); });
  registry.set_clients(client_settings(config));
}

bool MeshState::update(const Config& config, const RunningSources& sources) {
  const std::uint64_t before = registry.current()->generation;
  registry.set_sources({.authoritative = is_authority(config),
                        .synced = sources.awaited().empty(),
                        .from_state_dir = feed.is_restored(),
                        .endpoints_unknown = feed.lacks_endpoints(),
                        .awaited_source = sources.awaited()});
  return registry.current()->generation != before;
}

}  // namespace meshdns::dnsd
