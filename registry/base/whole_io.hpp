// SPDX-License-Identifier: Apache-2.0
// Opens, reads and writes files and sockets as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "registry/base/file_descriptor.hpp"
#include "registry/base/result.hpp"

namespace meshdns {

// Opens `path` for reading.  Never waits: for the writer of a FIFO, or for a terminal.  Follows
// links.  An empty descriptor: errno says why.  Any thread.
FileDescriptor open_for_reading(const std::string& path);

// False when not all of it could be written; errno says why.  Any thread.
bool write_all(int fd, std::span<const std::uint8_t> octets);

// Reads until `octets` is full or the input ends, and returns the number of octets.  After an
// Error, errno says why, too.  Any thread.
Result<std::size_t> read_fully(int fd, std::span<std::uint8_t> octets);

// Reads to the end of the input, whatever size it says it has, but stops beyond `limit` octets:
// more than these mean that the input is longer.  After an Error, errno says why, too.  Any thread.
Result<std::string> read_to_end(int fd, std::size_t limit);

}  // namespace meshdns
