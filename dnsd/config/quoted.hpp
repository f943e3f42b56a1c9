// How messages show what the user wrote.
#pragma once

#include "registry/base/printable.hpp"

namespace meshdns::dnsd {

using registry::quoted;

}  // namespace meshdns::dnsd
