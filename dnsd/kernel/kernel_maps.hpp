// SPDX-License-Identifier: Apache-2.0
// The maps that the program in the kernel answers from (dnsd/kernel/program/answer_maps.h), as the
// loader has pinned them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dnsd/kernel/bpf_map.hpp"
#include "dnsd/kernel/kernel_feed.hpp"
#include "dnsd/kernel/program/answer_maps.h"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// The answers of the program in the kernel that it tells about: a ring buffer of the kernel
// (BPF_MAP_TYPE_RINGBUF) with one reader.
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

class KernelMaps final : public KernelStore {
 public:
  // Opens the maps in the folder `path`.  An Error names the first that cannot be used.
  static Result<std::shared_ptr<KernelMaps>> open(const std::string& path);

  // Returns whether the pins in the folder are still these maps, and not those of another loader.
  bool are_current() const;

  meshdns_control& control() const override {
    return memory_.control.as<meshdns_control>().front();
  }
  std::span<std::uint64_t> generations() const override {
    return memory_.generations.as<std::uint64_t>();
  }
  std::span<std::uint64_t> accounts() const override {
    return memory_.accounts.as<std::uint64_t>();
  }
  bool put(const meshdns_address& address, const meshdns_client& client) const override {
    return maps_.clients.put(address, client);
  }
  bool put(const meshdns_question& question, const meshdns_answer& answer) const override {
    return maps_.answers.put(question, answer);
  }
  bool get(const meshdns_address& address, meshdns_client& client) const override {
    return maps_.clients.get(address, client);
  }
  bool get(const meshdns_question& question, meshdns_answer& answer) const override {
    return maps_.answers.get(question, answer);
  }

  // The addresses at which the program answers.
  const BpfMap& served() const { return maps_.served; }
  // The sum over all CPUs; by meshdns_counter.
  std::vector<std::uint64_t> counters() const;
  // The control thread's.
  SampleRing& samples() { return samples_; }

 private:
  struct Maps {
    BpfMap control, generations, served, clients, answers, accounts, counters, samples;
  };
  struct Pin {
    std::string path;
    ino_t inode = 0;
  };
  struct Memory {
    BpfMemory control, generations, accounts;
  };
  KernelMaps(Maps maps, Memory memory, SampleRing samples, Pin pin);
  static Result<Maps> open_maps(const std::string& path);
  static Result<Memory> map_memory(const Maps& maps);

  const Maps maps_;
  const Memory memory_;
  SampleRing samples_;
  const Pin pin_;  // of `control`
};

}  // namespace meshdns::dnsd
