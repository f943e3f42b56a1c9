// SPDX-License-Identifier: Apache-2.0
// Counters of one worker's sockets.  Written by that worker alone, without locked instructions;
// readable by any thread at any time.
#pragma once

#include "dnsd/net/counter.hpp"
#include "dnsd/net/size_histogram.hpp"

namespace meshdns::dnsd {

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
