// SPDX-License-Identifier: Apache-2.0
// The keys of sources.istiod.
#pragma once

#include "dnsd/config/config.hpp"
#include "dnsd/config/schema.hpp"

namespace meshdns::dnsd {

schema::Codec<IstiodSource> istiod_source();

}  // namespace meshdns::dnsd
