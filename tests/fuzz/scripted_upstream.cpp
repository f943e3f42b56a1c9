// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/scripted_upstream.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "tests/fuzz/scripted_network.hpp"
#include "tests/upstream/scripted_upstream.hpp"
#include "tests/upstream/tls_end.hpp"

namespace meshdns::fuzz {
namespace {

using dnsd::test::TlsEnd;
using dnsd::test::UpstreamRule;
using dnsd::test::UpstreamZone;
using Octets = std::vector<std::uint8_t>;

constexpr std::uint16_t kFirstPort = 5300;
constexpr std::size_t kFirstTls = 3;
constexpr std::size_t kMaxQueries = 256;

Octets make_reply(const Octets& query, const Reply& reply, bool tcp) {
  using Kind = Reply::Kind;
  static const UpstreamZone zone({"*. 5 A 192.0.2.32", "*. 5 AAAA 2001:db8::32"});
  const auto with = [&](const UpstreamRule& rule) {
    return dnsd::test::scripted_reply(query, rule, zone, tcp);
  };
  switch (reply.kind) {
    case Kind::Answer:
      return with({});
    case Kind::AnswerWithCookie:
      return with({.cookie = true});
    case Kind::BadCookie:
      return with({.rcode = "BADCOOKIE", .cookie = true});
    case Kind::ForeignCookie:
      return with({.forge = "strange_cookie"});
    case Kind::Truncated:
      return with({.truncate = true});
    case Kind::NxDomain:
      return with({.rcode = "NXDOMAIN"});
    case Kind::ServFail:
      return with({.rcode = "SERVFAIL"});
    case Kind::Refused:
      return with({.rcode = "REFUSED"});
    case Kind::FormErrWithoutEdns:
      return with({.formerr_on_edns = true});
    case Kind::BareFormErr:
      return with({.formerr_on_edns = true, .bare = true});
    case Kind::WrongId:
      return with({.forge = "wrong_id"});
    case Kind::WrongName:
      return with({.forge = "wrong_name"});
    case Kind::LowerCase:
      return with({.spelling = UpstreamRule::Spelling::Lower});
    case Kind::Garbled: {
      Octets garbled = with({});
      garbled[reply.octet % garbled.size()] ^= 0x41;
      return garbled;
    }
    case Kind::Cut:
      return with({.cut = true});
    case Kind::Empty:
      break;
  }
  return {};
}

}  // namespace

struct ScriptedUpstreams::Link {
  explicit Link(const ScriptedNetwork::Peer& peer) : fd(peer.fd), is_stream(peer.is_stream) {
    if (peer.port >= kFirstPort + kFirstTls) tls = std::make_unique<TlsEnd>();
  }
  ~Link() { end(); }
  void end() {
    if (fd >= 0) ScriptedNetwork::get().close_peer(std::exchange(fd, -1));
  }
  void write(const Octets& octets) const {
    if (fd >= 0 && (!is_stream || !octets.empty()))
      ::send(fd, octets.data(), octets.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  void send(const Octets& message, bool in_pieces) {
    if (!is_stream) return write(message);
    Octets framed = std::exchange(held, {});
    framed.push_back(static_cast<std::uint8_t>(message.size() >> 8));
    framed.push_back(static_cast<std::uint8_t>(message.size()));
    framed.insert(framed.end(), message.begin(), message.end());
    if (in_pieces) {
      const auto half = framed.begin() + static_cast<std::ptrdiff_t>(framed.size() / 2);
      held.assign(half, framed.end());
      framed.erase(half, framed.end());
    }
    if (tls == nullptr) return write(framed);
    tls->write(framed);
    write(tls->take_sealed());
  }

  int fd;  // -1 = ended
  const bool is_stream;
  std::unique_ptr<TlsEnd> tls;
  Octets in;
  Octets held;
};

ScriptedUpstreams::ScriptedUpstreams() = default;
ScriptedUpstreams::~ScriptedUpstreams() = default;

std::uint16_t ScriptedUpstreams::port(std::size_t number) {
  return static_cast<std::uint16_t>(kFirstPort + number);
}

dnsd::UpstreamServer ScriptedUpstreams::server(std::size_t number) {
  const std::string address = "127.0.0.1:" + std::to_string(port(number));
  return number < kFirstTls ? *dnsd::parse_upstream_server(address)
                            : *dnsd::parse_upstream_server("tls://" + address + "#dns.example.org");
}

bool ScriptedUpstreams::receive() {
  bool some = false;
  for (const auto& peer : ScriptedNetwork::get().accepted()) {
    links_.push_back(std::make_shared<Link>(peer));
    some = true;
  }
  for (const auto& link : links_) some |= receive(link);
  std::erase_if(links_, [](const auto& link) { return link->fd < 0; });
  std::erase_if(queries_, [](const Query& query) { return query.link.expired(); });
  return some;
}

bool ScriptedUpstreams::receive(const std::shared_ptr<Link>& link) {
  bool some = false;
  std::array<std::uint8_t, 4096> octets;
  while (link->fd >= 0) {
    const ssize_t got = ::recv(link->fd, octets.data(), octets.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) {
      if (ScriptedNetwork::get().is_left(link->fd)) link->end();
      break;
    }
    some = true;
    if (got <= 0) {
      link->end();
      break;
    }
    if (!link->is_stream) {
      queries_.push_back({link, Octets(octets.begin(), octets.begin() + got)});
    } else if (link->tls == nullptr) {
      link->in.insert(link->in.end(), octets.begin(), octets.begin() + got);
    } else {
      link->tls->put({octets.data(), static_cast<std::size_t>(got)});
    }
  }
  if (link->tls != nullptr && handshakes_ && link->fd >= 0) {
    some |= link->tls->read(link->in);
    link->write(link->tls->take_sealed());
  }
  take_frames(link);
  if (queries_.size() > kMaxQueries)
    queries_.erase(queries_.begin(), queries_.end() - static_cast<std::ptrdiff_t>(kMaxQueries));
  return some;
}

void ScriptedUpstreams::take_frames(const std::shared_ptr<Link>& link) {
  Octets& in = link->in;
  while (in.size() >= 2) {
    const std::size_t size = std::size_t{in[0]} << 8 | in[1];
    if (in.size() - 2 < size) return;
    const auto end = in.begin() + 2 + static_cast<std::ptrdiff_t>(size);
    queries_.push_back({link, Octets(in.begin() + 2, end)});
    in.erase(in.begin(), end);
  }
}

void ScriptedUpstreams::reply(std::size_t choice, const Reply& reply) {
  if (queries_.empty()) return;
  const auto chosen = queries_.begin() + static_cast<std::ptrdiff_t>(choice % queries_.size());
  const Query query = std::move(*chosen);
  queries_.erase(chosen);
  if (const auto link = query.link.lock())
    link->send(make_reply(query.message, reply, link->is_stream), reply.in_pieces);
}

void ScriptedUpstreams::reply_all(Over over, const Reply& reply) {
  for (const Query& query : std::exchange(queries_, {})) {
    const auto link = query.link.lock();
    if (!link) continue;
    if (over == Over::Any || link->is_stream == (over == Over::Connections))
      link->send(make_reply(query.message, reply, link->is_stream), reply.in_pieces);
    else
      queries_.push_back(query);
  }
}

void ScriptedUpstreams::end_connection(std::size_t choice) {
  if (!links_.empty()) links_[choice % links_.size()]->end();
}

void ScriptedUpstreams::end_all() {
  for (const auto& link : links_) link->end();
}

bool ScriptedUpstreams::is_deserted() {
  while (receive()) {
  }
  return links_.empty() && ScriptedNetwork::get().open_sockets() == 0;
}

}  // namespace meshdns::fuzz
