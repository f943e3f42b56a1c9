// SPDX-License-Identifier: Apache-2.0
// Memory of cached messages, apart from the heap: they live for minutes, while all else that a
// query allocates is gone in a moment.  Side by side, each would leave holes that the other cannot
// fill, and the cache would take a third more than its size.
//
// Blocks of one size lie in chunks of their own; a chunk without blocks is given back.
#pragma once

#include <cstddef>

namespace meshdns::dnsd::message_memory {

// Any thread.  Throws std::bad_alloc as operator new does.
void* allocate(std::size_t size);
// REQUIRES: `memory` comes from allocate(size).
void release(void* memory, std::size_t size);
// Returns the memory that a message of so many bytes uses, with all overhead.
std::size_t cost(std::size_t size);

}  // namespace meshdns::dnsd::message_memory
