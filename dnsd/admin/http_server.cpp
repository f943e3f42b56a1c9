// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/http_server.hpp"

#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "dnsd/admin/http_stream.hpp"
#include "dnsd/admin/listening_socket.hpp"
#include "dnsd/admin/request_origin.hpp"
#include "loop/check_loop.hpp"
#include "loop/mailbox.hpp"
#include "loop/poll.hpp"
#include "loop/timer.hpp"

namespace meshdns::dnsd {
namespace {

// A connection's memory holds the request as it is read and the headers of the response; besides
// the header we leave room for the latter.
constexpr std::size_t kConnectionMemory = HttpServer::kMaxHeaderBytes + 2 * 1024;

// After an accept() without descriptors or memory: what lacks them is elsewhere, and takes a while.
constexpr std::uint64_t kAcceptPauseMs = 100;
constexpr int kBacklog = 128;
// Connections accepted before those that are there get their turn again.
constexpr int kAcceptsPerTurn = 16;
// A page may take long to make: the loop does its other work before the next one.
constexpr std::size_t kTasksPerTurn = 1;
constexpr std::size_t kStreamPiece = std::size_t{32} << 10;
// How long the end of the server waits for the clients of streams to read the last bytes.
constexpr int kFlushTurns = 20;
constexpr int kFlushTurnMs = 10;

// The methods of a path, as the header Allow lists them.
std::string allowed_methods(const HttpRoute& route) {
  std::string methods = route.get || route.status ? "GET, HEAD" : "";
  if (route.post) methods += methods.empty() ? "POST" : ", POST";
  return methods;
}

HttpResponse busy_response() {
  return {503, "text/plain", "the daemon is busy; try again in a few seconds\n"};
}

std::optional<std::string_view> header_of(MHD_Connection* connection, const char* name) {
  const char* value = nullptr;
  std::size_t size = 0;
  if (MHD_lookup_connection_value_n(connection, MHD_HEADER_KIND, name,
                                    std::string_view(name).size(), &value, &size) != MHD_YES)
    return std::nullopt;
  return value == nullptr ? std::string_view() : std::string_view(value, size);
}

int count_headers(MHD_Connection* connection, const char* name) {
  struct Count {
    const char* name;
    int found = 0;
  } count{name};
  MHD_get_connection_values(
      connection, MHD_HEADER_KIND,
      [](void* self, MHD_ValueKind, const char* key, const char*) {
        auto* counting = static_cast<Count*>(self);
        if (strcasecmp(key, counting->name) == 0) ++counting->found;
        return MHD_YES;
      },
      &count);
  return count.found;
}

// Returns the response to a request that is refused before any of its body has come.
std::optional<HttpResponse> refusal(MHD_Connection* connection, std::string_view method,
                                    std::string_view version) {
  const auto host = header_of(connection, MHD_HTTP_HEADER_HOST);
  if (count_headers(connection, MHD_HTTP_HEADER_HOST) > 1)
    return HttpResponse{400, "text/plain", "the request has several Host headers\n"};
  if (!host && version != MHD_HTTP_VERSION_1_0)
    return HttpResponse{400, "text/plain", "the request has no Host header\n"};
  if (host && !is_own_host(*host))
    return HttpResponse{403, "text/plain", "Host is neither an IP address nor localhost\n"};
  // Browsers say where a POST comes from, and send it without asking us first.
  const auto origin = header_of(connection, MHD_HTTP_HEADER_ORIGIN);
  if (method == MHD_HTTP_METHOD_POST && origin && !is_own_origin(*origin, host.value_or("")))
    return HttpResponse{403, "text/plain", "a page of another origin must not change anything\n"};
  const auto length = header_of(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
  if (header_of(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING) || (length && *length != "0"))
    return HttpResponse{413, "text/plain",
                        "requests must not have a body; put arguments in the URL\n"};
  return std::nullopt;
}

HttpRequest request_of(MHD_Connection* connection, const char* url, bool is_local) {
  HttpRequest request;
  request.path = url;
  request.is_local = is_local;
  request.authorization = header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION).value_or("");
  MHD_get_connection_values(
      connection, MHD_GET_ARGUMENT_KIND,
      [](void* arguments, MHD_ValueKind, const char* key, const char* value) {
        (*static_cast<decltype(request.arguments)*>(arguments))[key] =
            value == nullptr ? "" : value;
        return MHD_YES;
      },
      &request.arguments);
  return request;
}

}  // namespace

// Accepts by itself and hands the connections to libmicrohttpd, whose own accepting stops for good
// when it runs out of descriptors while it has connections.
class HttpServer::Impl {
 public:
  Impl(ListeningSocket socket, HttpRoutes routes, HttpCounters& counters,
       const HttpDeadlines& deadlines)
      : socket_(std::move(socket)),
        is_local_(std::holds_alternative<UnixAddress>(socket_.address())),
        routes_(std::move(routes)),
        counters_(counters),
        deadlines_(deadlines) {}
  // Owner's thread.
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Owner's thread. After an Error the object can only be destroyed.
  Result<void> start(uv_loop_t* owner_loop);
  const AdminAddress& address() const { return socket_.address(); }

