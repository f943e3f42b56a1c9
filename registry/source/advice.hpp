// SPDX-License-Identifier: Apache-2.0
// What is valid in a resource, and yet does not do what its author expects.  For those who write
// manifests: `meshdnsd check` prints it, a running daemon does not.
#pragma once

#include <string>
#include <vector>

#include "registry/model/resources.hpp"

namespace meshdns::registry {

struct Advice {
  std::string field;  // "spec.hosts[1]"
  std::string message;
};

// Usually empty.  Any thread.
std::vector<Advice> advice_on(const Resource& resource);

// Why an answer for `name`, a canonical host, never comes from the resources or the local names;
// empty when it may.
std::string why_never_answered(std::string_view name);

}  // namespace meshdns::registry
