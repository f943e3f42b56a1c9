// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/http_server.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "dnsd/admin/http_server_impl.hpp"
#include "dnsd/net/port_owner.hpp"
#include "registry/base/file_descriptor.hpp"
#include "registry/base/handle.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {
namespace {

constexpr mode_t kUnixMode = 0660;

unsigned long inode_of(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

// Returns whether the socket there makes room for a new one.  A process that was killed leaves its
// socket behind, and the one that is `leaving` needs the path no more.
bool makes_room(const UnixAddress& address, std::optional<pid_t> leaving) {
  if (inode_of(address.path) == 0) return false;
  const FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return false;
  const sockaddr_un name = *unix_socket_name(address.path);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0)
    return errno == ECONNREFUSED;
  ucred listener{};
  socklen_t size = sizeof listener;
  return leaving && ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &listener, &size) == 0 &&
         listener.pid == *leaving;
}

// Returns whether the client has sent anything.  Programs with a Unix socket are asked for more
// than a connection.
bool has_received(int fd) {
  // The kernel's structure goes on where that of the C library ends.
  struct {
    tcp_info known;
    std::uint64_t pacing_rate;
    std::uint64_t max_pacing_rate;
    std::uint64_t bytes_acked;
    std::uint64_t bytes_received;
  } info{};
  static_assert(sizeof info.known == 104);
  socklen_t size = sizeof info;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.bytes_received > 0;
}

std::uint16_t port_of(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return 0;
  return ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
}

int family_of(const AdminAddress& address) {
  const auto* ip = std::get_if<SocketAddress>(&address);
  if (ip == nullptr) return AF_UNIX;
  return ip->ip.is_v4() ? AF_INET : AF_INET6;
}

}  // namespace

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      address_(std::move(other.address_)),
      inode_(std::exchange(other.inode_, 0)) {}

ListeningSocket::~ListeningSocket() {
  if (fd_ >= 0) ::close(fd_);
  if (inode_ != 0 && has_its_path()) ::unlink(std::get<UnixAddress>(address_).path.c_str());
}

bool ListeningSocket::has_its_path() const {
  return inode_ == 0 || inode_of(std::get<UnixAddress>(address_).path) == inode_;
}

