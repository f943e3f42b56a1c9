// SPDX-License-Identifier: Apache-2.0
// The interfaces between sockets and the query path: queries go to a QuerySink, answers that come
// later go back through a ReplySender.  Everything here belongs to one worker's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

// Octets that a UDP query's buffer has: the longest query read and the longest reply written.
inline constexpr std::size_t kUdpBufferSize = 4096;
// The same for a TCP query: RFC 1035, section 4.2.2.
inline constexpr std::size_t kTcpBufferSize = 65535;

// The two ends of a query.
struct Peer {
  IpAddress address;  // IPv4-mapped sources of a dual-stack socket are IPv4
  std::uint16_t port = 0;
  IpAddress local;  // the address that was asked
  bool tcp = false;
  std::uint16_t local_port = 0;
};

// The destination of the answer to one query, now or seconds later.  A value; it stays safe to use
// after its listener or connection is gone (the reply is dropped then).
struct ReplyTo {
  Peer client;
  std::uint32_t slot = 0;        // of the worker's UDP socket or TCP connection
  std::uint32_t generation = 0;  // of that slot
  std::uint32_t scope = 0;       // UDP: IPv6 zone of a link-local client
  std::uint32_t interface = 0;   // UDP, wildcard listeners: where the query came in
};

// One UDP query.
struct Datagram {
  std::span<std::uint8_t> buffer;  // kUdpBufferSize octets; the query lies at the front
  std::size_t query_size = 0;
  ReplyTo reply_to;
  std::size_t reply_size = 0;  // set by the sink, as on_query returns it
};

// Answers queries.  One per worker, called on the worker's thread only.
class QuerySink {
 public:
  // The query is not answered at all (QR=1, say).
  static constexpr std::size_t kNoReply = 0;
  // ReplySender::send or ReplySender::drop follows, exactly once.
  static constexpr std::size_t kReplyLater = static_cast<std::size_t>(-1);

  virtual ~QuerySink() = default;

  // Answers the first `query_size` octets of `buffer`, in place: returns the octets of reply now at
  // the front of `buffer`, or one of the two above.  `buffer` is the whole capacity, kUdpBufferSize
  // or kTcpBufferSize octets, and is the sink's until it returns.  The octets are as they came from
  // the network: any content, any size, zero included.
  virtual std::size_t on_query(std::span<std::uint8_t> buffer, std::size_t query_size,
                               const ReplyTo& reply_to) = 0;

  // Answers what one receive call brought (1..64 UDP queries); their replies leave in one send
  // call.  For sinks that parse all before they look up any, so that memory latency overlaps.
  virtual void on_batch(std::span<Datagram> batch) {
    for (Datagram& d : batch) d.reply_size = on_query(d.buffer, d.query_size, d.reply_to);
  }

  // Queries answered with kReplyLater for which nothing has come yet; a drain waits for them.
  virtual std::size_t in_flight() const { return 0; }

  // The worker is about to end: close every handle on its loop.  Nothing is called after this but
  // callbacks of those handles; ReplySender must not be used any more.
  virtual void on_stop() {}
};

// Sends late answers.  The worker's thread only.
class ReplySender {
 public:
  virtual ~ReplySender() = default;

  // Copies `message`; it leaves at the end of the loop's iteration, together with others.  UDP:
  // at most kUdpBufferSize octets, longer ones are dropped and counted.
  virtual void send(const ReplyTo& reply_to, std::span<const std::uint8_t> message) = 0;
  // No answer comes for a query that got kReplyLater.
  virtual void drop(const ReplyTo& reply_to) = 0;
};

}  // namespace meshdns::dnsd
