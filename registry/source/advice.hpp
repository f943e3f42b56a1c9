// SPDX-License-Identifier: Apache-2.0
// Warnings of things that are valid in a resource and do not do what its author expects.  They are
// for people who write manifests: `meshdnsd check` prints them, a running daemon does not.
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
