// SPDX-License-Identifier: Apache-2.0
// Requests, responses and streams of HttpServer.
#include <poll.h>

#include <algorithm>
#include <utility>

#include "dnsd/admin/http_request.hpp"
#include "dnsd/admin/http_server_impl.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kStreamPiece = std::size_t{32} << 10;
// The time that the end of the server waits for the clients of streams to read the last bytes.
constexpr int kFlushTurns = 20;
constexpr int kFlushTurnMs = 10;

// The methods of a path, as the header Allow lists them.
std::string allowed_methods(const HttpRoute& route) {
  std::string methods = route.get || route.status ? "GET, HEAD" : "";
  if (route.post) methods += methods.empty() ? "POST" : ", POST";
  return methods;
}

}  // namespace

HttpResponse HttpServer::Impl::busy() {
  return {503, "text/plain", "the daemon is busy; try again in a few seconds\n"};
}

HttpResponse HttpServer::Impl::unauthorized() {
  return {.status = 401,
          .body = "this page needs a user name and a password\n",
          .challenge = R"(Basic realm="meshdns", charset="UTF-8")"};
}

// ---- what libmicrohttpd calls

void HttpServer::Impl::on_connection(void* self, MHD_Connection* connection, void**,
                                     MHD_ConnectionNotificationCode what) {
  auto* const server = static_cast<Impl*>(self);
  if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
    server->connections_.erase(connection);
    return;
  }
  const MHD_ConnectionInfo* info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  Connection& state = server->connections_[connection];
  state.fd = info->connect_fd;
  info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  state.peer = peer_of(info->client_addr);
  // The one of now, so that it lives as long as the session.
  if (server->certificate_) {
    state.certificate = server->certificate_;
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    state.certificate->attach_to(info->tls_session);
  }
  server->begin_phase(state, Phase::Reading);
}

// The next request of the connection may begin.
void HttpServer::Impl::on_completed(void* self, MHD_Connection* connection, void**,
                                    MHD_RequestTerminationCode) {
  auto* const server = static_cast<Impl*>(self);
  const auto found = server->connections_.find(connection);
  if (found == server->connections_.end()) return;
  Connection& state = found->second;
  if (state.job) state.job->is_abandoned = true;
  state.job.reset();
  state.response.reset();
  state.stream.reset();
  server->begin_phase(state, Phase::Reading);
  state.body_bytes = 0;
  ++state.responses;
}

MHD_Result HttpServer::Impl::on_request(void* self, MHD_Connection* connection, const char* url,
                                        const char* method, const char* version, const char*,
                                        std::size_t* upload_size, void** state) {
  auto* const server = static_cast<Impl*>(self);
  if (server->is_ending_) return MHD_NO;
  // libmicrohttpd calls once after the headers, again once the request is complete, and again after
  // the connection was resumed.
  if (*state == nullptr) {
    *state = self;
    auto refused = refusal(connection, method, version);
    return refused ? server->send(connection, std::move(*refused)) : MHD_YES;
  }
  if (*upload_size != 0) return MHD_NO;
  if (auto& response = server->connections_[connection].response)
    return server->send(connection, std::move(*std::exchange(response, std::nullopt)));
  return server->answer(connection, url, method);
}

MHD_Result HttpServer::Impl::answer(MHD_Connection* connection, const char* url,
                                    std::string_view method) {
  const auto found = routes_.find(std::string_view(url));
  if (found == routes_.end())
    return send(connection, {404, "text/plain", "no such page; / lists them\n"});
  const HttpRoute& route = found->second;
  const bool reads = method == MHD_HTTP_METHOD_GET || method == MHD_HTTP_METHOD_HEAD;
  if (reads && route.status)
    return send(connection, route.status(request_of(connection, url, is_local_)));
  if (reads && route.get && gate_.needs_password())
    return check_password(connection, route.get, request_of(connection, url, is_local_));
  if (reads && route.get)
    return hand_over(connection, route.get, request_of(connection, url, is_local_));
  if (method == MHD_HTTP_METHOD_POST && route.post)
    return hand_over(connection, route.post, request_of(connection, url, is_local_));
  const std::string allow = allowed_methods(route);
  return send(connection, {405, "text/plain", "only " + allow + "\n"}, allow);
}

