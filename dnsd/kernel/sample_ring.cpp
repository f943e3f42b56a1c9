// SPDX-License-Identifier: Apache-2.0
#include "dnsd/kernel/sample_ring.hpp"

#include <linux/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
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

}  // namespace meshdns::dnsd
