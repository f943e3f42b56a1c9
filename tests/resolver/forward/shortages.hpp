// SPDX-License-Identifier: Apache-2.0
// Shortages of the system; each lasts as long as its object lives.
#pragma once

#include "tests/dnsd/few_descriptors.hpp"

namespace meshdns::dnsd::test {

// send() on UDP sockets fails with ENOBUFS, as where the interface's queue is full.
class FullSendBuffers {
 public:
  FullSendBuffers();
  ~FullSendBuffers();
  FullSendBuffers(const FullSendBuffers&) = delete;
  FullSendBuffers& operator=(const FullSendBuffers&) = delete;
};

}  // namespace meshdns::dnsd::test
