// SPDX-License-Identifier: Apache-2.0
// Keeps what libbpf would print, for error messages.
#pragma once

#include <string>

namespace meshdns::kernel {

// From now on libbpf prints nothing.
void capture_libbpf_messages();

// The last lines of warnings since the last call, at most 4,000 octets; empty if there were none.
std::string take_libbpf_messages();

}  // namespace meshdns::kernel
