// SPDX-License-Identifier: Apache-2.0
#include "tests/resolver/scripted_server.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <set>

namespace meshdns::resolver {
namespace {

std::uint16_t get16(const std::uint8_t* at) {
  return static_cast<std::uint16_t>(at[0] << 8 | at[1]);
}

struct Connection {
  uv_tcp_t handle{};
  ScriptedServer* server = nullptr;
  std::uint16_t port = 0;
  Bytes received;
};

void close_connection(uv_handle_t* handle) {
  if (!uv_is_closing(handle))
    uv_close(handle, [](uv_handle_t* closed) { delete static_cast<Connection*>(closed->data); });
}

void allocate(uv_handle_t*, std::size_t, uv_buf_t* buffer) {
  static std::array<char, 65'536> storage;
  *buffer = uv_buf_init(storage.data(), storage.size());
}

struct BoundPair {
  int udp = -1;
  int tcp = -1;
  std::uint16_t port = 0;
};

// A port that is free for UDP may be another test's for TCP: then the next one is tried.
BoundPair bind_pair() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    sockaddr_in address{};
    uv_ip4_addr("127.0.0.1", 0, &address);
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    const int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(udp, generic, length) == 0 && getsockname(udp, generic, &length) == 0 &&
        bind(tcp, generic, length) == 0 && listen(tcp, 16) == 0)
      return {udp, tcp, ntohs(address.sin_port)};
    close(udp);
    close(tcp);
  }
  ADD_FAILURE() << "no port is free for both UDP and TCP";
  return {};
}

}  // namespace

struct ScriptedServer::Handles {
  uv_udp_t udp{};
  uv_tcp_t tcp{};
  ScriptedServer* server = nullptr;
  std::set<Connection*> connections;
  int open = 2;
};

ScriptedServer::ScriptedServer(uv_loop_t* loop, Script script)
    : script_(std::move(script)), handles_(new Handles) {
  handles_->server = this;
  const BoundPair bound = bind_pair();
  port_ = bound.port;
  uv_udp_init(loop, &handles_->udp);
  uv_tcp_init(loop, &handles_->tcp);
  handles_->udp.data = handles_->tcp.data = handles_;
  EXPECT_EQ(uv_udp_open(&handles_->udp, bound.udp), 0);
  EXPECT_EQ(uv_tcp_open(&handles_->tcp, bound.tcp), 0);
  uv_udp_recv_start(
      &handles_->udp, allocate,
      [](uv_udp_t* udp, ssize_t size, const uv_buf_t* buffer, const sockaddr* from, unsigned) {
        if (size <= 0 || from == nullptr) return;
        auto* server = static_cast<Handles*>(udp->data)->server;
        const auto* source = reinterpret_cast<const sockaddr_in*>(from);
        const sockaddr_in to = *source;
        const auto* data = reinterpret_cast<const std::uint8_t*>(buffer->base);
        for (Bytes& reply : server->respond(data, static_cast<std::size_t>(size),
                                            ntohs(source->sin_port), false)) {
          uv_buf_t out = uv_buf_init(reinterpret_cast<char*>(reply.data()),
                                     static_cast<unsigned>(reply.size()));
          uv_udp_try_send(udp, &out, 1, reinterpret_cast<const sockaddr*>(&to));
        }
      });
  EXPECT_EQ(uv_listen(reinterpret_cast<uv_stream_t*>(&handles_->tcp), 16,
                      [](uv_stream_t* listener, int) {
                        auto* handles = static_cast<Handles*>(listener->data);
                        auto* connection = new Connection;
                        connection->server = handles->server;
                        uv_tcp_init(listener->loop, &connection->handle);
                        connection->handle.data = connection;
                        uv_accept(listener, reinterpret_cast<uv_stream_t*>(&connection->handle));
                        handles->connections.insert(connection);
                        uv_read_start(
                            reinterpret_cast<uv_stream_t*>(&connection->handle), allocate,
                            [](uv_stream_t* stream, ssize_t size, const uv_buf_t* buffer) {
                              auto* self = static_cast<Connection*>(stream->data);
                              if (size < 0) {
                                self->server->handles_->connections.erase(self);
                                close_connection(reinterpret_cast<uv_handle_t*>(stream));
                                return;
                              }
                              self->received.insert(self->received.end(), buffer->base,
                                                    buffer->base + size);
                              self->server->on_tcp_data(stream);
                            });
                      }),
            0);
}

ScriptedServer::~ScriptedServer() {
  for (Connection* connection : handles_->connections)
    close_connection(reinterpret_cast<uv_handle_t*>(&connection->handle));
  const auto closed = [](uv_handle_t* handle) {
    auto* handles = static_cast<Handles*>(handle->data);
    if (--handles->open == 0) delete handles;
  };
  uv_close(reinterpret_cast<uv_handle_t*>(&handles_->udp), closed);
  uv_close(reinterpret_cast<uv_handle_t*>(&handles_->tcp), closed);
}

void ScriptedServer::on_tcp_data(uv_stream_t* stream) {
  auto* connection = static_cast<Connection*>(stream->data);
  Bytes& received = connection->received;
  while (received.size() >= 2 && received.size() >= std::size_t{2} + get16(received.data())) {
    const std::size_t length = get16(received.data());
    for (const Bytes& reply : respond(received.data() + 2, length, connection->port, true)) {
      Bytes framed;
      put16(framed, static_cast<std::uint16_t>(reply.size()));
      framed.insert(framed.end(), reply.begin(), reply.end());
      uv_buf_t out =
          uv_buf_init(reinterpret_cast<char*>(framed.data()), static_cast<unsigned>(framed.size()));
      uv_try_write(stream, &out, 1);
    }
    received.erase(received.begin(), received.begin() + static_cast<std::ptrdiff_t>(length + 2));
  }
}

std::vector<Bytes> ScriptedServer::respond(const std::uint8_t* data, std::size_t size,
                                           std::uint16_t port, bool tcp) {
  ReceivedQuery query;
  query.id = get16(data);
  query.recursion_desired = (data[2] & 1) != 0;
  query.source_port = port;
  query.tcp = tcp;
  std::size_t at = 12;
  while (at < size && data[at] != 0) {
    if (!query.qname.empty()) query.qname += '.';
    query.qname.append(reinterpret_cast<const char*>(data + at + 1), data[at]);
    at += data[at] + std::size_t{1};
  }
  query.qtype = get16(data + at + 1);
  at += 5;
  if (get16(data + 10) > 0 && at + 5 <= size) query.edns_payload = get16(data + at + 3);
  // The only option that queries have: its code, its length, the cookie.
  constexpr std::size_t kCookieAt = 15;  // in the OPT record
  if (query.edns_payload != 0 && at + kCookieAt <= size && get16(data + at + 11) == 10)
    query.cookie.assign(data + at + kCookieAt, data + size);
  queries_.push_back(query);
  return script_(query);
}

MessageBuilder reply_to(const ReceivedQuery& query) {
  return MessageBuilder(query.qname, query.qtype, query.id);
}

}  // namespace meshdns::resolver
