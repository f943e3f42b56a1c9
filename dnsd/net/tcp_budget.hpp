// How many TCP connections clients may hold, all workers together (reliability.md R13).  Any
// thread; touched when a connection opens or closes, never per query.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

struct TcpLimits {
  std::uint32_t max_connections = 4096;
  std::uint32_t max_connections_per_client = 128;
  std::chrono::milliseconds idle_timeout{10'000};
  std::chrono::milliseconds busy_idle_timeout{1'000};  // above 80 % of max_connections
  std::chrono::milliseconds message_timeout{5'000};    // from first to last octet of a query
  std::chrono::milliseconds write_timeout{5'000};      // without progress while replies wait
  std::uint32_t max_in_flight = 100;                   // queries of one connection
  std::size_t max_unsent = 65'536;                     // octets of replies, then no more is read
  std::size_t max_held = 8 << 20;                      // octets of all of a worker's connections
  std::uint32_t reserved_files = 64;                   // descriptors kept for others (R14)
};

class TcpBudget {
 public:
  explicit TcpBudget(const TcpLimits& limits);

  enum class Verdict : std::uint8_t { Granted, AllInUse, ClientShareInUse };
  // Counts a connection of `client` in if it may be.
  Verdict acquire(const IpAddress& client);
  void release(const IpAddress& client);

  // Takes effect for new connections and, as far as time limits go, for established ones.
  void set_limits(const TcpLimits& limits);
  TcpLimits limits() const;

  std::uint32_t open() const { return open_.load(std::memory_order_relaxed); }
  // How long a connection may rest now.  The second is for who has `limits` at hand already.
  std::chrono::milliseconds idle_timeout() const;
  std::chrono::milliseconds idle_timeout_at(const TcpLimits& limits) const;

 private:
  mutable std::mutex mutex_;
  TcpLimits limits_;                                        // guarded by mutex_
  std::unordered_map<IpAddress, std::uint32_t> by_client_;  // guarded by mutex_
  std::atomic<std::uint32_t> open_{0};                      // written under mutex_
};

}  // namespace meshdns::dnsd
