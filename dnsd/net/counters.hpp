// SPDX-License-Identifier: Apache-2.0
// Counters of one worker's sockets.  Written by that worker alone, without locked instructions;
// readable by any thread at any time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace meshdns::dnsd {

// A number that one thread writes, without locked instructions, and any thread may read.
class Counter {
 public:
  void add(std::uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void set(std::uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// A histogram of the sizes of messages.  Only one worker adds to it, without locked instructions;
// any thread may read it.
class SizeHistogram {
 public:
  // The limits are 31, 63, 127 and so on to 65535 bytes, so that the highest bit of a size gives
  // its bucket.
  static constexpr std::size_t kBuckets = 12;
  static constexpr std::size_t limit(std::size_t bucket) {
    return (std::size_t{1} << (bucket + kFirstBits)) - 1;
  }

  // REQUIRES: `size` is at most 65535 bytes.
  void add(std::size_t size) {
    // One instruction, which std::bit_width() is not: it also answers for 0.
    const auto highest_bit = static_cast<unsigned>(__builtin_clzll(size | 1)) ^ 63U;
    by_highest_bit_[highest_bit].add();
    sum_.add(size);
  }

  // Messages of this bucket alone; not cumulative.
  std::uint64_t count(std::size_t bucket) const {
    std::uint64_t total = by_highest_bit_[bucket + kFirstBits - 1].value();
    if (bucket == 0)
      for (std::size_t bit = 0; bit + 1 < kFirstBits; ++bit) total += by_highest_bit_[bit].value();
    return total;
  }
  std::uint64_t sum() const { return sum_.value(); }  // bytes

 private:
  static constexpr std::size_t kFirstBits = 5;
  Counter by_highest_bit_[kBuckets + kFirstBits - 1];  // not std::array, which checks each index
  Counter sum_;
};

struct alignas(64) WorkerCounters {
  Counter heartbeat;  // moves once a second while the loop turns

  Counter udp_queries;
  Counter udp_replies;
  Counter udp_late_replies;     // of these, answered after their batch
  Counter udp_batches;          // receive calls that brought something
  Counter udp_dropped_source;   // port 0, or one of our own listeners (a reply loop)
  Counter udp_dropped_long;     // longer than kUdpBufferSize, either way
  Counter udp_socket_overflow;  // dropped by the kernel: receive buffer full
  Counter udp_send_errors;      // replies that the kernel refused
  Counter udp_receive_errors;
  SizeHistogram udp_query_sizes;
  SizeHistogram udp_reply_sizes;

  Counter tcp_queries;
  Counter tcp_replies;
  Counter tcp_accepted;
  Counter tcp_open;                // a gauge
  Counter tcp_rejected_total;      // all connections in use, none idle
  Counter tcp_rejected_client;     // one client's share in use
  Counter tcp_rejected_files;      // too few file descriptors left
  Counter tcp_evicted;             // longest idle, made room for another
  Counter tcp_closed_idle;         // idle timeout
  Counter tcp_closed_slow_query;   // no whole message in time
  Counter tcp_closed_slow_reader;  // replies not taken in time, or too many of them
  Counter tcp_closed_backlog;      // stalled longest while all together held too much
  Counter tcp_held;                // a gauge: octets of unfinished queries and unsent replies
  Counter tcp_accept_errors;
  SizeHistogram tcp_query_sizes;  // without the length in front
  SizeHistogram tcp_reply_sizes;
};

}  // namespace meshdns::dnsd
