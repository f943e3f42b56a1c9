// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/bpf_map.hpp"

#include <linux/bpf.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace meshdns::dnsd {
namespace {

// All attributes that are not set must be 0.
bpf_attr no_attributes() {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  return attributes;
}

int call(bpf_cmd command, bpf_attr& attributes) {
  return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

std::uint64_t pointer(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

std::string reason() { return std::system_category().message(errno); }

Result<bpf_map_info> info_of(int fd) {
  bpf_map_info info{};
  bpf_attr attributes = no_attributes();
  attributes.info.bpf_fd = static_cast<std::uint32_t>(fd);
  attributes.info.info = pointer(&info);
  attributes.info.info_len = sizeof info;
  if (call(BPF_OBJ_GET_INFO_BY_FD, attributes) != 0) return fail(reason());
  return info;
}

}  // namespace

Result<BpfMap> BpfMap::open(const std::string& path, const BpfMapLayout& layout) {
  bpf_attr attributes = no_attributes();
  attributes.pathname = pointer(path.c_str());
  BpfMap map;
  map.fd_ = FileDescriptor(call(BPF_OBJ_GET, attributes));
  if (!map.fd_) return fail(path + ": " + reason());
  const auto info = info_of(map.fd_.get());
  if (!info) return fail(path + ": " + info.error().message);
  if (info->type != layout.type || info->key_size != layout.key_size ||
      info->value_size != layout.value_size)
    return fail(path + ": the map is that of another version of meshdns");
  map.max_entries_ = info->max_entries;
  return map;
}

bool BpfMap::put_octets(const void* key, const void* value) const {
  bpf_attr attributes = no_attributes();
  attributes.map_fd = static_cast<std::uint32_t>(fd_.get());
  attributes.key = pointer(key);
  attributes.value = pointer(value);
  attributes.flags = BPF_ANY;
  return call(BPF_MAP_UPDATE_ELEM, attributes) == 0;
}

bool BpfMap::get_octets(const void* key, void* value) const {
  bpf_attr attributes = no_attributes();
  attributes.map_fd = static_cast<std::uint32_t>(fd_.get());
  attributes.key = pointer(key);
  attributes.value = pointer(value);
  return call(BPF_MAP_LOOKUP_ELEM, attributes) == 0;
}

void BpfMap::erase_octets(const void* key) const {
  bpf_attr attributes = no_attributes();
  attributes.map_fd = static_cast<std::uint32_t>(fd_.get());
  attributes.key = pointer(key);
  call(BPF_MAP_DELETE_ELEM, attributes);
}

bool BpfMap::next_key(const void* key, void* next) const {
  bpf_attr attributes = no_attributes();
  attributes.map_fd = static_cast<std::uint32_t>(fd_.get());
  attributes.key = pointer(key);
  attributes.next_key = pointer(next);
  return call(BPF_MAP_GET_NEXT_KEY, attributes) == 0;
}

Result<BpfMemory> BpfMemory::map(const BpfMap& map, std::size_t size) {
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, map.fd(), 0);
  if (memory == MAP_FAILED) return fail("cannot map its memory: " + reason());
  return BpfMemory(memory, size);
}

Result<BpfMemory> BpfMemory::map_readable(const BpfMap& map, std::size_t size, std::size_t offset) {
  void* const memory =
      mmap(nullptr, size, PROT_READ, MAP_SHARED, map.fd(), static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return fail("cannot map its memory: " + reason());
  return BpfMemory(memory, size);
}

BpfMemory::BpfMemory(BpfMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), size_(std::exchange(other.size_, 0)) {}

BpfMemory::~BpfMemory() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

}  // namespace meshdns::dnsd
