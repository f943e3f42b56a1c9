#include "dnsd/admin/http_server.hpp"

#include <microhttpd.h>
#include <strings.h>

#include <optional>

#include "dnsd/admin/listening_socket.hpp"

namespace meshdns::dnsd {
namespace {

// A connection's memory holds the request as it is read and the headers of the response; besides
// the header we leave room for the latter.
constexpr std::size_t kConnectionMemory = HttpServer::kMaxHeaderBytes + 2 * 1024;

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

class HttpServer::Impl {
 public:
  Impl(ListeningSocket socket, HttpRoutes routes)
      : socket_(std::move(socket)), routes_(std::move(routes)) {}
  ~Impl() { close(); }

  Result<void> start(uv_loop_t* loop);
  const AdminAddress& address() const { return socket_.address(); }

 private:
  // They outlive the server until the loop has closed them.
  struct Handles {
    uv_poll_t poll{};
    uv_timer_t timer{};
    int open = 0;
  };

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url,
                               const char* method, const char* version, const char* upload_data,
                               std::size_t* upload_size, void** state);
  MHD_Result answer(MHD_Connection* connection, const char* url, std::string_view method) const;
  void turn();
  void close();

  ListeningSocket socket_;
  const HttpRoutes routes_;
  MHD_Daemon* daemon_ = nullptr;
  Handles* handles_ = nullptr;
};

Result<void> HttpServer::Impl::start(uv_loop_t* loop) {
  daemon_ = MHD_start_daemon(MHD_USE_EPOLL, 0, nullptr, nullptr, &Impl::on_request, this,
                             MHD_OPTION_LISTEN_SOCKET, socket_.fd(), MHD_OPTION_CONNECTION_LIMIT,
                             kMaxConnections, MHD_OPTION_CONNECTION_TIMEOUT, kTimeoutSeconds,
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionMemory, MHD_OPTION_END);
  if (daemon_ == nullptr)
    return fail("admin.listen: cannot start the HTTP server on " + to_string(address()));
  socket_.release_fd();
  const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD);
  auto handles = std::make_unique<Handles>();
  if (info == nullptr || uv_poll_init(loop, &handles->poll, info->epoll_fd) != 0)
    return fail("admin.listen: cannot poll the HTTP server on " + to_string(address()));
  handles_ = handles.release();
  handles_->open = 2;
  uv_timer_init(loop, &handles_->timer);
  handles_->poll.data = this;
  handles_->timer.data = this;
  uv_poll_start(&handles_->poll, UV_READABLE,
                [](uv_poll_t* poll, int, int) { static_cast<Impl*>(poll->data)->turn(); });
  turn();
  return {};
}

// One round of libmicrohttpd, and the time of the next one if no socket calls before.
void HttpServer::Impl::turn() {
  MHD_run(daemon_);
  MHD_UNSIGNED_LONG_LONG timeout = 0;
  if (MHD_get_timeout(daemon_, &timeout) != MHD_YES) {
    uv_timer_stop(&handles_->timer);
    return;
  }
  uv_timer_start(
      &handles_->timer, [](uv_timer_t* timer) { static_cast<Impl*>(timer->data)->turn(); }, timeout,
      0);
}

void HttpServer::Impl::close() {
  if (handles_ != nullptr) {
    for (uv_handle_t* handle : {reinterpret_cast<uv_handle_t*>(&handles_->poll),
                                reinterpret_cast<uv_handle_t*>(&handles_->timer)}) {
      handle->data = handles_;
      uv_close(handle, [](uv_handle_t* closed) {
        auto* handles = static_cast<Handles*>(closed->data);
        if (--handles->open == 0) delete handles;
      });
    }
    handles_ = nullptr;
  }
  // After the poll handle: this closes the descriptor that it polls, and the listening socket.
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  daemon_ = nullptr;
}

MHD_Result HttpServer::Impl::on_request(void* self, MHD_Connection* connection, const char* url,
                                        const char* method, const char*, const char*,
                                        std::size_t* upload_size, void** state) {
  // libmicrohttpd calls once after the headers, then again once the request is complete.
  if (*state == nullptr) {
    *state = self;
    if (const auto refused = refusal(connection, method)) return send(connection, *refused);
    return MHD_YES;
  }
  if (*upload_size != 0) return MHD_NO;
  return static_cast<const Impl*>(self)->answer(connection, url, method);
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
                                                     HttpRoutes routes) {
  auto socket = ListeningSocket::open(address, static_cast<int>(kMaxConnections));
  if (!socket) return std::unexpected(socket.error());
  auto impl = std::make_unique<Impl>(std::move(*socket), std::move(routes));
  if (auto started = impl->start(loop); !started) return std::unexpected(started.error());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

}  // namespace meshdns::dnsd