 private:
  // A request that waits for its handler. The owner's loop skips it once nobody waits any more.
  struct Job {
    std::atomic<bool> is_abandoned{false};
  };
  enum class Phase : std::uint8_t { Reading, Waiting, Writing, Streaming };
  struct Connection {
    int fd = -1;
    Phase phase = Phase::Reading;
    bool is_ended = false;                   // by us, at a deadline or to make room
    std::uint64_t since = 0;                 // loop time at which the phase began
    std::uint64_t order = 0;                 // of the beginnings of phases, which may share a time
    std::uint64_t responses = 0;             // complete ones
    std::size_t body_bytes = 0;              // of the response that is being written
    std::shared_ptr<Job> job;                // of the request that waits; null otherwise
    std::optional<HttpResponse> response{};  // of the handler, until it is queued
    std::shared_ptr<HttpStream> stream{};    // of the response that is being written
    bool is_suspended = false;               // until `stream` has more
  };
  using Connections = std::map<MHD_Connection*, Connection>;
  // A body that libmicrohttpd sends, and frees when its response is over.
  struct HeldBody {
    std::string text;
    Impl* server;
  };

  // A stream that libmicrohttpd reads.
  struct ReadStream {
    std::shared_ptr<HttpStream> stream;
    MHD_Connection* connection;
    Impl* server;
  };

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url,
                               const char* method, const char* version, const char* upload_data,
                               std::size_t* upload_size, void** state);
  static void on_connection(void* self, MHD_Connection* connection, void** context,
                            MHD_ConnectionNotificationCode what);
  static void on_completed(void* self, MHD_Connection* connection, void** state,
                           MHD_RequestTerminationCode why);
  static void free_body(void* body);
  static ssize_t on_read(void* self, std::uint64_t position, char* to, std::size_t size);
  static void free_stream(void* self);

  void run();
  void end_all();
  MHD_Result answer(MHD_Connection* connection, const char* url, std::string_view method);
  MHD_Result hand_over(MHD_Connection* connection, const HttpHandler& handler,
                       HttpRequest&& request);
  void finish(const std::shared_ptr<Job>& job, HttpResponse&& response);
  void resume(Connections::iterator waiting, std::optional<HttpResponse> response);
  MHD_Result send(MHD_Connection* connection, HttpResponse&& answer, const std::string& allow = "");
  MHD_Response* hold_body(Connection& state, HttpResponse&& answer);
  MHD_Response* hold_stream(MHD_Connection* connection, Connection& state, HttpResponse&& answer);
  ssize_t read_stream(ReadStream& from, char* to, std::size_t size);
  void go_on(const HttpStream* stream);
  void flush_streams();
  std::uint64_t now() const { return uv_now(&loop_); }
  std::uint64_t due(const Connection& connection) const;
  void accept_some();
  void begin_phase(Connection& connection, Phase phase);
  void make_room();
  void make_room_for_body(std::size_t size);
  void end(Connection& connection);
  void turn();
  void end_overdue();
  void wait();
  std::optional<std::chrono::milliseconds> next_turn() const;

