// SPDX-License-Identifier: Apache-2.0
// The entries that the program in the kernel answers from: maps of the kernel, or a test's.
#pragma once

#include <cstdint>
#include <span>

#include "dnsd/kernel/program/answer_maps.h"
#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

// As dnsd/kernel/program/answer_maps.h has it.
meshdns_address address_in_maps(const IpAddress& address);

// Any thread.
class KernelStore {
 public:
  virtual ~KernelStore() = default;

  // Memory that the program reads; fields and counters are to be read and written as a whole.
  virtual meshdns_control& control() const = 0;
  virtual std::span<std::uint64_t> generations() const = 0;
  virtual std::span<std::uint64_t> accounts() const = 0;

  // Adds or replaces an entry.  False: there is no room.
  virtual bool put(const meshdns_address& address, const meshdns_client& client) const = 0;
  virtual bool put(const meshdns_question& question, const meshdns_answer& answer) const = 0;
  // False: there is none.
  virtual bool get(const meshdns_address& address, meshdns_client& client) const = 0;
  virtual bool get(const meshdns_question& question, meshdns_answer& answer) const = 0;
};

}  // namespace meshdns::dnsd
