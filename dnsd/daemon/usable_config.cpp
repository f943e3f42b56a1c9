#include "dnsd/daemon/usable_config.hpp"

#include <variant>

namespace meshdns::dnsd {

Result<LoadedConfig> load_usable_config(const std::string& path) {
  auto loaded = load_config(path);
  if (!loaded) return loaded;
  for (const auto& source : loaded->config.sources) {
    if (!std::holds_alternative<KubernetesSource>(source)) continue;
    registry::Finding finding;
    finding.path = path;
    finding.field = "sources.kubernetes";
    finding.message = "not available in this build; use files or name_table";
    loaded->findings.push_back(std::move(finding));
  }
  return loaded;
}

}  // namespace meshdns::dnsd
