// SPDX-License-Identifier: Apache-2.0
// A TCP or TLS connection to an upstream, kept open and shared by many queries whose replies come
// in any order (RFC 7766, RFC 7858).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "resolver/forward/datagram_sockets.hpp"
#include "resolver/forward/lifetime.hpp"
#include "resolver/forward/random_pool.hpp"
#include "resolver/forward/reactor.hpp"
#include "resolver/forward/tls_client.hpp"
#include "resolver/forward/upstream_state.hpp"
#include "resolver/settings.hpp"

namespace meshdns::dnsd {

class Exchange;

// An upstream as its connections know it; shared with them, since they may outlive it by a moment.
struct UpstreamPeer {
  UpstreamServer server;
  std::shared_ptr<UpstreamState> state;
  std::unique_ptr<TlsClient> tls;  // null = plain
};

// The reactor's thread.  Its Upstream owns it; exchanges have a Weak of it, and it of them.
class StreamConnection final : public Retirable, private SocketListener {
 public:
  static constexpr std::size_t kMaxQueries = 100;  // queries pipelined (RFC 7766, 6.2.1.1)
  static constexpr Millis kIdleTime = 10'000;

  // Begins to connect.  An Error where that fails at once.  REQUIRES: reactor and random outlive
  // it.
  static SocketResult<Owned<StreamConnection>> open(Reactor& reactor, RandomPool& random,
                                                    const std::shared_ptr<UpstreamPeer>& peer);
  StreamConnection(Reactor& reactor, RandomPool& random, std::shared_ptr<UpstreamPeer> peer);

  // Returns whether another query can be put on it.
  bool is_usable() const;
  bool is_closed() const { return !watch_; }

  // Sends `query`, whose first two octets get an id of this connection; on_stream_* of `exchange`
  // follows unless forget() comes first or the exchange is retired, and never from inside.
  // REQUIRES: is_usable().
  std::uint16_t send(std::span<std::uint8_t> query, const Weak<Exchange>& exchange);
  // The exchange waits no more.  `unanswered`: it waited in vain.
  void forget(std::uint16_t id, bool unanswered);

  // Tells every exchange.
  void close(const SocketError& reason);

 private:
  ~StreamConnection() override;
  void on_retire() override;

  enum class State : std::uint8_t { Connecting, Handshake, Open };

  void on_socket(std::uint32_t events) override;

  bool finish_connect();
  bool advance_handshake();
  bool receive();
  bool open_records();
  bool flush();
  void take_messages();
  void update_events();

  Reactor& reactor_;
  RandomPool& random_;
  std::shared_ptr<UpstreamPeer> peer_;
  SocketWatch watch_;
  Timer idle_;
  State state_ = State::Connecting;
  std::unique_ptr<TlsSession> tls_;
  std::string out_;     // clear text not yet taken by socket or TLS
  std::string sealed_;  // TLS records not yet taken by the socket
  std::vector<std::uint8_t> in_;
  std::unordered_map<std::uint16_t, Weak<Exchange>> exchanges_;
  Millis last_received_ = 0;
  std::uint32_t strays_ = 0;  // messages that nobody waits for
  bool suspect_ = false;      // a query stayed unanswered and nothing came since: no new ones
};

}  // namespace meshdns::dnsd
