// SPDX-License-Identifier: Apache-2.0
// One upstream as one worker sees it: how to ask it, over UDP with a port and id for each query
// that nobody can guess, over TCP where that is needed, or over TLS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "resolver/cache/cached_message.hpp"
#include "resolver/forward/datagram_sockets.hpp"
#include "resolver/forward/lifetime.hpp"
#include "resolver/forward/random_pool.hpp"
#include "resolver/forward/reactor.hpp"
#include "resolver/forward/stream_connection.hpp"
#include "resolver/forward/upstream_state.hpp"
#include "resolver/settings.hpp"
#include "resolver/wire/response_message.hpp"

namespace meshdns::dnsd {

// The cookies between one worker and one upstream (RFC 7873): whoever forges a reply over UDP does
// not see the query, and so does not know the cookie in it.
//
// Once the upstream has shown that it knows cookies, a reply over UDP without ours is not believed
// (section 5.3): the question is asked over TCP, where a forger has no chance and the upstream
// shows whether it still knows them.  Where it does not, or where it has no TCP either, replies
// without are believed again for a while, so that an upstream that has lost its cookies is not
// lost.
// The reactor's thread.
class UpstreamCookies {
 public:
  static constexpr std::size_t kClientSize = 8;
  static constexpr std::size_t kMaxSize = 40;
  // Time for which replies without a cookie are accepted after the upstream lost its cookies.
  static constexpr Millis kTrustTime = 900'000;  // 15 min
  // Questions in a row with replies without a cookie and failed TCP, before the cookies count as
  // lost.
  static constexpr unsigned kMaxFailures = 3;

  explicit UpstreamCookies(RandomPool& random);

  // The option for a query: ours, fixed, and the upstream's as last learned.
  std::string option() const { return client_ + server_; }

  enum class Verdict : std::uint8_t {
    Ours,     // it echoes our cookie
    Foreign,  // it has another client's: to be ignored (section 5.3)
    Absent,   // it has none, and none was to be expected
    Missing,  // it has none where one was to be expected: not to be believed over UDP
  };
  // `option`: of a reply to a query that had our option; empty = it has none.
  Verdict judge(std::string_view option, Millis now) const;
  bool is_expected(Millis now) const { return !server_.empty() && now >= trusting_until_; }

  // A reply whose option is Ours.
  void learn(std::string_view option);
  // After a reply over UDP that lacked a cookie: the reply over TCP.  True: the upstream has lost
  // its cookies, which is news.
  bool note_stream_reply(std::string_view option, Millis now);
  // After a reply over UDP that lacked a cookie: TCP failed.  As above.
  bool note_stream_failure(Millis now);

 private:
  bool lose(Millis now);

  std::string client_;
  std::string server_;  // empty = not known
  Millis trusting_until_ = 0;
  unsigned failures_ = 0;
};

// Divides the places on the connections to an upstream among clients, so that none can take them
// all: a client gets another place only while it holds fewer than are free.  One client alone gets
// half of all places, each of two a third, and a new client always finds some.
// The reactor's thread.
class ClientShares {
 public:
  explicit ClientShares(std::size_t places) : free_(places) {}

  // A place, given back at the end.  REQUIRES: the ClientShares outlives it.
  class Place {
   public:
    Place() = default;  // none
    Place(Place&& other) noexcept { swap(other); }
    Place& operator=(Place&& other) noexcept {
      Place(std::move(other)).swap(*this);
      return *this;
    }
    ~Place() {
      if (shares_ != nullptr) shares_->give_back(client_);
    }
    explicit operator bool() const { return shares_ != nullptr; }

   private:
    friend class ClientShares;
    Place(ClientShares& shares, const IpAddress& client) : shares_(&shares), client_(client) {}
    void swap(Place& other) noexcept {
      std::swap(shares_, other.shares_);
      std::swap(client_, other.client_);
    }
    ClientShares* shares_ = nullptr;
    IpAddress client_;
  };

