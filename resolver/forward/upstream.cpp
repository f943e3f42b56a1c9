// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/upstream.hpp"

#include <algorithm>

namespace meshdns::dnsd {

UpstreamCookies::UpstreamCookies(RandomPool& random) : client_(kClientSize, '\0') {
  random.fill(client_.data(), client_.size());
}

UpstreamCookies::Verdict UpstreamCookies::judge(std::string_view option, Millis now) const {
  if (option.empty()) return is_expected(now) ? Verdict::Missing : Verdict::Absent;
  return option.starts_with(client_) ? Verdict::Ours : Verdict::Foreign;
}

void UpstreamCookies::learn(std::string_view option) {
  failures_ = 0;
  if (option.size() > client_.size() && option.size() <= kMaxSize)
    server_ = option.substr(client_.size());
}

bool UpstreamCookies::note_stream_reply(std::string_view option, Millis now) {
  if (!option.starts_with(client_)) return lose(now);
  learn(option);
  return false;
}

bool UpstreamCookies::note_stream_failure(Millis now) {
  return ++failures_ >= kMaxFailures && lose(now);
}

bool UpstreamCookies::lose(Millis now) {
  const bool is_news = is_expected(now);
  failures_ = 0;
  server_.clear();
  trusting_until_ = now + kTrustTime;
  return is_news;
}

namespace {

constexpr std::size_t kMaxConnections = 8;

}  // namespace

Upstream::Upstream(Reactor& reactor, RandomPool& random, const UpstreamServer& server,
                   std::shared_ptr<UpstreamState> state, const UpstreamOptions& options)
    : Retirable(reactor.retired()),
      reactor_(reactor),
      random_(random),
      peer_(std::make_shared<UpstreamPeer>()),
      options_(options),
      sockets_(reactor, random, server.address),
      shares_(kMaxConnections * StreamConnection::kMaxQueries),
      cookies_(random) {
  peer_->server = server;
  peer_->state = std::move(state);
  if (server.transport != UpstreamTransport::Tls) return;
  auto tls = TlsClient::create(options.tls_ca_file, server.tls_name);
  if (tls) {
    peer_->tls = std::move(*tls);
  } else {
    tls_error_ = "TLS: " + tls.error().message;
    peer_->state->note_error(tls_error_);
  }
}

Upstream::~Upstream() = default;

void Upstream::on_retire() {
  sockets_.close();
  connections_.clear();
}

SocketResult<StreamConnection*> Upstream::connection() {
  if (closed_) return std::unexpected(SocketError{"shutting down"});
  if (!tls_error_.empty()) return std::unexpected(SocketError{tls_error_});
  std::erase_if(connections_, [](const auto& connection) { return connection->is_closed(); });
  for (const auto& connection : connections_)
    if (connection->is_usable()) return connection.get();
  if (connections_.size() >= kMaxConnections)
    return std::unexpected(SocketError{"too many queries over TCP", true});
  auto opened = StreamConnection::open(reactor_, random_, peer_);
  if (!opened) return std::unexpected(opened.error());
  connections_.push_back(std::move(*opened));
  return connections_.back().get();
}

void Upstream::close() {
  closed_ = true;
  sockets_.close();
  while (!connections_.empty()) {
    const auto connection = std::move(connections_.back());
    connections_.pop_back();
    connection->close({"shutting down"});
  }
}

}  // namespace meshdns::dnsd