  // Constant after start().
  ListeningSocket socket_;
  const bool is_local_;
  const HttpRoutes routes_;
  HttpCounters& counters_;
  const HttpDeadlines deadlines_;

  // Any thread.
  std::atomic<unsigned> queued_{0};  // jobs in to_owner_

  // Owner's thread; post() from the server's.
  loop::Mailbox to_owner_;
  std::thread thread_;

  // Server's thread, from start() to the end of thread_.
  loop::Mailbox to_server_;  // post() from the owner's thread
  uv_loop_t loop_{};
  loop::Poll listener_;
  loop::Poll descriptors_;  // libmicrohttpd's own epoll descriptor
  loop::Timer timer_;
  bool loop_open_ = false;
  bool is_ending_ = false;
  Connections connections_;
  std::uint64_t phases_begun_ = 0;
  std::size_t held_bytes_ = 0;
  std::uint64_t accept_again_at_ = 0;  // loop time
  MHD_Daemon* daemon_ = nullptr;
};

Result<void> HttpServer::Impl::start(uv_loop_t* owner_loop) {
  const auto refuse = [&](const std::string& why) {
    return fail("admin.listen: " + why + " for " + to_string(address()));
  };
  const auto refuse_loop = [&](const std::string& what, int error) {
    return refuse(what + " (" + uv_strerror(error) + ")");
  };
  if (const int error = uv_loop_init(&loop_); error != 0)
    return refuse_loop("cannot create an event loop", error);
  loop_open_ = true;
  daemon_ =
      MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0,
                       nullptr, nullptr, &Impl::on_request, this, MHD_OPTION_CONNECTION_LIMIT,
                       kMaxConnections + kAcceptsPerTurn, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                       kConnectionMemory, MHD_OPTION_NOTIFY_CONNECTION, &Impl::on_connection, this,
                       MHD_OPTION_NOTIFY_COMPLETED, &Impl::on_completed, this, MHD_OPTION_END);
  if (daemon_ == nullptr) return refuse("cannot start the HTTP server");
  const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD);
  if (info == nullptr) return refuse("cannot poll the HTTP server");
  timer_.open(&loop_, [this] { turn(); });
  const auto on_descriptors = [this](int, int) { turn(); };
  if (const int error = descriptors_.open(&loop_, info->epoll_fd, on_descriptors); error != 0)
    return refuse_loop("cannot poll the HTTP server", error);
  const auto on_clients = [this](int, int) { accept_some(); };
  if (const int error = listener_.open(&loop_, socket_.fd(), on_clients); error != 0)
    return refuse_loop("cannot poll the socket", error);
  const std::string no_wakeup = "cannot wake an event loop from another thread";
  if (const int error = to_server_.open(&loop_, kTasksPerTurn); error != 0)
    return refuse_loop(no_wakeup, error);
  if (const int error = to_owner_.open(owner_loop, kTasksPerTurn); error != 0)
    return refuse_loop(no_wakeup, error);
  // Signals are the owner's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::optional<std::string> trouble;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    trouble = error.what();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (trouble) return refuse("cannot start a thread (" + *trouble + ")");
  return {};
}

void HttpServer::Impl::run() {
  pthread_setname_np(pthread_self(), "admin");
  descriptors_.watch(UV_READABLE);
  turn();
  uv_run(&loop_, UV_RUN_DEFAULT);
  end_all();
}

HttpServer::Impl::~Impl() {
  if (thread_.joinable()) {
    to_server_.post([this] { uv_stop(&loop_); });
    thread_.join();
  } else {
    end_all();
  }
}

