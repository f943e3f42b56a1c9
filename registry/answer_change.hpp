// SPDX-License-Identifier: Apache-2.0
// The answers that a commit may change, for whoever keeps answers outside of the snapshots.
#pragma once

#include <string>
#include <vector>

#include "registry/base/ip_address.hpp"

namespace meshdns::registry {

struct AnswerChange {
  // Any answer may be another: settings, the state of the sources, gateways or Sidecars.
  bool everything = false;
  // Hosts that were derived again, "*.suffix" for wildcards; in no order, some several times.
  std::vector<std::string> hosts;
  // Addresses whose clients may be others.
  std::vector<IpAddress> clients;
};

}  // namespace meshdns::registry
