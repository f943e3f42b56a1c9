// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/kernel_maps.hpp"

#include <linux/bpf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <utility>

namespace meshdns::dnsd {
namespace {

std::size_t page_size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

// A record: its length with two flags, four octets that are the kernel's, then the data.  Records
// begin at multiples of eight.
constexpr std::size_t kHead = BPF_RINGBUF_HDR_SZ;
constexpr std::uint32_t kFlags = BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT;

std::size_t size_of_record(std::uint32_t length) { return (length + kHead + 7) / 8 * 8; }

}  // namespace

Result<SampleRing> SampleRing::open(const BpfMap& map) {
  const std::size_t page = page_size();
  const std::size_t size = map.max_entries();
  auto consumer = BpfMemory::map(map, page);
  if (!consumer) return std::unexpected(consumer.error());
  auto producer = BpfMemory::map_readable(map, page + 2 * size, page);
  if (!producer) return std::unexpected(producer.error());
  return SampleRing(*std::move(consumer), *std::move(producer), size);
}

void SampleRing::take(std::size_t limit, const std::function<void(const meshdns_sample&)>& visit) {
  const std::span<const std::uint8_t> data =
      producer_.as<const std::uint8_t>().subspan(page_size());
  const std::atomic_ref read(consumer_.as<std::uint64_t>().front());
  // GCC 12 has no atomic_ref of const.
  const auto written =
      __atomic_load_n(&producer_.as<const std::uint64_t>().front(), __ATOMIC_ACQUIRE);
  std::uint64_t at = read.load(std::memory_order_relaxed);
  for (; at < written && limit > 0; --limit) {
    const std::uint8_t* const record = &data[at & (size_ - 1)];
    const std::uint32_t length =
        __atomic_load_n(reinterpret_cast<const std::uint32_t*>(record), __ATOMIC_ACQUIRE);
    if ((length & BPF_RINGBUF_BUSY_BIT) != 0) break;
    if ((length & kFlags) == 0 && length >= sizeof(meshdns_sample)) {
      meshdns_sample sample;
      std::memcpy(&sample, record + kHead, sizeof sample);
      visit(sample);
    }
    at += size_of_record(length & ~kFlags);
    read.store(at, std::memory_order_release);
  }
}

namespace {

constexpr const char* kOtherVersion = ": the maps are those of another version of meshdns";

// The inode of a pin; 0: there is none.
ino_t inode_of(const std::string& path) {
  struct stat found{};
  return stat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

// The number of values that a read of a per-CPU map gives: CPUs that may ever be there count.
std::size_t possible_cpus() {
  // "0-7", or a single number; a list has its highest last.
  std::ifstream file("/sys/devices/system/cpu/possible");
  std::string text;
  std::getline(file, text);
  const auto digits = text.find_last_not_of("0123456789");
  const std::string last = digits == std::string::npos ? text : text.substr(digits + 1);
  return last.empty() ? static_cast<std::size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)))
                      : std::stoul(last) + 1;
}

}  // namespace

