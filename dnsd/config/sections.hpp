// SPDX-License-Identifier: Apache-2.0
// The sections of the configuration.
#pragma once

#include "dnsd/config/config.hpp"
#include "dnsd/config/schema.hpp"

namespace meshdns::dnsd::schema {

// The schema of the configuration file: every key with its type and range.
const Fields& config_fields();

// One element of `sources`.
Codec<SourceConfig> source();
Codec<registry::ServiceEntryVisibility> service_entry_visibility();

}  // namespace meshdns::dnsd::schema
