// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/stream_connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "resolver/forward/upstream.hpp"
#include "resolver/wire/octets.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kReadSize = std::size_t{16} << 10;
constexpr std::uint32_t kMaxStrays = 64;

}  // namespace

StreamConnection::StreamConnection(Reactor& reactor, RandomPool& random,
                                   std::shared_ptr<UpstreamPeer> peer)
    : Retirable(reactor.retired()),
      reactor_(reactor),
      random_(random),
      peer_(std::move(peer)),
      idle_(reactor, [this] {
        if (exchanges_.empty()) close({"idle"});
      }) {}

StreamConnection::~StreamConnection() = default;

void StreamConnection::on_retire() {
  watch_.reset();
  idle_.stop();
  exchanges_.clear();
}

SocketResult<Owned<StreamConnection>> StreamConnection::open(
    Reactor& reactor, RandomPool& random, const std::shared_ptr<UpstreamPeer>& peer) {
  sockaddr_storage address{};
  const auto size = peer->server.address.to_sockaddr(address);
  if (!size) return std::unexpected(SocketError{size.error().message});
  auto connection = make_owned<StreamConnection>(reactor, random, peer);
  const int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::unexpected(socket_error("no socket", errno));
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  connection->watch_ =
      SocketWatch(reactor, fd, EPOLLOUT, static_cast<SocketListener&>(*connection));
  if (!connection->watch_) return std::unexpected(socket_error("no socket", errno));
  if (fd > highest_upstream_descriptor()) return std::unexpected(too_many_sockets());
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), *size) != 0 && errno != EINPROGRESS)
    return std::unexpected(socket_error("TCP", errno));
  peer->state->counts.connections.fetch_add(1, std::memory_order_relaxed);
  connection->idle_.start(reactor.now() + kIdleTime);
  return connection;
}

bool StreamConnection::is_usable() const {
  return watch_ && !suspect_ && exchanges_.size() < kMaxQueries;
}

std::uint16_t StreamConnection::send(std::span<std::uint8_t> query,
                                     const Weak<Exchange>& exchange) {
  std::uint16_t id = random_.u16();
  while (exchanges_.contains(id)) ++id;
  exchanges_.emplace(id, exchange);
  wire::store_u16(query.data(), id);
  out_.push_back(static_cast<char>(query.size() >> 8));
  out_.push_back(static_cast<char>(query.size()));
  out_.append(reinterpret_cast<const char*>(query.data()), query.size());
  idle_.stop();
  // Sent when the loop says that the socket takes it: never calls back from here, and queries of
  // one round leave together.
  update_events();
  return id;
}

void StreamConnection::forget(std::uint16_t id, bool unanswered) {
  exchanges_.erase(id);
  if (unanswered && reactor_.now() > last_received_ + 1000) suspect_ = true;
  if (!exchanges_.empty() || !watch_) return;
  idle_.start(suspect_ ? reactor_.now() : reactor_.now() + kIdleTime);
}

void StreamConnection::close(const SocketError& reason) {
  if (!watch_) return;
  watch_.reset();
  idle_.stop();
  // An exchange may own what `reason` refers to.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const SocketError why = reason;
  while (!exchanges_.empty()) {
    const auto next = exchanges_.extract(exchanges_.begin());
    if (Exchange* const exchange = next.mapped().get())
      exchange->on_stream_broken(why, state_ == State::Open);
  }
}

void StreamConnection::on_socket(std::uint32_t events) {
  if (state_ == State::Connecting && !finish_connect()) return;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !receive()) return;
  if (state_ == State::Handshake && !advance_handshake()) return;
  if (!flush()) return;
  take_messages();
  if (!is_closed()) update_events();
}

bool StreamConnection::finish_connect() {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(watch_.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    close(socket_error("TCP", error));
    return false;
  }
  state_ = peer_->tls != nullptr ? State::Handshake : State::Open;
  if (peer_->tls != nullptr) tls_ = peer_->tls->start();
  return true;
}

bool StreamConnection::advance_handshake() {
  switch (tls_->handshake()) {
    case TlsSession::Progress::Failed:
      close({"TLS: " + tls_->error()});
      return false;
    case TlsSession::Progress::Done:
      state_ = State::Open;
      if (tls_->is_resumed()) peer_->state->counts.resumed.fetch_add(1, std::memory_order_relaxed);
      break;
    case TlsSession::Progress::NeedsMore:
      break;
  }
  return true;
}

bool StreamConnection::receive() {
  std::array<std::uint8_t, kReadSize> octets;
  const ssize_t got = recv(watch_.fd(), octets.data(), octets.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) {
    const SocketError reason =
        got == 0 ? SocketError{"connection closed by the upstream"} : socket_error("TCP", errno);
    take_messages();
    close(reason);
    return false;
  }
  last_received_ = reactor_.now();
  const std::span<const std::uint8_t> all(octets.data(), static_cast<std::size_t>(got));
  if (!tls_) {
    in_.insert(in_.end(), all.begin(), all.end());
    return true;
  }
  tls_->feed(all);
  if (state_ != State::Open) return true;
  return open_records();
}

bool StreamConnection::open_records() {
  std::array<std::uint8_t, kReadSize> text;
  while (true) {
    std::size_t size = 0;
    const TlsSession::Progress progress = tls_->read(text, size);
    if (progress == TlsSession::Progress::NeedsMore) return true;
    if (progress == TlsSession::Progress::Failed) {
      take_messages();
      close({"TLS: " + tls_->error()});
      return false;
    }
    in_.insert(in_.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size));
  }
}

bool StreamConnection::flush() {
  std::string& pending = tls_ ? sealed_ : out_;
  if (tls_) {
    if (state_ == State::Open) {
      // Session tickets and data may have come with the end of the handshake.
      if (!open_records()) return false;
      if (!out_.empty() && !tls_->write(out_)) {
        close({"TLS: " + tls_->error()});
        return false;
      }
      out_.clear();
    }
    tls_->drain(sealed_);
  }
  while (!pending.empty()) {
    const ssize_t sent = ::send(watch_.fd(), pending.data(), pending.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return true;
    if (sent < 0) {
      close(socket_error("TCP", errno));
      return false;
    }
    pending.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

void StreamConnection::take_messages() {
  std::size_t at = 0;
  while (!is_closed() && in_.size() - at >= 2) {
    const std::size_t size = wire::load_u16(in_.data() + at);
    if (in_.size() - at - 2 < size) break;
    // An exchange may close this connection; the octets stay until the end of this function.
    const std::span<const std::uint8_t> message(in_.data() + at + 2, size);
    at += 2 + size;
    const auto waiting = size >= wire::kHeaderSize ? exchanges_.find(wire::load_u16(message.data()))
                                                   : exchanges_.end();
    Exchange* const exchange = waiting != exchanges_.end() ? waiting->second.get() : nullptr;
    if (exchange == nullptr || !exchange->on_stream_message(message)) {
      peer_->state->counts.mismatched.fetch_add(1, std::memory_order_relaxed);
      if (++strays_ > kMaxStrays) return close({"too many unexpected messages"});
    }
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(at));
}

void StreamConnection::update_events() {
  const bool writing =
      state_ == State::Connecting || !sealed_.empty() || (state_ == State::Open && !out_.empty());
  watch_.set_events(EPOLLIN | (writing ? std::uint32_t{EPOLLOUT} : 0u));
}

}  // namespace meshdns::dnsd
