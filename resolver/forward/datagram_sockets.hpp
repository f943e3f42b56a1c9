// SPDX-License-Identifier: Apache-2.0
// The UDP sockets of one worker towards one upstream.
//
// A query goes out from a port that no other query has while it is under way, and up to
// kFreshPerSecond queries a second from one that was never used before.  A socket costs as much as
// all the rest of a query, though: what is beyond that rate takes one by chance of those whose
// query has been answered, so that under load a port serves some queries, in no order, and is
// closed within seconds.  For a forger that is hardly easier: he must hit upon one of many open
// ports, and the ID, and the case of the name, all within the one round trip.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/socket_address.hpp"
#include "resolver/forward/random_pool.hpp"
#include "resolver/forward/reactor.hpp"

namespace meshdns::dnsd {

// Why a socket could not be had or used.  A shortage of our own (descriptors, ports, memory, a
// limit that we set) says nothing of the upstream: it must neither be held against it nor be
// remembered as the name's failure.
struct SocketError {
  std::string message;
  bool is_shortage = false;
};

template <typename T>
using SocketResult = std::expected<T, SocketError>;

// `error`: an errno.
SocketError socket_error(std::string_view what, int error);

// Returns whether an errno says that this host, not the peer or the path, lacks something.
bool is_shortage(int error);

// The highest descriptor that a socket towards an upstream may have: its number says how full the
// table is, and the descriptors above are reserved for files and the admin endpoint.
int highest_upstream_descriptor();

// The error for a socket above that descriptor.
SocketError too_many_sockets();

// The reactor's thread.
class DatagramSockets final : private SocketListener {
 public:
  static constexpr std::size_t kFreshPerSecond = 2'000;
  static constexpr std::size_t kFreshAtOnce = 4'000;  // saved up in calmer times
  // Fewer are no choice: then all are fresh.
  static constexpr std::size_t kMinChoice = 256;
  static constexpr std::size_t kMaxIdle = 1'024;

  // Returns the number of idle sockets that each worker may keep: all together take a sixteenth of
  // the descriptors that the process may have.
  static std::size_t idle_limit();

  // REQUIRES: reactor and random outlive it.
  DatagramSockets(Reactor& reactor, RandomPool& random, const SocketAddress& peer,
                  std::size_t max_idle = idle_limit());

  // A socket connected to the upstream, which tells `listener` what comes.  One that served before,
  // where another cannot be had and there are enough to choose from.
  SocketResult<SocketWatch> take(SocketListener& listener);
  // Takes a socket back whose query has been answered, if it may serve another; closes it
  // otherwise.
  void give_back(SocketWatch socket);
  void close() {
    idle_.clear();
    timer_.stop();
  }

 private:
  void on_socket(std::uint32_t events) override;
  void close_unused();

  bool may_be_fresh();
  SocketResult<SocketWatch> open(SocketListener& listener);

  Reactor& reactor_;
  RandomPool& random_;
  const SocketAddress peer_;
  const std::size_t max_idle_;
  const int highest_descriptor_ = highest_upstream_descriptor();
  std::vector<SocketWatch> idle_;
  Timer timer_;
  bool used_again_ = false;  // an idle one was, since the timer was started
  std::size_t fresh_left_ = kFreshAtOnce;
  Millis counted_at_ = 0;
};

}  // namespace meshdns::dnsd
