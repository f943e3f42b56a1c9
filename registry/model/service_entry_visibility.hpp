// SPDX-License-Identifier: Apache-2.0
// MeshConfig.serviceEntryVisibility: a limit to the visibility that exportTo gives.
#pragma once

#include <cstdint>
#include <vector>

#include "registry/model/label_selector.hpp"

namespace meshdns::registry {

enum class Visibility : std::uint8_t { Public, Namespace, None };

// The first policy whose rules all match decides.
struct VisibilityPolicy {
  Visibility visibility = Visibility::Public;
  std::vector<LabelSelector> namespace_selectors;  // of each matching rule
  friend bool operator==(const VisibilityPolicy&, const VisibilityPolicy&) = default;
};
struct ServiceEntryVisibility {
  Visibility default_visibility = Visibility::Public;
  std::vector<VisibilityPolicy> policies;
  friend bool operator==(const ServiceEntryVisibility&, const ServiceEntryVisibility&) = default;
};

}  // namespace meshdns::registry
