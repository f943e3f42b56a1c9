// SPDX-License-Identifier: Apache-2.0
// One worker's TCP listeners and connections (RFC 7766): pipelined queries, replies in any order,
// the answers of one read in one write.  Connections, queries and bytes are bounded.
//
// Connections are epoll handles of libuv with our own read and write: the replies to all queries of
// one read are written side by side into one scratch buffer of the worker and leave by one send(),
// and a connection at rest holds no buffer at all.
#pragma once

#include <uv.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dnsd/net/counters.hpp"
#include "dnsd/net/listeners.hpp"
#include "dnsd/net/query_sink.hpp"
#include "dnsd/net/tcp_acceptors.hpp"
#include "dnsd/net/tcp_budget.hpp"
#include "registry/base/file_descriptor.hpp"

namespace meshdns::dnsd {

struct TcpConnection;

// The worker's thread only, but for construction and add() before it runs.
class TcpServer final : private AcceptListener {
 public:
  // `worker` is its name in the budget.
  TcpServer(uv_loop_t* loop, WorkerCounters& counters, std::shared_ptr<TcpBudget> budget,
            unsigned worker);
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  void set_sink(QuerySink* sink) { sink_ = sink; }

  // Serves `socket`; 0 or a libuv error.
  int add(std::shared_ptr<ListenSocket> socket) { return acceptors_.add(std::move(socket)); }
  bool has(const ListenSocket& socket) const { return acceptors_.has(socket); }
  std::vector<const ListenSocket*> sockets() const { return acceptors_.sockets(); }
  // As those of TcpAcceptors.  Connections stay.
  void stop_accepting() { acceptors_.stop_accepting(); }
  void accept_again() { acceptors_.accept_again(); }
  void retire(const ListenSocket& socket, Waiting waiting) { acceptors_.retire(socket, waiting); }

  // Every connection answers what it has asked and is closed as soon as it has.  One that has asked
  // nothing yet was made for a query that is on its way: it is waited for, but not long.
  static constexpr std::chrono::milliseconds kFirstQueryGrace{250};
  void drain();
  // As drain(), but a connection may ask on until it is idle for kIdleGrace, or kLongestGrace is
  // over: for the end of a process that another one has replaced, where there is no hurry.
  static constexpr std::chrono::milliseconds kIdleGrace{250};
  static constexpr std::chrono::milliseconds kLongestGrace{1'500};
  void drain_patiently();
  bool has_connections() const { return open_ > 0; }
  void close_all();

  // The budget wants this connection closed, to make room for another client's; one that has become
  // busy meanwhile stays.
  void make_room(const TcpBudget::ConnectionId& id);

  void send_later(const ReplyTo& reply_to, std::span<const std::uint8_t> message);
  void drop(const ReplyTo& reply_to);
  void flush();
  // Closes connections over their time limits.  REQUIRES: a call a few times a second.
  void sweep();
  std::chrono::milliseconds idle_timeout() const { return budget_->idle_timeout_at(limits_); }

 private:
  using Connection = TcpConnection;

  void on_accepted(FileDescriptor fd, const ListenSocket& listen, const IpAddress& client,
                   std::uint16_t port) override;
  bool close_longest_idle() override;
  void on_ready(Connection& c, int status, int events);

  void note_rest(Connection& c);

  bool read(Connection& c);
  bool read_into_scratch(Connection& c);
  bool read_into_input(Connection& c);
  bool take_queries(Connection& c, std::span<const std::uint8_t> octets, std::size_t& taken);
  void answer(Connection& c, std::span<const std::uint8_t> query);
  bool write_replies(Connection& c);
  bool write_output(Connection& c);
  // Goes on after anything changed: takes queries that waited, sets the events to poll for, and
  // closes the connection if it is done.  The connection may be closed after this.
  void proceed(Connection& c);
  void watch(Connection& c);
  // Counts what the connection holds; while all hold too much, those close that have stalled
  // longest, this one perhaps among them.
  void weigh(Connection& c);
  Connection* longest_stalled() const;
  bool may_take_query(const Connection& c) const;
  bool is_done(const Connection& c) const;
  bool is_idle(const Connection& c) const;
  bool may_make_room(const Connection& c) const;
  void check_limits_of_time(Connection& c);

  Connection* find(std::uint32_t slot, std::uint32_t generation);
  Connection* find(const ReplyTo& reply_to) { return find(reply_to.slot, reply_to.generation); }
  void mark_dirty(Connection& c);
  bool is_left_behind(const Connection& c) const;
  void begin_to_drain(std::chrono::milliseconds grace);
  void link_newest(Connection& c);
  void unlink(Connection& c);
  void close(Connection& c);

  uv_loop_t* loop_;
  WorkerCounters& counters_;
  std::shared_ptr<TcpBudget> budget_;
  const unsigned worker_;
  TcpLimits limits_;  // a copy, renewed by sweep()
  QuerySink* sink_ = nullptr;
  bool draining_ = false;
  // Loop times, once draining: a connection without a query is not waited for after `grace_until_`.
  // Neither is one with queries, if they are waited for at all (is_patient_).
  std::uint64_t draining_since_ = 0;
  std::uint64_t grace_until_ = 0;
  bool is_patient_ = false;

  TcpAcceptors acceptors_;

  struct Slot {
    Connection* connection = nullptr;
    std::uint32_t generation = 0;
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::size_t open_ = 0;
  std::size_t held_ = 0;  // octets, by all connections
  // By last activity, the longest idle first.
  Connection* oldest_ = nullptr;
  Connection* newest_ = nullptr;
  std::vector<ReplyTo> dirty_;  // connections with late replies to write

  std::unique_ptr<std::uint8_t[]> read_buffer_;
  std::unique_ptr<std::uint8_t[]> scratch_;  // replies of the read at hand
  std::size_t scratch_used_ = 0;
};

}  // namespace meshdns::dnsd
