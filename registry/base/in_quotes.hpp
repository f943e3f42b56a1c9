// SPDX-License-Identifier: Apache-2.0
// Quotes text of the user for messages.
#pragma once

#include "registry/base/printable.hpp"

namespace meshdns::dnsd {

using registry::in_quotes;

}  // namespace meshdns::dnsd
