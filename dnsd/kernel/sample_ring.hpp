// SPDX-License-Identifier: Apache-2.0
// The answers of the program in the kernel that it tells about: a ring buffer of the kernel
// (BPF_MAP_TYPE_RINGBUF) with one reader.
#pragma once

#include <cstddef>
#include <functional>

#include "dnsd/kernel/bpf_map.hpp"
#include "dnsd/kernel/program/answer_maps.h"

namespace meshdns::dnsd {

// One thread, and one process at a time.
class SampleRing {
 public:
  static Result<SampleRing> open(const BpfMap& map);

  // Calls `visit` for what has come since the last call, the oldest first, at most `limit` times.
  void take(std::size_t limit, const std::function<void(const meshdns_sample&)>& visit);

 private:
  SampleRing(BpfMemory consumer, BpfMemory producer, std::size_t size)
      : consumer_(std::move(consumer)), producer_(std::move(producer)), size_(size) {}

  BpfMemory consumer_;  // a page: the place of the reader
  BpfMemory producer_;  // a page: that of the program; then the data, twice in a row
  std::size_t size_;    // of the data, a power of two
};

}  // namespace meshdns::dnsd
