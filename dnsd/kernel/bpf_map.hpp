// SPDX-License-Identifier: Apache-2.0
// Maps that are shared with a program in the kernel, by their names in a BPF file system.
//
// The three system calls are made directly: libbpf would bring an ELF reader into a process that
// loads no program.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "registry/base/file_descriptor.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// The layout that a map must have.
struct BpfMapLayout {
  std::uint32_t type = 0;  // BPF_MAP_TYPE_*
  std::uint32_t key_size = 0;
  std::uint32_t value_size = 0;
};

// One pinned map.  Any thread may use it; the kernel keeps each call apart from others.
class BpfMap {
 public:
  BpfMap() = default;  // no map: for open() to replace
  // Opens the pin `path`.  An Error says why it cannot be used: it is missing, may not be opened,
  // or has another layout.
  static Result<BpfMap> open(const std::string& path, const BpfMapLayout& layout);

  // Adds or replaces an entry.  False: errno says why.
  // REQUIRES: Key and Value have the sizes of the layout.
  template <typename Key, typename Value>
  bool put(const Key& key, const Value& value) const {
    static_assert(std::is_trivially_copyable_v<Key> && std::is_trivially_copyable_v<Value>);
    return put_octets(&key, &value);
  }
  // False: there is no such entry, or errno says why.
  template <typename Key, typename Value>
  bool get(const Key& key, Value& value) const {
    static_assert(std::is_trivially_copyable_v<Key> && std::is_trivially_copyable_v<Value>);
    return get_octets(&key, &value);
  }
  // The values of all CPUs.  REQUIRES: `values` has as many as there may be CPUs.
  template <typename Key, typename Value>
  bool get_of_cpus(const Key& key, std::span<Value> values) const {
    static_assert(std::is_trivially_copyable_v<Key> && sizeof(Value) % 8 == 0);
    return get_octets(&key, values.data());
  }
  template <typename Key>
  void erase(const Key& key) const {
    static_assert(std::is_trivially_copyable_v<Key>);
    erase_octets(&key);
  }
  // Sets `next` to the entry behind `key`, or to the first where `key` is null.  False: none.
  bool next_key(const void* key, void* next) const;

  int fd() const { return fd_.get(); }
  std::uint32_t max_entries() const { return max_entries_; }

 private:
  bool put_octets(const void* key, const void* value) const;
  bool get_octets(const void* key, void* value) const;
  void erase_octets(const void* key) const;

  FileDescriptor fd_;
  std::uint32_t max_entries_ = 0;
};

// The values of an array map (BPF_F_MMAPABLE) as memory that the program sees, too.
class BpfMemory {
 public:
  // Maps `size` octets of the map.
  static Result<BpfMemory> map(const BpfMap& map, std::size_t size);
  // The same from an offset, a multiple of the page size, for reading only.
  static Result<BpfMemory> map_readable(const BpfMap& map, std::size_t size, std::size_t offset);
  BpfMemory(BpfMemory&& other) noexcept;
  BpfMemory& operator=(BpfMemory&& other) = delete;
  ~BpfMemory();

  // REQUIRES: the size of the map allows it.
  template <typename T>
  std::span<T> as() const {
    return {static_cast<T*>(memory_), size_ / sizeof(T)};
  }

 private:
  BpfMemory(void* memory, std::size_t size) : memory_(memory), size_(size) {}
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace meshdns::dnsd
