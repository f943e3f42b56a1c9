#include "dnsd/admin/http_server.hpp"

#include <microhttpd.h>
#include <strings.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>

#include "dnsd/admin/listening_socket.hpp"

namespace meshdns::dnsd {
namespace {

// A connection's memory holds the request as it is read and the headers of the response; besides
// the header we leave room for the latter.
constexpr std::size_t kConnectionMemory = HttpServer::kMaxHeaderBytes + 2 * 1024;

// After an accept() without descriptors or memory: what lacks them is elsewhere, and takes a while.
constexpr std::uint64_t kAcceptPauseMs = 100;

bool is_same_word(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

// "127.0.0.1:15054", "[::1]", "localhost:80".
bool is_own_host(std::string_view host) {
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    return end != std::string_view::npos && IpAddress::parse(host.substr(1, end - 1)).has_value();
  }
  host = host.substr(0, host.find(':'));
  return is_same_word(host, "localhost") || IpAddress::parse(host).has_value();
}

// The methods of a path, as the header Allow lists them.
std::string allowed_methods(const HttpRoute& route) {
  std::string methods = route.get ? "GET, HEAD" : "";
  if (route.post) methods += methods.empty() ? "POST" : ", POST";
  return methods;
}

// `allow`: for the header of that name; empty = none.
MHD_Result send(MHD_Connection* connection, const HttpResponse& answer,
                const std::string& allow = "") {
  // The cast: libmicrohttpd copies the body and does not write to it.
  MHD_Response* response = MHD_create_response_from_buffer(
      answer.body.size(), const_cast<char*>(answer.body.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, "Content-Type", answer.content_type.c_str());
  MHD_add_response_header(response, "Cache-Control", "no-store");
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(response, "Content-Security-Policy",
                          "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
                          "frame-ancestors 'none'; base-uri 'none'");
  if (!allow.empty()) MHD_add_response_header(response, "Allow", allow.c_str());
  const MHD_Result queued = MHD_queue_response(connection, answer.status, response);
  MHD_destroy_response(response);
  return queued;
}

// "http://127.0.0.1:15054" of a page that we sent ourselves, reached under `host`.
bool is_own_origin(std::string_view origin, std::string_view host) {
  constexpr std::string_view kScheme = "http://";
  return origin.starts_with(kScheme) && is_same_word(origin.substr(kScheme.size()), host);
}

// What can be refused before any of the request's body has come; nullopt = nothing.
std::optional<HttpResponse> refusal(MHD_Connection* connection, std::string_view method) {
  const auto header = [&](const char* name) {
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  };
  const char* host = header(MHD_HTTP_HEADER_HOST);
  if (host != nullptr && !is_own_host(host))
    return HttpResponse{403, "text/plain", "Host is neither an IP address nor localhost\n"};
  // Browsers say where a POST comes from, and send it without asking us first.
  const char* origin = header(MHD_HTTP_HEADER_ORIGIN);
  if (method == MHD_HTTP_METHOD_POST && origin != nullptr &&
      !is_own_origin(origin, host == nullptr ? "" : host))
    return HttpResponse{403, "text/plain", "a page from elsewhere must not change anything here\n"};
  const char* length = header(MHD_HTTP_HEADER_CONTENT_LENGTH);
  if (header(MHD_HTTP_HEADER_TRANSFER_ENCODING) != nullptr ||
      (length != nullptr && std::string_view(length) != "0"))
    return HttpResponse{413, "text/plain",
                        "a request has no body here; arguments are in the URL\n"};
  return std::nullopt;
}

HttpRequest request_of(MHD_Connection* connection, const char* url) {
  HttpRequest request;
  request.path = url;
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
        routes_(std::move(routes)),
        counters_(counters),
        deadlines_(deadlines) {}
  ~Impl() { close(); }

  Result<void> start(uv_loop_t* loop);
  const AdminAddress& address() const { return socket_.address(); }

 private:
  // They outlive the server until the loop has closed them.
  struct Handles {
    uv_poll_t listener{};
    uv_poll_t connections{};  // libmicrohttpd's own epoll descriptor
    uv_timer_t timer{};
    int open = 0;
  };
  struct Connection {
    int fd = -1;
    std::uint64_t since = 0;   // loop time at which the request could begin
    bool is_answered = false;  // the response is on its way
    bool is_ended = false;     // by us, at its deadline
  };

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url,
                               const char* method, const char* version, const char* upload_data,
                               std::size_t* upload_size, void** state);
  static void on_connection(void* self, MHD_Connection* connection, void** context,
                            MHD_ConnectionNotificationCode what);
  static void on_completed(void* self, MHD_Connection* connection, void** state,
                           MHD_RequestTerminationCode why);
  MHD_Result answer(MHD_Connection* connection, const char* url, std::string_view method) const;
  std::uint64_t now() const { return uv_now(handles_->timer.loop); }
  std::uint64_t due(const Connection& connection) const;
  void accept_all();
  void turn();
  void end_overdue();
  void wait();
  std::optional<std::uint64_t> next_turn() const;
  void close();

  ListeningSocket socket_;
  const HttpRoutes routes_;
  HttpCounters& counters_;
  const HttpDeadlines deadlines_;
  std::map<MHD_Connection*, Connection> connections_;
  std::uint64_t accept_again_at_ = 0;  // loop time
  MHD_Daemon* daemon_ = nullptr;
  Handles* handles_ = nullptr;
};

Result<void> HttpServer::Impl::start(uv_loop_t* loop) {
  daemon_ = MHD_start_daemon(
      MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, nullptr, nullptr, &Impl::on_request, this,
      MHD_OPTION_CONNECTION_LIMIT, kMaxConnections, MHD_OPTION_CONNECTION_TIMEOUT, kTimeoutSeconds,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionMemory, MHD_OPTION_NOTIFY_CONNECTION,
      &Impl::on_connection, this, MHD_OPTION_NOTIFY_COMPLETED, &Impl::on_completed, this,
      MHD_OPTION_END);
  if (daemon_ == nullptr)
    return fail("admin.listen: cannot start the HTTP server on " + to_string(address()));
  const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD);
  auto handles = std::make_unique<Handles>();
  if (info == nullptr || uv_poll_init(loop, &handles->connections, info->epoll_fd) != 0)
    return fail("admin.listen: cannot poll the HTTP server on " + to_string(address()));
  handles_ = handles.release();
  handles_->open = 1;
  if (uv_poll_init(loop, &handles_->listener, socket_.fd()) != 0)
    return fail("admin.listen: cannot poll " + to_string(address()));
  uv_timer_init(loop, &handles_->timer);
  handles_->open = 3;
  handles_->listener.data = handles_->connections.data = handles_->timer.data = this;
  uv_poll_start(&handles_->connections, UV_READABLE,
                [](uv_poll_t* poll, int, int) { static_cast<Impl*>(poll->data)->turn(); });
  turn();
  return {};
}

std::uint64_t HttpServer::Impl::due(const Connection& connection) const {
  const auto limit = connection.is_answered ? deadlines_.response : deadlines_.request;
  return connection.since + static_cast<std::uint64_t>(limit.count());
}

void HttpServer::Impl::accept_all() {
  while (connections_.size() < kMaxConnections) {
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
    // It closes what it cannot take.
    if (MHD_add_connection(daemon_, fd, reinterpret_cast<sockaddr*>(&peer), size) != MHD_YES)
      ++counters_.accept_failures;
    MHD_run(daemon_);
  }
  turn();
}

// One round of libmicrohttpd, and the time of the next one if no socket calls before.
void HttpServer::Impl::turn() {
  MHD_run(daemon_);
  end_overdue();
  wait();
}

// Libmicrohttpd closes it as it would if the client had.
void HttpServer::Impl::end_overdue() {
  bool has_ended = false;
  for (auto& [connection, state] : connections_) {
    if (state.is_ended || now() < due(state)) continue;
    // What the client has not read is not kept for it.
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(state.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::shutdown(state.fd, SHUT_RDWR);
    state.is_ended = has_ended = true;
    ++counters_.overdue;
  }
  if (has_ended) MHD_run(daemon_);
}

void HttpServer::Impl::wait() {
  const bool is_paused = now() < accept_again_at_;
  if (is_paused || connections_.size() >= kMaxConnections)
    uv_poll_stop(&handles_->listener);
  else if (uv_is_active(reinterpret_cast<uv_handle_t*>(&handles_->listener)) == 0)
    uv_poll_start(&handles_->listener, UV_READABLE,
                  [](uv_poll_t* poll, int, int) { static_cast<Impl*>(poll->data)->accept_all(); });
  const auto next = next_turn();
  if (!next) {
    uv_timer_stop(&handles_->timer);
    return;
  }
  uv_timer_start(
      &handles_->timer, [](uv_timer_t* timer) { static_cast<Impl*>(timer->data)->turn(); }, *next,
      0);
}

// In milliseconds from now; nullopt: only when a socket calls.
std::optional<std::uint64_t> HttpServer::Impl::next_turn() const {
  std::uint64_t next = UINT64_MAX;
  MHD_UNSIGNED_LONG_LONG timeout = 0;
  if (MHD_get_timeout(daemon_, &timeout) == MHD_YES) next = timeout;
  const auto at = [&](std::uint64_t time) {
    next = std::min(next, time > now() ? time - now() : 0);
  };
  for (const auto& [connection, state] : connections_)
    if (!state.is_ended) at(due(state));
  if (now() < accept_again_at_) at(accept_again_at_);
  if (next == UINT64_MAX) return std::nullopt;
  return next;
}

void HttpServer::Impl::close() {
  if (handles_ != nullptr) {
    Handles* const handles = std::exchange(handles_, nullptr);
    const std::array all{reinterpret_cast<uv_handle_t*>(&handles->connections),
                         reinterpret_cast<uv_handle_t*>(&handles->listener),
                         reinterpret_cast<uv_handle_t*>(&handles->timer)};
    for (uv_handle_t* handle : std::span(all).first(static_cast<std::size_t>(handles->open))) {
      handle->data = handles;
      uv_close(handle, [](uv_handle_t* closed) {
        auto* closing = static_cast<Handles*>(closed->data);
        if (--closing->open == 0) delete closing;
      });
    }
  }
  // After the poll handles: these close the descriptors that they poll.
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  daemon_ = nullptr;
}

void HttpServer::Impl::on_connection(void* self, MHD_Connection* connection, void**,
                                     MHD_ConnectionNotificationCode what) {
  auto* const server = static_cast<Impl*>(self);
  if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
    server->connections_.erase(connection);
    return;
  }
  const MHD_ConnectionInfo* info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  server->connections_[connection] = {.fd = info->connect_fd, .since = server->now()};
}

// The next request of the connection may begin.
void HttpServer::Impl::on_completed(void* self, MHD_Connection* connection, void**,
                                    MHD_RequestTerminationCode) {
  auto* const server = static_cast<Impl*>(self);
  const auto found = server->connections_.find(connection);
  if (found == server->connections_.end() || server->handles_ == nullptr) return;
  found->second.since = server->now();
  found->second.is_answered = false;
}

MHD_Result HttpServer::Impl::on_request(void* self, MHD_Connection* connection, const char* url,
                                        const char* method, const char*, const char*,
                                        std::size_t* upload_size, void** state) {
  auto* const server = static_cast<Impl*>(self);
  // libmicrohttpd calls once after the headers, then again once the request is complete.
  if (*state == nullptr) {
    *state = self;
    const auto refused = refusal(connection, method);
    if (!refused) return MHD_YES;
    server->connections_[connection].is_answered = true;
    return send(connection, *refused);
  }
  if (*upload_size != 0) return MHD_NO;
  server->connections_[connection].is_answered = true;
  return server->answer(connection, url, method);
}

MHD_Result HttpServer::Impl::answer(MHD_Connection* connection, const char* url,
                                    std::string_view method) const {
  const auto found = routes_.find(std::string_view(url));
  if (found == routes_.end())
    return send(connection, {404, "text/plain", "no such page; / lists them\n"});
  const HttpRoute& route = found->second;
  const bool reads = method == MHD_HTTP_METHOD_GET || method == MHD_HTTP_METHOD_HEAD;
  if (reads && route.get) return send(connection, route.get(request_of(connection, url)));
  if (method == MHD_HTTP_METHOD_POST && route.post)
    return send(connection, route.post(request_of(connection, url)));
  const std::string allow = allowed_methods(route);
  return send(connection, {405, "text/plain", "only " + allow + "\n"}, allow);
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
const AdminAddress& HttpServer::address() const { return impl_->address(); }

Result<std::unique_ptr<HttpServer>> HttpServer::open(uv_loop_t* loop, const AdminAddress& address,
                                                     HttpRoutes routes, HttpCounters& counters,
                                                     const HttpDeadlines& deadlines) {
  auto socket = ListeningSocket::open(address, static_cast<int>(kMaxConnections));
  if (!socket) return std::unexpected(socket.error());
  auto impl = std::make_unique<Impl>(std::move(*socket), std::move(routes), counters, deadlines);
  if (auto started = impl->start(loop); !started) return std::unexpected(started.error());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

}  // namespace meshdns::dnsd
