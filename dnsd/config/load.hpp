// SPDX-License-Identifier: Apache-2.0
// From the text of a configuration file to a Config and findings.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/config.hpp"
#include "registry/base/finding.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

struct LoadedConfig {
  Config config;  // to be used only if valid()
  // In the order of the text; each prints as `PATH:LINE: error: KEY: message`.
  std::vector<registry::Finding> findings;
  // The line of each key in the text: "sources[0].files.path" -> 12.
  std::map<std::string, std::uint32_t, std::less<>> lines;
  bool valid() const;  // no finding is an error
};

// Reads all of `text` and reports everything that is wrong with it, not only the first: unknown and
// duplicate keys, wrong types, values out of range.  Missing keys keep their defaults; an
// empty text is the default configuration.  Any text is safe.  `path` is for the findings.
LoadedConfig parse_config(std::string_view text, std::string_view path);

// How findings call the configuration "-".
inline constexpr std::string_view kStandardInput = "standard input";

// The places of a configuration, as the command line gives them.
struct ConfigFiles {
  std::string path = {};      // empty: the default configuration
  std::string istio_vm = {};  // directory with the files of a VM (istio_vm.hpp); empty: none
  // For messages.
  const std::string& name() const { return path.empty() ? istio_vm : path; }
};

// As parse_config; "-" is the standard input.  An Error where the file cannot be read at all or is
// larger than 1 MiB.  An empty file is an error among the findings: it is just being written, or
// was cut off, and must not turn a node into a forwarder.
Result<LoadedConfig> load_config(const ConfigFiles& files);

// Every key that the loader accepts, as "server.tcp.idle_timeout"; the keys of an element of
// `sources` as "sources.files.path".  Sorted.
std::vector<std::string> known_keys();

// The configuration as JSON that parse_config reads back as the same Config (JSON is YAML), for
// /config and `check`.  It has no secrets: credentials are in files, named here by path.
std::string to_json(const Config& config);
// The same, with the member `in_force` at the end: the settings of the mesh that Istio's MeshConfig
// may change, with their origins.
std::string to_json(const Config& config, const registry::MeshSettings& in_force);
// Returns whether `json` is a text of the latter for the same configuration.
bool is_json_of(const Config& config, std::string_view json);

// The top-level sections in which the two differ ("server", "mesh", ...), for a reload's log line.
std::vector<std::string> changed_sections(const Config& before, const Config& after);

}  // namespace meshdns::dnsd