Result<KernelMaps::Maps> KernelMaps::open_maps(const std::string& path) {
  Maps maps;
  struct Wanted {
    BpfMap& map;
    const char* name;
    std::uint32_t type;
    std::size_t key_size, value_size;
  };
  constexpr std::size_t kIndex = sizeof(std::uint32_t);
  constexpr std::size_t kCounter = sizeof(std::uint64_t);
  const Wanted all[] = {
      {maps.control, MESHDNS_MAP_CONTROL, BPF_MAP_TYPE_ARRAY, kIndex, sizeof(meshdns_control)},
      {maps.generations, MESHDNS_MAP_GENERATIONS, BPF_MAP_TYPE_ARRAY, kIndex, kCounter},
      {maps.served, MESHDNS_MAP_SERVED, BPF_MAP_TYPE_HASH, sizeof(meshdns_endpoint), 1},
      {maps.clients, MESHDNS_MAP_CLIENTS, BPF_MAP_TYPE_LRU_HASH, sizeof(meshdns_address),
       sizeof(meshdns_client)},
      {maps.answers, MESHDNS_MAP_ANSWERS, BPF_MAP_TYPE_LRU_HASH, sizeof(meshdns_question),
       sizeof(meshdns_answer)},
      {maps.accounts, MESHDNS_MAP_ACCOUNTS, BPF_MAP_TYPE_ARRAY, kIndex, kCounter},
      {maps.counters, MESHDNS_MAP_COUNTERS, BPF_MAP_TYPE_PERCPU_ARRAY, kIndex, kCounter},
      {maps.samples, MESHDNS_MAP_SAMPLES, BPF_MAP_TYPE_RINGBUF, 0, 0}};
  for (const Wanted& wanted : all) {
    auto map = BpfMap::open(path + "/" + wanted.name,
                            {wanted.type, static_cast<std::uint32_t>(wanted.key_size),
                             static_cast<std::uint32_t>(wanted.value_size)});
    if (!map) return std::unexpected(map.error());
    wanted.map = *std::move(map);
  }
  if (maps.generations.max_entries() != MESHDNS_SLOTS ||
      maps.accounts.max_entries() != MESHDNS_ACCOUNTS ||
      maps.counters.max_entries() < MESHDNS_COUNTERS)
    return fail(path + kOtherVersion);
  return maps;
}

Result<std::shared_ptr<KernelMaps>> KernelMaps::open(const std::string& path) {
  // Read before the map is opened: a loader that comes in between is noticed later.
  Pin pin{path + "/" MESHDNS_MAP_CONTROL, 0};
  pin.inode = inode_of(pin.path);
  auto maps = open_maps(path);
  if (!maps) return std::unexpected(maps.error());
  auto memory = map_memory(*maps);
  if (!memory) return fail(path + ": " + memory.error().message);
  if (memory->control.as<meshdns_control>().front().version != MESHDNS_MAPS_VERSION)
    return fail(path + kOtherVersion);
  auto samples = SampleRing::open(maps->samples);
  if (!samples) return fail(path + ": " + samples.error().message);
  return std::shared_ptr<KernelMaps>(
      new KernelMaps(*std::move(maps), *std::move(memory), *std::move(samples), std::move(pin)));
}

Result<KernelMaps::Memory> KernelMaps::map_memory(const Maps& maps) {
  auto control = BpfMemory::map(maps.control, sizeof(meshdns_control));
  if (!control) return std::unexpected(control.error());
  auto generations = BpfMemory::map(maps.generations, MESHDNS_SLOTS * sizeof(std::uint64_t));
  if (!generations) return std::unexpected(generations.error());
  auto accounts = BpfMemory::map(maps.accounts, MESHDNS_ACCOUNTS * sizeof(std::uint64_t));
  if (!accounts) return std::unexpected(accounts.error());
  return Memory{*std::move(control), *std::move(generations), *std::move(accounts)};
}

KernelMaps::KernelMaps(Maps maps, Memory memory, SampleRing samples, Pin pin)
    : maps_(std::move(maps)),
      memory_(std::move(memory)),
      samples_(std::move(samples)),
      pin_(std::move(pin)) {}

bool KernelMaps::are_current() const { return inode_of(pin_.path) == pin_.inode; }

std::vector<std::uint64_t> KernelMaps::counters() const {
  std::vector<std::uint64_t> sums(MESHDNS_COUNTERS);
  static const std::size_t cpus = possible_cpus();
  std::vector<std::uint64_t> of_cpus(cpus);
  for (std::uint32_t index = 0; index < MESHDNS_COUNTERS; ++index)
    if (maps_.counters.get_of_cpus(index, std::span(of_cpus)))
      for (const std::uint64_t value : of_cpus) sums[index] += value;
  return sums;
}

}  // namespace meshdns::dnsd
