// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <new>

#include "resolver/cache/cached_message.hpp"
#include "resolver/cache/free_memory.hpp"

namespace meshdns::dnsd::message_memory {
namespace {

constexpr std::size_t kChunkSize = std::size_t{64} << 10;  // and its alignment
constexpr std::size_t kHeadSize = 64;
constexpr std::size_t kStep = 32;
constexpr std::size_t kClasses = 32;
// The heap takes larger messages, which are few.
constexpr std::size_t kLargest = kKeepsFreeMemory ? kStep * kClasses : 0;

struct FreeBlock {
  FreeBlock* next;
};

// The head of a chunk.  Guarded by the mutex of its class.
struct Chunk {
  Chunk* next = nullptr;  // in the list of those with room
  Chunk* previous = nullptr;
  FreeBlock* free = nullptr;
  std::uint32_t used = 0;
  std::uint32_t touched = 0;  // blocks that were ever used: the rest is no memory yet
};
static_assert(sizeof(Chunk) <= kHeadSize);

constexpr std::size_t class_of(std::size_t size) { return (size - 1) / kStep; }
constexpr std::size_t block_size(std::size_t index) { return (index + 1) * kStep; }
constexpr std::size_t blocks_per_chunk(std::size_t index) {
  return (kChunkSize - kHeadSize) / block_size(index);
}

// Returns a free block without its link.
void* rest_of(void* block) { return static_cast<std::uint8_t*>(block) + sizeof(FreeBlock); }

Chunk* chunk_of(void* block) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the block lies in the chunk.
  return reinterpret_cast<Chunk*>(reinterpret_cast<std::uintptr_t>(block) & ~(kChunkSize - 1));
}

void* map(std::size_t size) {
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

// The kernel puts one mapping next to the other and makes one of both: once the first chunk is
// aligned, so are those that follow.
Chunk* map_chunk() {
  void* const next = map(kChunkSize);
  if (chunk_of(next) == next) return new (next) Chunk;
  munmap(next, kChunkSize);
  auto* const begin = static_cast<std::uint8_t*>(map(2 * kChunkSize));
  auto* const chunk = reinterpret_cast<std::uint8_t*>(chunk_of(begin + kChunkSize - 1));
  if (chunk > begin) munmap(begin, static_cast<std::size_t>(chunk - begin));
  munmap(chunk + kChunkSize, static_cast<std::size_t>(begin + kChunkSize - chunk));
  return new (chunk) Chunk;
}

class SizeClass {
 public:
  void* allocate(std::size_t index) {
    const std::lock_guard lock(mutex_);
    if (with_room_ == nullptr) link(map_chunk());
    Chunk& chunk = *with_room_;
    void* block = chunk.free;
    if (block != nullptr) {
      chunk.free = chunk.free->next;
      check_free_memory(rest_of(block), block_size(index) - sizeof(FreeBlock));
    } else {
      block =
          reinterpret_cast<std::uint8_t*>(&chunk) + kHeadSize + block_size(index) * chunk.touched++;
    }
    if (++chunk.used == blocks_per_chunk(index)) unlink(&chunk);
    return block;
  }

  void release(void* block, std::size_t index) {
    const std::lock_guard lock(mutex_);
    Chunk* const chunk = chunk_of(block);
    // The fullest come first, so that the others run empty.
    if (chunk->used == blocks_per_chunk(index)) link(chunk);
    poison_free_memory(rest_of(block), block_size(index) - sizeof(FreeBlock));
    chunk->free = new (block) FreeBlock{chunk->free};
    if (--chunk->used > 0 || (chunk == with_room_ && chunk->next == nullptr)) return;
    unlink(chunk);
    munmap(chunk, kChunkSize);
  }

 private:
  void link(Chunk* chunk) {
    chunk->previous = nullptr;
    chunk->next = with_room_;
    if (with_room_ != nullptr) with_room_->previous = chunk;
    with_room_ = chunk;
  }
  void unlink(Chunk* chunk) {
    (chunk->previous != nullptr ? chunk->previous->next : with_room_) = chunk->next;
    if (chunk->next != nullptr) chunk->next->previous = chunk->previous;
  }

  std::mutex mutex_;
  Chunk* with_room_ = nullptr;
};

// As the heap itself, one for the process.
std::array<SizeClass, kClasses> classes;

// Returns the memory that malloc uses for `size` octets: 8 of its own, in steps of 16.
std::size_t heap_cost(std::size_t size) { return (size + 8 + 15) & ~std::size_t{15}; }

}  // namespace

void* allocate(std::size_t size) {
  if (size > kLargest) return ::operator new(size);
  const std::size_t index = class_of(size);
  return classes[index].allocate(index);
}

void release(void* memory, std::size_t size) {
  if (size > kLargest) return ::operator delete(memory);
  const std::size_t index = class_of(size);
  classes[index].release(memory, index);
}

std::size_t cost(std::size_t size) {
  static constexpr auto kCosts = [] {
    std::array<std::uint16_t, kClasses> costs;
    for (std::size_t i = 0; i < kClasses; ++i) {
      const std::size_t blocks = blocks_per_chunk(i);
      costs[i] = static_cast<std::uint16_t>((kChunkSize + blocks - 1) / blocks);
    }
    return costs;
  }();
  return size > kLargest ? heap_cost(size) : kCosts[class_of(size)];
}

}  // namespace meshdns::dnsd::message_memory
