// SPDX-License-Identifier: Apache-2.0
// The keys of sources.istiod.
#pragma once

#include <string>

#include "dnsd/config/config.hpp"
#include "dnsd/config/schema.hpp"

namespace meshdns::dnsd {

// `namespace_name` and `labels` are the codecs of these values elsewhere in the configuration.
schema::Codec<IstiodSource> istiod_source(const schema::Codec<std::string>& namespace_name,
                                          const schema::Codec<registry::Labels>& labels);

}  // namespace meshdns::dnsd
