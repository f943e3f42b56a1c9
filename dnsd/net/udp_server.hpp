// SPDX-License-Identifier: Apache-2.0
// One worker's UDP sockets.  A readable socket is read in batches of up to 64 datagrams by one
// recvmmsg; the replies, written into the queries' own buffers, leave by one sendmmsg.  Measured,
// the two calls' batching is worth as much as all the rest of a DNS server.  Late replies wait for
// the end of the loop's iteration and leave together, too.
//
// Most of the time, each query comes alone.  The calls for many messages cost more than those for
// one then (measured: 0.15 us for each direction, of 3.6 us), because the kernel copies the headers
// of messages in and out, and looks for a second datagram.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <uv.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dnsd/net/counters.hpp"
#include "dnsd/net/listeners.hpp"
#include "dnsd/net/query_sink.hpp"
#include "dnsd/net/reach_probes.hpp"

namespace meshdns::dnsd {

// A UDP peer's address as the kernel wants it.
union PeerName {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

// Up to 64 messages with everything that recvmmsg and sendmmsg need.
class UdpBatch {
 public:
  static constexpr unsigned kSize = 64;

  UdpBatch();

  std::uint8_t* buffer(unsigned i) { return buffers_.get() + i * kStride; }
  std::array<mmsghdr, kSize> messages;
  std::array<iovec, kSize> vectors;
  std::array<PeerName, kSize> names;
  struct alignas(cmsghdr) Control {
    std::uint8_t octets[CMSG_SPACE(sizeof(in6_pktinfo)) + 64];
  };
  std::array<Control, kSize> controls;

 private:
  // Not a power of two: with 4096 all buffers' first lines would fall into one set of the cache.
  static constexpr std::size_t kStride = kUdpBufferSize + 320;
  std::unique_ptr<std::uint8_t[]> buffers_;
};

// The worker's thread only, but for construction and add() before it runs.
class UdpServer {
 public:
  // `reach_probes` learns of the probes that arrive; null = nobody does.
  UdpServer(uv_loop_t* loop, WorkerCounters& counters, std::shared_ptr<ReachProbes> reach_probes);
  ~UdpServer();
  UdpServer(const UdpServer&) = delete;
  UdpServer& operator=(const UdpServer&) = delete;

  void set_sink(QuerySink* sink) { sink_ = sink; }

  // Serves `socket`; 0 or a libuv error.
  int add(std::shared_ptr<ListenSocket> socket);
  bool has(const ListenSocket& socket) const;
  std::vector<const ListenSocket*> sockets() const;
  // Reads no more from the sockets, until it is told to again.  Late replies still leave.
  void stop_reading();
  void read_again();
  // Answers what waits in the socket, or leaves it there, then reads no more from it.  It stays
  // open for late replies until close_retired().
  void retire(const ListenSocket& socket, Waiting waiting);
  void close_retired();
  void close_all();

  // Every listening address of this worker, of both protocols.  Queries from one of them are
  // dropped, because a server that answers itself never stops.
  void set_own_addresses(std::vector<SocketAddress> addresses);

  void send_later(const ReplyTo& reply_to, std::span<const std::uint8_t> message);
  void flush();
  // Asks the kernel for what it dropped; about once a second.
  void count_overflow();

 private:
  struct Socket;

  void on_readable(Socket& socket, int status);
  void read_batches(Socket& socket, unsigned most);
  unsigned receive(Socket& socket);
  int receive_many(const Socket& socket);
  int receive_one(const Socket& socket);
  std::size_t accept_batch(const Socket& socket, unsigned received);
  bool accept_datagram(const Socket& socket, unsigned i, Datagram& datagram);
  bool is_own_address(const Peer& client) const;
  void answer_batch(Socket& socket, std::size_t accepted);
  std::size_t send(int fd, mmsghdr* messages, std::size_t count);
  static int send_some(int fd, mmsghdr* messages, std::size_t count);
  Socket* find(const ReplyTo& reply_to);

  uv_loop_t* loop_;
  WorkerCounters& counters_;
  const std::shared_ptr<ReachProbes> reach_probes_;
  QuerySink* sink_ = nullptr;
  std::vector<std::shared_ptr<Socket>> sockets_;  // by slot; null = free
  std::vector<std::uint32_t> generations_;        // by slot
  std::vector<SocketAddress> own_addresses_;
  int watched_ = UV_READABLE;  // the events of sockets that are not retired

  UdpBatch in_;
  unsigned in_used_ = UdpBatch::kSize;  // headers that the kernel may have written to
  bool in_has_control_ = false;
  std::array<Datagram, UdpBatch::kSize> datagrams_;
  std::array<std::uint8_t, UdpBatch::kSize> origin_;  // of datagrams_[i]: its place in in_
  std::array<mmsghdr, UdpBatch::kSize> out_;
  std::array<iovec, UdpBatch::kSize> out_vectors_;

  UdpBatch late_;
  std::array<int, UdpBatch::kSize> late_fds_;
  unsigned late_count_ = 0;
};

}  // namespace meshdns::dnsd
