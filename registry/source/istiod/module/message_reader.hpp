// SPDX-License-Identifier: Apache-2.0
// Reads single resources of a push with protobuf.
#pragma once

#include <memory>

#include "registry/source/istiod/ads.hpp"

namespace meshdns::registry::istiod {

// One thread.
std::unique_ptr<MessageReader> make_message_reader();

}  // namespace meshdns::registry::istiod