  // `client`: see limit_key_of().  None where its share is in use.
  Place take(const IpAddress& client) {
    const auto held = held_.find(client);
    if ((held == held_.end() ? 0 : held->second) >= free_) return {};
    --free_;
    held == held_.end() ? void(held_.emplace(client, 1)) : void(++held->second);
    return {*this, client};
  }
  std::size_t free() const { return free_; }

 private:
  void give_back(const IpAddress& client) {
    ++free_;
    const auto held = held_.find(client);
    if (--held->second == 0) held_.erase(held);
  }

  std::size_t free_;
  std::unordered_map<IpAddress, std::size_t> held_;
};

struct UpstreamOptions {
  bool case_randomization = true;
  bool cookies = true;
  std::string tls_ca_file;
  friend bool operator==(const UpstreamOptions&, const UpstreamOptions&) = default;
};

// The reactor's thread.  Shared by the groups that name it and the exchanges that ask it.
class Upstream final : public Retirable {
 public:
  // REQUIRES: reactor and random outlive it.  With TLS that cannot be set up (an unreadable file of
  // authorities), every query fails with that reason.
  Upstream(Reactor& reactor, RandomPool& random, const UpstreamServer& server,
           std::shared_ptr<UpstreamState> state, const UpstreamOptions& options);

  const UpstreamServer& server() const { return peer_->server; }
  const UpstreamOptions& options() const { return options_; }
  UpstreamState& state() const { return *peer_->state; }
  const std::string& name() const { return peer_->state->name(); }

  // A connection with room for a query: one that is open, or a new one.  Valid for this turn.
  SocketResult<StreamConnection*> connection();
  // The places that each client uses on all connections.
  ClientShares& shares() { return shares_; }
  // Breaks all connections and opens no more.
  void close();

 private:
  friend class Exchange;

  ~Upstream() override;
  void on_retire() override;

  Reactor& reactor_;
  RandomPool& random_;
  std::shared_ptr<UpstreamPeer> peer_;
  UpstreamOptions options_;
  DatagramSockets sockets_;
  std::string tls_error_;
  std::vector<Owned<StreamConnection>> connections_;
  ClientShares shares_;
  UpstreamCookies cookies_;
  bool closed_ = false;
};

// A question for an upstream.  REQUIRES: it stays until the exchanges that ask it are retired.
struct UpstreamQuestion {
  wire::Question question;
  bool dnssec_ok = false;
  bool checking_disabled = false;
  bool recursion_desired = true;
  IpAddress client;       // whose share of the connections it takes: see limit_key_of()
  bool is_probe = false;  // the rcode of its reply says nothing about clients' questions
};

enum class ExchangeFault : std::uint8_t {
  Unreachable,  // ICMP, a refused or cut connection
  Malformed,    // what came is no message
  Shortage,  // it was not asked: we lack a socket, a port or memory, or a limit of ours is reached
  Limit,     // it was not asked once more: the question has had all of its packets
};

class Exchange;

// One of the first two is called, once, never from inside Exchange::start.
class ExchangeListener : public Retirable {
 public:
  // A reply to the question, whatever its rcode.
  virtual void on_reply(Exchange& exchange, const wire::ResponseMessage& response) = 0;
  virtual void on_fault(Exchange& exchange, ExchangeFault fault, const std::string& what) = 0;
  // The upstream is alive and the question is asked once more in another way (over TCP, without
  // options or EDNS): to be given more time.
  virtual void on_progress(Exchange& exchange) = 0;
  // The upstream had been doubted or down until this reply; one of the others follows.
  virtual void on_recovery() = 0;
  // Returns whether the question may be asked once more.
  virtual bool may_send() const = 0;

