// SPDX-License-Identifier: Apache-2.0
// The files that `istioctl x workload entry configure` writes for a VM, as a configuration:
// cluster.env, mesh.yaml, hosts, root-cert.pem and istio-token.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/config/config.hpp"
#include "registry/base/finding.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/manifest/document.hpp"

namespace meshdns::dnsd {

// A file of environment variables that a shell is meant to read ("NAME='a value'").
struct EnvValue {
  std::string text;        // without the quotes
  std::uint32_t line = 0;  // 1-based
};

using EnvFile = std::map<std::string, EnvValue, std::less<>>;

// Reads assignments with the shell's quotes, comments and an optional "export".  The last value of
// a name counts.  No shell runs: "$" and "`" outside single quotes are an error, and so is any
// other command.
std::expected<EnvFile, registry::SyntaxError> parse_env_file(std::string_view text);

// Fills what the files leave open, as istio-agent's start script does.
struct Machine {
  std::string host_name;             // up to the first dot
  std::vector<IpAddress> addresses;  // neither loopback nor link-local
};

Machine this_machine();

// Adds an istiod source for the workload that `directory` describes to `config`, and makes its
// namespace the one of the clients, unless `config` has a client.default of its own.  Returns
// everything that is wrong, with the file and the remedy; `config` is to be used only if no finding
// is an error.
std::vector<registry::Finding> add_istio_vm(const std::string& directory, const Machine& machine,
                                            Config& config);

}  // namespace meshdns::dnsd
