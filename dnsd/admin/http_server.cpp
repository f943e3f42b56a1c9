#include "dnsd/admin/http_server.hpp"

#include <microhttpd.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

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

Result<int> listen_on(const SocketAddress& address) {
  const auto refuse = [&](const char* what) {
    return fail("admin.listen: cannot " + std::string(what) + " " + address.to_string() + ": " +
                std::strerror(errno));
  };
  sockaddr_storage storage{};
  const auto length = address.to_sockaddr(storage);
  if (!length) return fail("admin.listen: " + length.error().message);
  const int fd = ::socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return refuse("open a socket for");
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (storage.ss_family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&storage), *length) != 0 ||
      ::listen(fd, static_cast<int>(HttpServer::kMaxConnections)) != 0) {
    auto error = refuse("listen on");
    ::close(fd);
    return error;
  }
  return fd;
}

std::uint16_t port_of(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return 0;
  return ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
}

MHD_Result send(MHD_Connection* connection, const HttpResponse& answer) {
  // The cast: libmicrohttpd copies the body and does not write to it.
  MHD_Response* response = MHD_create_response_from_buffer(
      answer.body.size(), const_cast<char*>(answer.body.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, "Content-Type", answer.content_type.c_str());
  MHD_add_response_header(response, "Cache-Control", "no-store");
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(response, "Content-Security-Policy",
                          "default-src 'none'; style-src 'unsafe-inline'");
  if (answer.status == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response, "Allow", "GET, HEAD");
  const MHD_Result queued = MHD_queue_response(connection, answer.status, response);
  MHD_destroy_response(response);
  return queued;
}

// What can be refused before any of the request's body has come; nullopt = nothing.
std::optional<HttpResponse> refusal(MHD_Connection* connection, std::string_view method) {
  const auto header = [&](const char* name) {
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  };
  const char* host = header(MHD_HTTP_HEADER_HOST);
  if (host != nullptr && !is_own_host(host))
    return HttpResponse{403, "text/plain", "Host is neither an IP address nor localhost\n"};
  if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD)
    return HttpResponse{405, "text/plain", "only GET and HEAD\n"};
  const char* length = header(MHD_HTTP_HEADER_CONTENT_LENGTH);
  if (header(MHD_HTTP_HEADER_TRANSFER_ENCODING) != nullptr ||
      (length != nullptr && std::string_view(length) != "0"))
    return HttpResponse{413, "text/plain", "a request has no body here\n"};
  return std::nullopt;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(SocketAddress address, HttpRoutes routes)
      : address_(std::move(address)), routes_(std::move(routes)) {}
  ~Impl() { close(); }

  Result<void> start(uv_loop_t* loop);
  const SocketAddress& address() const { return address_; }

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
  HttpResponse answer(MHD_Connection* connection, const char* url) const;
  void turn();
  void close();

  SocketAddress address_;
  const HttpRoutes routes_;
  MHD_Daemon* daemon_ = nullptr;
  Handles* handles_ = nullptr;
};

Result<void> HttpServer::Impl::start(uv_loop_t* loop) {
  const auto fd = listen_on(address_);
  if (!fd) return std::unexpected(fd.error());
  address_.port = port_of(*fd);
  daemon_ = MHD_start_daemon(MHD_USE_EPOLL, 0, nullptr, nullptr, &Impl::on_request, this,
                             MHD_OPTION_LISTEN_SOCKET, *fd, MHD_OPTION_CONNECTION_LIMIT,
                             kMaxConnections, MHD_OPTION_CONNECTION_TIMEOUT, kTimeoutSeconds,
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionMemory, MHD_OPTION_END);
  if (daemon_ == nullptr) {
    ::close(*fd);
    return fail("admin.listen: cannot start the HTTP server on " + address_.to_string());
  }
  const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD);
  auto handles = std::make_unique<Handles>();
  if (info == nullptr || uv_poll_init(loop, &handles->poll, info->epoll_fd) != 0)
    return fail("admin.listen: cannot poll the HTTP server on " + address_.to_string());
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
  return send(connection, static_cast<const Impl*>(self)->answer(connection, url));
}

HttpResponse HttpServer::Impl::answer(MHD_Connection* connection, const char* url) const {
  const auto route = routes_.find(std::string_view(url));
  if (route == routes_.end()) return {404, "text/plain", "no such page; / lists them\n"};
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
  return route->second(request);
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
const SocketAddress& HttpServer::address() const { return impl_->address(); }

Result<std::unique_ptr<HttpServer>> HttpServer::open(uv_loop_t* loop, const SocketAddress& address,
                                                     HttpRoutes routes) {
  auto impl = std::make_unique<Impl>(address, std::move(routes));
  if (auto started = impl->start(loop); !started) return std::unexpected(started.error());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

}  // namespace meshdns::dnsd
