// SPDX-License-Identifier: Apache-2.0
// The most frequent names and clients of the last half to whole minute, of all workers together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace meshdns::dnsd {

struct TopEntry {
  std::uint64_t key = 0;
  // A name as QueryMessage::qname() gives it, a namespace, or the 16 octets of an address.
  std::string text;
  bool is_cut = false;  // the text is the end of a longer name
  // The exact amount is at least `amount` and at most `amount + error`, but for the sampling.
  std::uint64_t amount = 0;
  std::uint64_t error = 0;
  std::uint64_t part = 0;
  std::uint32_t peak = 0;
};

// The largest amount first.
using TopList = std::vector<TopEntry>;

struct TopReport {
  // A daemon that has just begun has no rate yet: a second at least.
  double per_second(std::uint64_t amount) const {
    return static_cast<double>(amount) / std::max(seconds, 1.0);
  }

  double seconds = 0;         // that it covers
  std::uint64_t queries = 0;  // in that time
  std::uint64_t refused = 0;  // of these: refused, or over a limit
  TopList names;              // amount: queries
  TopList clients;            // likewise
  TopList namespaces;         // likewise, of clients
  TopList forwarded;          // names; amount: microseconds of waiting; part: queries;
                              // peak: the longest wait in microseconds
  TopList refused_clients;    // amount: queries; part: those over a limit
};

}  // namespace meshdns::dnsd
