// SPDX-License-Identifier: Apache-2.0
// The words with which a view explains its choices.
#pragma once

#include <string>

#include "registry/view/view.hpp"

namespace meshdns::registry {

// Returns the object and its place: "ServiceEntry shop/api (shop.yaml:3)".
std::string describe_source(const StoredRef& source, const Snapshot& snapshot);

// Returns the namespaces that a service is exported to.  REQUIRES: not public.
std::string exported_namespaces(const ServiceRecord& service);

}  // namespace meshdns::registry