 protected:
  using Retirable::Retirable;
  ~ExchangeListener() override = default;
};

// One question to one upstream, from the first query sent to the reply that can be used: over UDP,
// again over TCP when truncated or when forged replies are coming in, again without options,
// without EDNS or in lower case where the upstream needs that.  To let go of it is how to stop.
class Exchange final : public Recycled<Exchange>, public Retirable, private SocketListener {
 public:
  // Datagrams that are not the reply before the question is asked over TCP (RFC 5452, section 9.3).
  static constexpr std::uint32_t kMaxMismatches = 8;

  Exchange(std::shared_ptr<Upstream> upstream, const UpstreamQuestion& question,
           Weak<ExchangeListener> listener);

  // Sends the first query.  An Error instead of any call to the listener.
  SocketResult<void> start();

  Upstream& upstream() const { return *upstream_; }
  // The name as it was last sent, odd case and all.
  std::string_view sent_name() const { return sent_name_; }
  Millis sent_at() const { return sent_at_; }
  std::uint32_t packets() const { return packets_; }
  void note_timeout() { unanswered_ = true; }
  // False: what was last to be sent was lost here, since the system's buffers are full.
  bool was_sent() const { return sent_; }
  // Says how the reply came.
  Carrier carrier() const { return carrier_; }
  // Something came from the upstream, be it only that the answer is too long for UDP.
  bool has_replied() const { return replied_; }

  // Called by its connection: a message with the id of its query.  False: it does not answer the
  // question, keep waiting.
  bool on_stream_message(std::span<const std::uint8_t> message);
  // The connection is closed; nothing more comes.  `was_open`: the upstream had accepted it, and
  // may answer on another (RFC 7766, section 6.2.4).
  void on_stream_broken(const SocketError& reason, bool was_open);

 private:
  ~Exchange() override;
  void on_retire() override;

  void on_socket(std::uint32_t events) override;

  SocketResult<void> send_datagram();
  SocketResult<void> send_on_stream();
  std::size_t build(std::span<std::uint8_t> buffer, std::uint16_t id, bool stream);
  void spell_name();
  bool on_mismatch(std::span<const std::uint8_t> datagram, bool case_differs);
  void on_response(std::span<const std::uint8_t> message, bool stream);
  bool check_cookie(const wire::ResponseMessage& response, std::span<const std::uint8_t> message,
                    bool stream);
  void ask_for_cookie();
  void note_missing_cookie_lost();
  bool ask_with_new_cookie(const wire::ResponseMessage& response);
  bool ask_with_less(const wire::ResponseMessage& response, bool stream);
  void learn(const wire::ResponseMessage& response, bool stream);
  void again(SocketResult<void> (Exchange::*send)());
  void break_off(const SocketError& error);
  void fault(ExchangeFault kind, const std::string& what);
  void leave_stream();
  std::uint32_t rtt_us() const;

  const std::shared_ptr<Upstream> upstream_;
  const UpstreamQuestion& question_;
  Weak<ExchangeListener> listener_;

  SocketWatch watch_;
  Weak<StreamConnection> stream_;
  ClientShares::Place place_;  // on stream_
  std::string sent_name_;
  Millis sent_at_ = 0;
  std::uint64_t sent_at_ns_ = 0;
  std::uint32_t packets_ = 0;
  std::uint32_t mismatches_ = 0;
  std::uint16_t id_ = 0;
  bool odd_case_ = false;  // 0x20 is used
  bool edns_ = true;
  bool options_ = true;            // EDNS may have options
  bool plain_again_ = false;       // asked again in lower case
  bool no_options_again_ = false;  // asked again without options
  bool no_edns_again_ = false;     // asked again without EDNS
  bool cookie_again_ = false;      // asked again with the cookie just learned
  bool cookie_sent_ = false;
  bool options_sent_ = false;
  bool cookie_missing_ = false;  // asked over TCP, since a reply over UDP lacked a cookie
  bool stream_again_ = false;    // sent again after a connection broke
  bool sent_ = false;
  bool unanswered_ = false;
  bool replied_ = false;
  Carrier carrier_ = Carrier::Unknown;
};

}  // namespace meshdns::dnsd
