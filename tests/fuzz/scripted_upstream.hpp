// SPDX-License-Identifier: Apache-2.0
// The upstreams of a ScriptedNetwork: numbers 0 to 2 speak UDP and TCP, 3 to 5 TLS.  They collect
// queries and answer them when and how a script says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dnsd/config/config.hpp"

namespace meshdns::fuzz {

struct Reply {
  enum class Kind : std::uint8_t {
    Answer,
    AnswerWithCookie,
    BadCookie,
    ForeignCookie,
    Truncated,
    NxDomain,
    ServFail,
    Refused,
    FormErrWithoutEdns,
    BareFormErr,  // a header alone
    WrongId,
    WrongName,
    LowerCase,
    Garbled,
    Cut,
    Empty,
  };
  static constexpr std::size_t kKinds = 16;

  Kind kind = Kind::Answer;
  bool in_pieces = false;  // over TCP: the rest follows with the next reply, or never
  std::uint8_t octet = 0;  // for Garbled: the position
};

class ScriptedUpstreams {
 public:
  ScriptedUpstreams();
  ~ScriptedUpstreams();
  ScriptedUpstreams(const ScriptedUpstreams&) = delete;
  ScriptedUpstreams& operator=(const ScriptedUpstreams&) = delete;

  static std::uint16_t port(std::size_t number);
  static dnsd::UpstreamServer server(std::size_t number);
  // Takes in what has been sent.  True if there was something.
  bool receive();
  // Answers a query that waits, if any does.
  void reply(std::size_t choice, const Reply& reply);
  // Answers all that came that way.
  enum class Over : std::uint8_t { Any, Datagrams, Connections };
  void reply_all(Over over, const Reply& reply);
  void end_connection(std::size_t choice);
  // Ends all connections, and the sockets of UDP: whoever sends there is told so.
  void end_all();
  void set_handshakes(bool wanted) { handshakes_ = wanted; }
  // Nobody has an open socket to here.
  bool is_deserted();

 private:
  struct Link;
  struct Query {
    std::weak_ptr<Link> link;
    std::vector<std::uint8_t> message;
  };
  bool receive(const std::shared_ptr<Link>& link);
  void take_frames(const std::shared_ptr<Link>& link);

  std::vector<std::shared_ptr<Link>> links_;
  std::vector<Query> queries_;
  bool handshakes_ = true;
};

}  // namespace meshdns::fuzz