// libmicrohttpd frees the text when the response is over.
MHD_Response* HttpServer::Impl::hold_body(Connection& state, HttpResponse&& answer) {
  state.body_bytes = answer.body.size();
  held_bytes_ += answer.body.size();
  auto* body = new HeldBody{std::move(answer.body), this};
  MHD_Response* response = MHD_create_response_from_buffer_with_free_callback_cls(
      body->text.size(), body->text.data(), &Impl::free_body, body);
  if (response == nullptr) free_body(body);
  return response;
}

MHD_Response* HttpServer::Impl::hold_stream(MHD_Connection* connection, Connection& state,
                                            HttpResponse&& answer) {
  state.phase = Phase::Streaming;
  state.stream = std::move(answer.stream);
  state.stream->attach([this, stream = state.stream.get()] {
    to_server_.post([this, stream] {
      go_on(stream);
      turn();
    });
  });
  auto* from = new ReadStream{state.stream, connection, this};
  MHD_Response* response = MHD_create_response_from_callback(
      MHD_SIZE_UNKNOWN, kStreamPiece, &Impl::on_read, from, &Impl::free_stream);
  if (response == nullptr) free_stream(from);
  return response;
}

MHD_Result HttpServer::Impl::send(MHD_Connection* connection, HttpResponse&& answer,
                                  const std::string& allow) {
  make_room_for_body(answer.body.size());
  Connection& state = connections_[connection];
  begin_phase(state, Phase::Writing);
  const unsigned status = answer.status;
  const std::string content_type = answer.content_type;
  const std::string challenge(answer.challenge);
  MHD_Response* response = answer.stream ? hold_stream(connection, state, std::move(answer))
                                         : hold_body(state, std::move(answer));
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, "Content-Type", content_type.c_str());
  MHD_add_response_header(response, "Cache-Control", "no-store");
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(response, "Content-Security-Policy",
                          "default-src 'none'; style-src 'self'; script-src 'self'; "
                          "connect-src 'self'; form-action 'self'; "
                          "frame-ancestors 'none'; base-uri 'none'");
  if (status == MHD_HTTP_UNAUTHORIZED)
    MHD_add_response_header(response, "WWW-Authenticate", challenge.c_str());
  if (status == MHD_HTTP_SERVICE_UNAVAILABLE) MHD_add_response_header(response, "Retry-After", "2");
  if (!allow.empty()) MHD_add_response_header(response, "Allow", allow.c_str());
  // One answer each while others wait for a place: a client that sends many requests at once would
  // keep its own for all of them.
  if (is_crowded()) MHD_add_response_header(response, "Connection", "close");
  const MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

void HttpServer::Impl::free_body(void* body) {
  const std::unique_ptr<HeldBody> held(static_cast<HeldBody*>(body));
  held->server->held_bytes_ -= held->text.size();
}

// ---- streams

ssize_t HttpServer::Impl::on_read(void* self, std::uint64_t, char* to, std::size_t size) {
  auto* const from = static_cast<ReadStream*>(self);
  return from->server->read_stream(*from, to, size);
}

void HttpServer::Impl::free_stream(void* self) {
  const std::unique_ptr<ReadStream> from(static_cast<ReadStream*>(self));
  from->stream->detach();
}

// A connection that waits for the writer is suspended: libmicrohttpd would ask without a pause.
ssize_t HttpServer::Impl::read_stream(ReadStream& from, char* to, std::size_t size) {
  const auto found = connections_.find(from.connection);
  if (found == connections_.end() || found->second.is_ended)
    return MHD_CONTENT_READER_END_WITH_ERROR;
  const HttpStream::Piece piece = from.stream->read(to, size);
  if (piece.has_ended) return MHD_CONTENT_READER_END_OF_STREAM;
  Connection& state = found->second;
  state.since = now();
  if (piece.size > 0) return static_cast<ssize_t>(piece.size);
  if (is_ending_) return MHD_CONTENT_READER_END_WITH_ERROR;
  state.is_suspended = true;
  MHD_suspend_connection(from.connection);
  return 0;
}

