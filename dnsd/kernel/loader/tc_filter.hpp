// SPDX-License-Identifier: Apache-2.0
// Our filter for the incoming packets of an interface.
#pragma once

#include <cstdint>
#include <optional>

#include "registry/base/result.hpp"

namespace meshdns::kernel {

// Our place among the filters of an interface.  Those of lower priorities see a packet first; the
// ones that others add without a priority come later.
inline constexpr std::uint32_t kPriority = 53;
inline constexpr std::uint32_t kHandle = 0x6d646e73;

// The number of the program in our place, whoever loaded it; nullopt: there is none of ours.
// Fails if another program has our place.
Result<std::optional<std::uint32_t>> find_filter(int interface);

enum class Qdisc : std::uint8_t { Made, Found };

// Attaches the program in place of an older one of ours.  Makes the queueing discipline clsact if
// the interface has none.
Result<Qdisc> attach_filter(int interface, int program);

// Removes our filter, and clsact if we made it and nobody else uses it.  Nothing is no error.
Result<void> detach_filter(int interface, Qdisc qdisc);

}  // namespace meshdns::kernel
