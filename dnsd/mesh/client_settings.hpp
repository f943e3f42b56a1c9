// SPDX-License-Identifier: Apache-2.0
// `client:` of the configuration in the registry's terms.
#pragma once

#include "dnsd/config/config.hpp"
#include "registry/registry.hpp"

namespace meshdns::dnsd {

registry::ClientSettings client_settings(const Config& config);

}  // namespace meshdns::dnsd
