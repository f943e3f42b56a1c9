// SPDX-License-Identifier: Apache-2.0
// Reading and writing all of something, whatever pieces the system takes it in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "registry/base/result.hpp"

namespace meshdns {

// False when not all of it could be written; errno says why.  Any thread.
bool write_all(int fd, std::span<const std::uint8_t> octets);

// Reads until `octets` is full or what is read ends; how much that was.  Any thread.
Result<std::size_t> read_fully(int fd, std::span<std::uint8_t> octets);

}  // namespace meshdns