void HttpServer::Impl::end_all() {
  is_ending_ = true;
  for (auto& [connection, state] : connections_) {
    if (state.job) state.job->is_abandoned = true;
    if (state.phase == Phase::Waiting || std::exchange(state.is_suspended, false))
      MHD_resume_connection(connection);
  }
  flush_streams();
  to_server_.close();
  listener_.close();
  descriptors_.close();
  timer_.close();
  if (loop_open_) uv_run(&loop_, UV_RUN_DEFAULT);
  // After the poll handles: this closes the descriptors that they poll.
  if (daemon_ != nullptr) MHD_run(daemon_);
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  daemon_ = nullptr;
  if (loop_open_) check_loop(uv_loop_close(&loop_), "close: a handle is open");
  loop_open_ = false;
}

// ---- accepting, deadlines

std::uint64_t HttpServer::Impl::due(const Connection& connection) const {
  auto limit = deadlines_.request;
  if (connection.phase == Phase::Waiting) limit = deadlines_.handler;
  if (connection.is_suspended) return UINT64_MAX;
  if (connection.phase == Phase::Streaming) limit = deadlines_.stall;
  if (connection.phase == Phase::Writing)
    limit = deadlines_.response +
            std::chrono::milliseconds(connection.body_bytes * 1'000 / deadlines_.bytes_per_second);
  return connection.since + static_cast<std::uint64_t>(limit.count());
}

void HttpServer::Impl::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const int fd = ::accept4(socket_.fd(), reinterpret_cast<sockaddr*>(&peer), &size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (fd < 0) {
      if (errno == EAGAIN) break;
      ++counters_.accept_failures;
      accept_again_at_ = now() + kAcceptPauseMs;
      break;
    }
    if (connections_.size() >= kMaxConnections) make_room();
    // It closes what it cannot take.
    if (MHD_add_connection(daemon_, fd, reinterpret_cast<sockaddr*>(&peer), size) != MHD_YES)
      ++counters_.accept_failures;
    MHD_run(daemon_);
  }
  turn();
}

void HttpServer::Impl::begin_phase(Connection& connection, Phase phase) {
  connection.phase = phase;
  connection.since = now();
  connection.order = ++phases_begun_;
}

// Closes the connection whose request or whose reading of a response began first. Connections whose
// handler is under way stay, and watches; they are fewer than kMaxConnections.
void HttpServer::Impl::make_room() {
  Connection* oldest = nullptr;
  for (auto& [connection, state] : connections_) {
    if (state.is_ended || state.phase == Phase::Waiting) continue;
    if (state.stream && state.stream->is_watch()) continue;
    if (oldest == nullptr || state.order < oldest->order) oldest = &state;
  }
  if (oldest == nullptr) return;
  ++counters_.evicted;
  end(*oldest);
  MHD_run(daemon_);
}

// Closes connections that do not read, oldest first, until a body of `size` bytes fits.
void HttpServer::Impl::make_room_for_body(std::size_t size) {
  std::size_t held = held_bytes_;
  while (held > 0 && held + size > kMaxHeldBytes) {
    Connection* oldest = nullptr;
    for (auto& [connection, state] : connections_)
      if (!state.is_ended && state.phase == Phase::Writing && state.body_bytes > 0 &&
          (oldest == nullptr || state.order < oldest->order))
        oldest = &state;
    if (oldest == nullptr) return;
    held -= std::min(held, oldest->body_bytes);
    ++counters_.evicted;
    end(*oldest);
  }
}

