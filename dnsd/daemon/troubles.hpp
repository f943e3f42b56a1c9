// SPDX-License-Identifier: Apache-2.0
// Problems that do not stop answers, in words, for /readyz and the status page.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "dnsd/config/config.hpp"
#include "registry/base/finding.hpp"
#include "resolver/forward/upstream_state.hpp"

namespace meshdns::dnsd {

// The files of the configuration that cannot be read now, `config_file` itself if it is watched,
// and `state_dir` if it cannot be written.  `state_dir`: as it is in use; empty = none.
std::vector<std::string> file_troubles(const Config& config, const std::string& config_file,
                                       const std::string& state_dir);

// The zones that no upstream server answers: each one is down, loops, or answers nothing but
// errors.  `statuses`: of the servers in use.
std::vector<std::string> upstream_troubles(const UpstreamConfig& upstream,
                                           std::span<const UpstreamStatus> statuses);

// The objects that are not in use because of an error, or in an older version; empty = none.
std::string refused_objects(const std::map<std::string, std::vector<registry::Finding>>& findings);

}  // namespace meshdns::dnsd