// The stream may have gone; its address is only compared.
void HttpServer::Impl::go_on(const HttpStream* stream) {
  for (auto& [connection, state] : connections_) {
    if (state.stream.get() != stream || !std::exchange(state.is_suspended, false)) continue;
    state.since = now();
    return MHD_resume_connection(connection);
  }
}

// Clients that read get the end of what has been written.
void HttpServer::Impl::flush_streams() {
  if (daemon_ == nullptr) return;
  const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD);
  const auto is_streaming = [](const auto& item) { return item.second.stream != nullptr; };
  for (int i = 0; i < kFlushTurns && std::ranges::any_of(connections_, is_streaming); ++i) {
    MHD_run(daemon_);
    pollfd descriptor{info->epoll_fd, POLLIN, 0};
    ::poll(&descriptor, 1, kFlushTurnMs);
  }
}

// ---- handlers on the owner's loop

MHD_Result HttpServer::Impl::refuse_as_busy(MHD_Connection* connection) {
  ++counters_.busy;
  return send(connection, busy());
}

void HttpServer::Impl::begin_waiting(MHD_Connection* connection, const std::shared_ptr<Job>& job) {
  Connection& state = connections_[connection];
  begin_phase(state, Phase::Waiting);
  state.job = job;
  MHD_suspend_connection(connection);
}

MHD_Result HttpServer::Impl::hand_over(MHD_Connection* connection, const HttpHandler& handler,
                                       HttpRequest&& request) {
  if (queued_ >= kMaxQueued) return refuse_as_busy(connection);
  const auto job = std::make_shared<Job>();
  begin_waiting(connection, job);
  post_to_owner(job, handler, std::move(request));
  return MHD_YES;
}

void HttpServer::Impl::post_to_owner(const std::shared_ptr<Job>& job, const HttpHandler& handler,
                                     HttpRequest&& request) {
  ++queued_;
  to_owner_.post([this, job, &handler, request = std::move(request)] {
    --queued_;
    if (job->is_abandoned) return;
    to_server_.post(
        [this, job, response = handler(request)]() mutable { finish(job, std::move(response)); });
  });
}

MHD_Result HttpServer::Impl::check_password(MHD_Connection* connection, const HttpHandler& handler,
                                            HttpRequest&& request) {
  auto credentials = credentials_of(connection);
  if (!credentials) return send(connection, unauthorized());
  if (gate_.remembers(*credentials)) return hand_over(connection, handler, std::move(request));
  const auto job = std::make_shared<Job>();
  auto on_verdict = [this, job, &handler, request = std::move(request)](bool is_right) mutable {
    if (job->is_abandoned) return;
    if (is_right && queued_ < kMaxQueued) return post_to_owner(job, handler, std::move(request));
    ++(is_right ? counters_.busy : counters_.denied);
    finish(job, is_right ? busy() : unauthorized());
  };
  if (!gate_.check(*std::move(credentials), std::move(on_verdict)))
    return refuse_as_busy(connection);
  begin_waiting(connection, job);
  return MHD_YES;
}

void HttpServer::Impl::finish(const std::shared_ptr<Job>& job, HttpResponse&& response) {
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    if (it->second.job != job || it->second.phase != Phase::Waiting) continue;
    resume(it, std::move(response));
    return turn();
  }
}

// libmicrohttpd calls on_request() again in its next round.
void HttpServer::Impl::resume(Connections::iterator waiting, std::optional<HttpResponse> response) {
  Connection& state = waiting->second;
  if (state.job) state.job->is_abandoned = true;
  state.job.reset();
  state.response = std::move(response);
  begin_phase(state, Phase::Writing);
  MHD_resume_connection(waiting->first);
}

}  // namespace meshdns::dnsd