Result<ListeningSocket> ListeningSocket::open(const AdminAddress& address, int backlog,
                                              std::optional<pid_t> leaving) {
  const int fd = ::socket(family_of(address), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  ListeningSocket opened(fd, address);
  if (fd < 0) return opened.refuse("open a socket for");
  const auto bound = std::visit([&](const auto& a) { return opened.bind_to(a, leaving); }, address);
  if (!bound) return std::unexpected(bound.error());
  if (::listen(fd, backlog) != 0) return opened.refuse("listen on");
  if (auto* ip = std::get_if<SocketAddress>(&opened.address_)) ip->port = port_of(fd);
  return opened;
}

Result<void> ListeningSocket::bind_to(const SocketAddress& address,
                                      std::optional<pid_t> /*leaving*/) {
  sockaddr_storage name{};
  const auto length = address.to_sockaddr(name);
  if (!length) return std::unexpected(length.error());
  const int on = 1;
  ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // As for server.listen: [::] stands for both families.
  const int v6_only = address.ip.is_unspecified() ? 0 : 1;
  if (address.ip.is_v6()) ::setsockopt(fd_, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
  if (::bind(fd_, reinterpret_cast<const sockaddr*>(&name), *length) != 0) return refuse("bind");
  return {};
}

Result<void> ListeningSocket::bind_to(const UnixAddress& address, std::optional<pid_t> leaving) {
  if (makes_room(address, leaving)) ::unlink(address.path.c_str());
  const sockaddr_un name = *unix_socket_name(address.path);
  // The descriptor's mode, less the umask, becomes that of the file: nobody else can connect in the
  // moment before chmod().
  ::fchmod(fd_, kUnixMode);
  if (::bind(fd_, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0)
    return refuse("bind");
  inode_ = inode_of(address.path);
  ::chmod(address.path.c_str(), kUnixMode);
  return {};
}

std::unexpected<Error> ListeningSocket::refuse(const char* what) const {
  const int error = errno;
  std::string message =
      "cannot " + std::string(what) + " " + to_string(address_) + ": " + std::strerror(error);
  const auto* ip = std::get_if<SocketAddress>(&address_);
  if (error == EADDRINUSE && ip != nullptr) message += "; " + describe_owner(*ip, Protocol::Tcp);
  if (const auto* path = std::get_if<UnixAddress>(&address_);
      error == EADDRINUSE && path != nullptr)
    if (const std::string obstacle = obstacle_at(*path); !obstacle.empty())
      message += "; " + obstacle;
  return fail(std::move(message));
}

namespace {

// A connection's memory holds the request as it is read and the headers of the response; besides
// the header we leave room for the latter.
constexpr std::size_t kConnectionMemory = HttpServer::kMaxHeaderBytes + 2'048;

// After an accept() without descriptors or memory: what lacks them is elsewhere, and takes a while.
constexpr std::uint64_t kAcceptPauseMs = 100;
constexpr int kBacklog = 1'024;
// Connections accepted before those that are there get their turn again.
constexpr int kAcceptsPerTurn = 16;
// A client that reads fast keeps libmicrohttpd busy: new connections get their turn between these.
constexpr int kRoundsPerTurn = 16;
// Not 0: libuv calls a timer that its callback starts with 0 again before it looks at a socket.
constexpr std::chrono::milliseconds kTurnPause{1};
// RFC 9325, section 3.1.1: no older versions.
constexpr char kTlsVersions[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
// A page may take long to make: the loop does its other work before the next one.
constexpr std::size_t kTasksPerTurn = 1;

}  // namespace

std::optional<IpAddress> peer_of(const sockaddr* address) {
  const auto client = address == nullptr ? std::nullopt : IpAddress::from_sockaddr(address);
  return client ? std::optional(limit_key_of(*client)) : std::nullopt;
}

Result<void> HttpServer::Impl::start(uv_loop_t* owner_loop) {
  const auto refuse = [&](const std::string& why) {
    return fail(why + " for " + to_string(address()));
  };
  const auto refuse_loop = [&](const std::string& what, int error) {
    return refuse(what + " (" + uv_strerror(error) + ")");
  };
  if (const int error = uv_loop_init(&loop_); error != 0)
    return refuse_loop("cannot create an event loop", error);
  loop_open_ = true;
  daemon_ = start_microhttpd();
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

MHD_Daemon* HttpServer::Impl::start_microhttpd() {
  unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME;
  std::array<MHD_OptionItem, 3> tls{{{MHD_OPTION_END, 0, nullptr}}};
  if (certificate_) {
    flags |= MHD_USE_TLS;
    tls = {{{MHD_OPTION_HTTPS_CERT_CALLBACK, 0, TlsCertificate::callback()},
            {MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>(kTlsVersions)},
            {MHD_OPTION_END, 0, nullptr}}};
  }
  return MHD_start_daemon(
      flags, 0, nullptr, nullptr, &Impl::on_request, this, MHD_OPTION_CONNECTION_LIMIT,
      kMaxConnections + kAcceptsPerTurn, MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionMemory,
      MHD_OPTION_NOTIFY_CONNECTION, &Impl::on_connection, this, MHD_OPTION_NOTIFY_COMPLETED,
      &Impl::on_completed, this, MHD_OPTION_ARRAY, tls.data(), MHD_OPTION_END);
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
  gate_.close();
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

void HttpServer::Impl::set_access(HttpAccess access) {
  to_server_.post([this, access = std::move(access)]() mutable {
    certificate_ = std::move(access.certificate);
    gate_.set_passwords(std::move(access.passwords));
  });
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
    const bool is_full = connections_.size() >= kMaxConnections;
    Connection* leaves = is_full ? first_to_leave() : nullptr;
    if (is_full && leaves == nullptr) {
      accept_again_at_ = now() + static_cast<std::uint64_t>(deadlines_.place.count());
      break;
    }
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
    // A client with more than its share loses a connection of its own.
    const auto key = peer_of(reinterpret_cast<sockaddr*>(&peer));
    if (connections_per_peer_ > 0 && key && connections_of(*key) >= connections_per_peer_) {
      leaves = first_to_leave(&*key);
      if (leaves == nullptr) {
        ++counters_.evicted;
        ::close(fd);
        continue;
      }
    }
    if (leaves != nullptr && is_full)
      crowded_until_ = now() + static_cast<std::uint64_t>(deadlines_.request.count());
    if (leaves != nullptr) {
      evict(*leaves);
      MHD_run(daemon_);
    }
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

// The connection whose request or whose reading of a response began first. Connections whose
// handler is under way stay, and watches; they are fewer than kMaxConnections. So do new ones,
// whose clients had no time to ask: null if there are no others.
HttpServer::Impl::Connection* HttpServer::Impl::first_to_leave(const IpAddress* of_peer) {
  const auto place = static_cast<std::uint64_t>(deadlines_.place.count());
  Connection* first = nullptr;
  for (auto& [connection, state] : connections_) {
    if (state.is_ended || state.phase == Phase::Waiting) continue;
    if (of_peer != nullptr && state.peer != *of_peer) continue;
    if (state.stream && state.stream->is_watch()) continue;
    if (state.responses == 0 && now() < state.since + place) continue;
    if (first == nullptr || state.order < first->order) first = &state;
  }
  return first;
}

std::size_t HttpServer::Impl::connections_of(const IpAddress& peer) const {
  return static_cast<std::size_t>(std::ranges::count_if(connections_, [&](const auto& item) {
    return !item.second.is_ended && item.second.peer == peer;
  }));
}

void HttpServer::Impl::evict(Connection& connection) {
  ++counters_.evicted;
  end(connection);
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
    evict(*oldest);
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

// Some rounds of libmicrohttpd, and the time of the next one if no socket calls before.
void HttpServer::Impl::turn() {
  MHD_UNSIGNED_LONG_LONG timeout = 0;
  for (int i = 0; i < kRoundsPerTurn && timeout == 0; ++i) {
    MHD_run(daemon_);
    if (MHD_get_timeout(daemon_, &timeout) != MHD_YES) break;
  }
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
      resume(it, busy());
      continue;
    }
    if (state.phase == Phase::Streaming && state.stream->give_up()) {
      state.since = now();
      continue;
    }
    // A client that keeps an idle connection does nothing wrong, and neither does a browser that
    // opens a spare one.
    if (state.phase != Phase::Reading || (state.responses == 0 && has_received(state.fd)))
      ++counters_.overdue;
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
  next ? timer_.start(std::max(*next, kTurnPause)) : timer_.stop();
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

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
const AdminAddress& HttpServer::address() const { return impl_->address(); }
bool HttpServer::has_its_path() const { return impl_->has_its_path(); }
void HttpServer::set_access(HttpAccess access) { impl_->set_access(std::move(access)); }

Result<void> HttpServer::try_address(const AdminAddress& address) {
  if (auto opened = ListeningSocket::open(address, 1); !opened)
    return std::unexpected(opened.error());
  return {};
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(uv_loop_t* loop, const AdminAddress& address,
                                                     HttpRoutes routes, HttpCounters& counters,
                                                     const HttpDeadlines& deadlines,
                                                     HttpAccess access,
                                                     std::optional<pid_t> leaving) {
  auto socket = ListeningSocket::open(address, kBacklog, leaving);
  if (!socket) return std::unexpected(socket.error());
  auto impl = std::make_unique<Impl>(std::move(*socket), std::move(routes), counters, deadlines,
                                     std::move(access));
  if (auto started = impl->start(loop); !started) return std::unexpected(started.error());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

}  // namespace meshdns::dnsd