// Shuts the socket down; libmicrohttpd closes it in its next round, as if the client had.
void HttpServer::Impl::end(Connection& connection) {
  // The kernel does not keep what the client has not read.
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(connection.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::shutdown(connection.fd, SHUT_RDWR);
  connection.is_ended = true;
  if (connection.stream) go_on(connection.stream.get());
}

// One round of libmicrohttpd, and the time of the next one if no socket calls before.
void HttpServer::Impl::turn() {
  MHD_run(daemon_);
  end_overdue();
  wait();
}

void HttpServer::Impl::end_overdue() {
  bool has_ended = false;
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    Connection& state = it->second;
    if (state.is_ended || now() < due(state)) continue;
    has_ended = true;
    if (state.phase == Phase::Waiting) {
      ++counters_.busy;
      resume(it, busy_response());
      continue;
    }
    if (state.phase == Phase::Streaming && state.stream->give_up()) {
      state.since = now();
      continue;
    }
    // A client that keeps an idle connection does nothing wrong.
    if (state.phase != Phase::Reading || state.responses == 0) ++counters_.overdue;
    end(state);
  }
  if (has_ended) MHD_run(daemon_);
}

void HttpServer::Impl::wait() {
  if (now() < accept_again_at_)
    listener_.watch(0);
  else if (!listener_.is_active())
    listener_.watch(UV_READABLE);
  const auto next = next_turn();
  next ? timer_.start(*next) : timer_.stop();
}

// From now; nullopt: only when a socket calls.
std::optional<std::chrono::milliseconds> HttpServer::Impl::next_turn() const {
  std::uint64_t next = UINT64_MAX;
  MHD_UNSIGNED_LONG_LONG timeout = 0;
  if (MHD_get_timeout(daemon_, &timeout) == MHD_YES) next = timeout;
  const auto at = [&](std::uint64_t time) {
    next = std::min(next, time > now() ? time - now() : 0);
  };
  for (const auto& [connection, state] : connections_)
    if (!state.is_ended && !state.is_suspended) at(due(state));
  if (now() < accept_again_at_) at(accept_again_at_);
  if (next == UINT64_MAX) return std::nullopt;
  return std::chrono::milliseconds(next);
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
  MHD_Response* response = answer.stream ? hold_stream(connection, state, std::move(answer))
                                         : hold_body(state, std::move(answer));
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, "Content-Type", content_type.c_str());
  MHD_add_response_header(response, "Cache-Control", "no-store");
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(response, "Content-Security-Policy",
                          "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
                          "frame-ancestors 'none'; base-uri 'none'");
  if (status == MHD_HTTP_UNAUTHORIZED)
    MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
  if (status == MHD_HTTP_SERVICE_UNAVAILABLE) MHD_add_response_header(response, "Retry-After", "2");
  if (!allow.empty()) MHD_add_response_header(response, "Allow", allow.c_str());
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

MHD_Result HttpServer::Impl::hand_over(MHD_Connection* connection, const HttpHandler& handler,
                                       HttpRequest&& request) {
  if (queued_ >= kMaxQueued) {
    ++counters_.busy;
    return send(connection, busy_response());
  }
  Connection& state = connections_[connection];
  begin_phase(state, Phase::Waiting);
  state.job = std::make_shared<Job>();
  MHD_suspend_connection(connection);
  ++queued_;
  to_owner_.post([this, job = state.job, &handler, request = std::move(request)] {
    --queued_;
    if (job->is_abandoned) return;
    to_server_.post(
        [this, job, response = handler(request)]() mutable { finish(job, std::move(response)); });
  });
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

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
const AdminAddress& HttpServer::address() const { return impl_->address(); }

Result<std::unique_ptr<HttpServer>> HttpServer::open(uv_loop_t* loop, const AdminAddress& address,
                                                     HttpRoutes routes, HttpCounters& counters,
                                                     const HttpDeadlines& deadlines) {
  auto socket = ListeningSocket::open(address, kBacklog);
  if (!socket) return std::unexpected(socket.error());
  auto impl = std::make_unique<Impl>(std::move(*socket), std::move(routes), counters, deadlines);
  if (auto started = impl->start(loop); !started) return std::unexpected(started.error());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

}  // namespace meshdns::dnsd
