// SPDX-License-Identifier: Apache-2.0
// The questions that are being asked upstream, of all workers.  A second worker with the same
// question waits for the first, because several identical queries in flight make forged replies
// easier (RFC 5452, section 5).  One client or one zone cannot take all places.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/base/ip_address.hpp"
#include "resolver/cache/cached_message.hpp"

namespace meshdns::dnsd {

// The result of a flight, for the workers that wait.
struct FlightResult {
  MessageRef message;
  std::string upstream;       // empty: nobody answered
  std::uint32_t packets = 0;  // that it took
};

// Takes results for the flights of one worker.  Any thread calls it; it must only hand over.
using FlightDelivery = std::function<void(const std::string& key, const FlightResult& result)>;

// Any thread.
class FlightTable {
 public:
  static constexpr std::size_t kDefaultLimit = 4096;

  enum class Admission : std::uint8_t {
    Lead,        // ask, then call finish()
    Join,        // another worker asks; `deliver` gets the result
    FullTable,   // no place left: answer SERVFAIL at once
    FullClient,  // this client has its quarter of all places
    FullZone,    // this second-level zone has its half of all places
  };

  // Enters the worker of `deliver` for the question `key` (CacheKey::bytes() and RD).  Each worker
  // enters a key once at a time.
  Admission enter(std::string_view key, std::string_view wire_name, const IpAddress& client,
                  const FlightDelivery& deliver);
  // The leader has a result: everybody who joined gets it.  The key is free again.
  void finish(std::string_view key, const FlightResult& result);

  void set_limit(std::size_t limit);
  std::size_t in_flight() const;

 private:
  struct Entry {
    IpAddress client;
    std::uint64_t zone = 0;  // hash of the second-level zone
    std::vector<FlightDelivery> joined;
  };
  using Entries = TextMap<Entry>;
  void leave(const Entry& entry);

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::size_t limit_ = kDefaultLimit;
  Entries entries_;
  std::unordered_map<IpAddress, std::uint32_t> by_client_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_zone_;
};

}  // namespace meshdns::dnsd
