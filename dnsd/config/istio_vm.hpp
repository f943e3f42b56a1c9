// SPDX-License-Identifier: Apache-2.0
// The files that `istioctl x workload entry configure` writes for a VM, as a configuration:
// cluster.env, mesh.yaml, hosts, root-cert.pem and istio-token.
#pragma once

#include <string>
#include <vector>

#include "dnsd/config/config.hpp"
#include "registry/base/finding.hpp"
#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

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
