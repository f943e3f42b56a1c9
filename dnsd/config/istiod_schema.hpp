// SPDX-License-Identifier: Apache-2.0
// The keys of sources.istiod.
#pragma once

#include <string>

#include "dnsd/config/config.hpp"
#include "dnsd/config/schema.hpp"

namespace meshdns::dnsd {

// `namespace_name` and `labels` are the codecs of these values elsewhere in the configuration;
// `metadata` is that of a mapping of longer texts.
schema::Codec<IstiodSource> istiod_source(const schema::Codec<std::string>& namespace_name,
                                          const schema::Codec<registry::Labels>& labels,
                                          const schema::Codec<registry::Labels>& metadata);

}  // namespace meshdns::dnsd
