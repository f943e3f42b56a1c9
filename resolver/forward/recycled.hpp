// SPDX-License-Identifier: Apache-2.0
// Base of objects of which each query that waits takes one: a thread keeps the memory of those that
// are gone for those to come.  The heap would merge and split it again, with a third of a
// forwarded query's time and holes between what lives longer.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "resolver/cache/free_memory.hpp"

namespace meshdns::dnsd {

// REQUIRES: nothing is derived from T.
template <typename T>
class Recycled {
 public:
  static constexpr std::size_t kMaxSpare = 64;  // of each thread

  static void* operator new(std::size_t size) {
    std::vector<void*>& spare = spares().memory;
    if (spare.empty()) return ::operator new(size);
    void* const memory = spare.back();
    spare.pop_back();
    check_free_memory(memory, size);
    return memory;
  }
  static void operator delete(void* memory, std::size_t size) {
    if (!kKeepsFreeMemory) return ::operator delete(memory);
    std::vector<void*>& spare = spares().memory;
    if (spare.size() == spare.capacity()) return ::operator delete(memory);
    poison_free_memory(memory, size);
    spare.push_back(memory);
  }

 private:
  friend T;
  Recycled() = default;

  struct Spares {
    Spares() { memory.reserve(kMaxSpare); }
    Spares(const Spares&) = delete;
    Spares& operator=(const Spares&) = delete;
    ~Spares() {
      for (void* each : memory) ::operator delete(each);
    }
    std::vector<void*> memory;
  };
  static Spares& spares() {
    thread_local Spares spares;
    return spares;
  }
};

}  // namespace meshdns::dnsd
