#include "dnsd/forward/upstream.hpp"

#include <algorithm>

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kMaxConnections = 8;
constexpr std::size_t kClientCookieSize = 8;

}  // namespace

Upstream::Upstream(Reactor& reactor, RandomPool& random, const UpstreamServer& server,
                   std::shared_ptr<UpstreamState> state, const UpstreamOptions& options)
    : reactor_(reactor),
      random_(random),
      peer_(std::make_shared<UpstreamPeer>()),
      options_(options),
      sockets_(reactor, random, server.address),
      client_cookie_(kClientCookieSize, '\0') {
  peer_->server = server;
  peer_->state = std::move(state);
  random_.fill(client_cookie_.data(), client_cookie_.size());
  if (server.transport != UpstreamTransport::Tls) return;
  auto tls = TlsClient::create(options.tls_ca_file, server.tls_name);
  if (tls) {
    peer_->tls = std::move(*tls);
  } else {
    tls_error_ = "TLS: " + tls.error().message;
    peer_->state->note_error(tls_error_);
  }
}

SocketResult<std::shared_ptr<StreamConnection>> Upstream::connection() {
  if (!tls_error_.empty()) return std::unexpected(SocketError{tls_error_});
  std::erase_if(connections_, [](const auto& connection) { return connection->is_closed(); });
  for (const auto& connection : connections_)
    if (connection->is_usable()) return connection;
  if (connections_.size() >= kMaxConnections)
    return std::unexpected(SocketError{"too many queries over TCP already", true});
  auto opened = StreamConnection::open(reactor_, random_, peer_);
  if (opened) connections_.push_back(*opened);
  return opened;
}

void Upstream::close() {
  sockets_.close();
  auto connections = std::move(connections_);
  connections_.clear();
  for (const auto& connection : connections) connection->close({"shutting down"});
}

}  // namespace meshdns::dnsd
