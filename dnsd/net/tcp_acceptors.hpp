// SPDX-License-Identifier: Apache-2.0
// The listening TCP sockets of one worker.  They accept clients as long as there are file
// descriptors to spare, and pause when there are none.
#pragma once

#include <uv.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "dnsd/net/counters.hpp"
#include "dnsd/net/listeners.hpp"
#include "registry/base/file_descriptor.hpp"
#include "registry/base/handle.hpp"
#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {

class AcceptListener {
 public:
  // A client has connected from `client` and `port`.  The connection ends if `fd` is not kept.
  virtual void on_accepted(FileDescriptor fd, const ListenSocket& listen, const IpAddress& client,
                           std::uint16_t port) = 0;
  // Closes the connection that has been idle longest.  False: none is idle.
  virtual bool close_longest_idle() = 0;

 protected:
  ~AcceptListener() = default;
};

// The worker's thread only, but for construction and add() before it runs.
class TcpAcceptors {
 public:
  // `reserved_files`: so many descriptors are left to others.  REQUIRES: counters and listener
  // outlive it; the loop runs on until the handles are closed.
  TcpAcceptors(uv_loop_t* loop, WorkerCounters& counters, std::uint32_t reserved_files,
               AcceptListener& listener);
  ~TcpAcceptors();
  TcpAcceptors(const TcpAcceptors&) = delete;
  TcpAcceptors& operator=(const TcpAcceptors&) = delete;

  // Serves `socket`; 0 or a libuv error.
  int add(std::shared_ptr<ListenSocket> socket);
  bool has(const ListenSocket& socket) const;
  std::vector<const ListenSocket*> sockets() const;
  // Accepts no more connections, until it is told to again.
  void stop_accepting();
  void accept_again();
  // Accepts the connections that wait already, or leaves them there, then closes the socket.
  void retire(const ListenSocket& socket, Waiting waiting);
  void close();

 private:
  struct Acceptor;

  void on_acceptable(Acceptor& acceptor, int status);
  void accept_waiting(Acceptor& acceptor);
  void take(FileDescriptor fd, const ListenSocket& listen, const sockaddr_storage& peer);
  void note_failure(int error);
  bool leave_reserve(FileDescriptor& fd);
  void pause();
  void resume();
  void watch();

  uv_loop_t* loop_;
  WorkerCounters& counters_;
  AcceptListener& listener_;
  const int max_accepted_fd_;
  std::vector<std::shared_ptr<Acceptor>> acceptors_;
  bool is_paused_ = false;
  bool is_stopped_ = false;
  loop::Timer pause_timer_;
};

}  // namespace meshdns::dnsd
