// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/tcp_acceptors.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "registry/base/file_descriptor.hpp"
#include "registry/base/handle.hpp"

namespace meshdns::dnsd {
namespace {

constexpr int kAcceptsPerTurn = 64;
constexpr std::chrono::milliseconds kAcceptPause{100};

// A connection that was accepted says by its number how full the table of files is.
int highest_usable_fd(std::uint32_t reserved) {
  const auto most = static_cast<int>(descriptor_limit());
  const FileDescriptor lowest_free(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int left = lowest_free ? most - lowest_free.get() : 0;
  // A reserve that takes more than half of what is left would leave TCP nothing.
  return most - 1 - std::min(static_cast<int>(reserved), left / 2);
}

}  // namespace

// Owned by the callback of its poll, which goes when the loop has closed the handle: an acceptor
// may be in use when it is closed.
struct TcpAcceptors::Acceptor {
  loop::Poll poll;
  std::shared_ptr<ListenSocket> listen;
};

TcpAcceptors::TcpAcceptors(uv_loop_t* loop, WorkerCounters& counters, std::uint32_t reserved_files,
                           AcceptListener& listener)
    : loop_(loop),
      counters_(counters),
      listener_(listener),
      max_accepted_fd_(highest_usable_fd(reserved_files)),
      pause_timer_(loop, [this] { resume(); }) {}

TcpAcceptors::~TcpAcceptors() = default;

void TcpAcceptors::close() {
  for (const auto& acceptor : acceptors_) acceptor->poll.close();
  acceptors_.clear();
  pause_timer_.close();
}

int TcpAcceptors::add(std::shared_ptr<ListenSocket> listen) {
  const auto acceptor = std::make_shared<Acceptor>();
  acceptor->listen = std::move(listen);
  const auto acceptable = [this, acceptor](int status, int) { on_acceptable(*acceptor, status); };
  const int error = acceptor->poll.open(loop_, acceptor->listen->fd.get(), acceptable);
  if (error != 0) return error;
  if (!is_paused_ && !is_stopped_) acceptor->poll.watch(UV_READABLE);
  acceptors_.push_back(acceptor);
  return 0;
}

bool TcpAcceptors::has(const ListenSocket& listen) const {
  return std::any_of(acceptors_.begin(), acceptors_.end(),
                     [&](const auto& a) { return a->listen.get() == &listen; });
}

std::vector<const ListenSocket*> TcpAcceptors::sockets() const {
  std::vector<const ListenSocket*> all;
  for (const auto& a : acceptors_) all.push_back(a->listen.get());
  return all;
}

void TcpAcceptors::stop_accepting() {
  is_stopped_ = true;
  watch();
}

void TcpAcceptors::accept_again() {
  is_stopped_ = false;
  watch();
}

void TcpAcceptors::retire(const ListenSocket& listen, Waiting waiting) {
  const auto found = std::find_if(acceptors_.begin(), acceptors_.end(),
                                  [&](const auto& a) { return a->listen.get() == &listen; });
  if (found == acceptors_.end()) return;
  // Lives on for poll.close(), which its place in acceptors_ does not.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::shared_ptr<Acceptor> acceptor = *found;
  // The kernel resets the connections in the queue of a socket that closes.  An inherited socket
  // passes its queue on, as does one that others serve, too.
  if (!listen.inherited && waiting == Waiting::Answered) {
    accept_waiting(*acceptor);
    // Other processes may hold the socket, too: this makes the kernel give new clients to them.
    ::shutdown(listen.fd.get(), SHUT_RD);
  }
  acceptors_.erase(found);
  acceptor->poll.close();
}

void TcpAcceptors::on_acceptable(Acceptor& acceptor, int status) {
  if (status < 0) {
    counters_.tcp_accept_errors.add();
    pause();
    return;
  }
  accept_waiting(acceptor);
}

void TcpAcceptors::accept_waiting(Acceptor& acceptor) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const int fd = ::accept4(acceptor.listen->fd.get(), reinterpret_cast<sockaddr*>(&peer), &size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
      take(FileDescriptor(fd), *acceptor.listen, peer);
    else if (errno == EAGAIN)
      return;
    else
      note_failure(errno);
    if (is_paused_) return;
  }
}

void TcpAcceptors::take(FileDescriptor fd, const ListenSocket& listen,
                        const sockaddr_storage& peer) {
  const auto* const v4 = reinterpret_cast<const sockaddr_in*>(&peer);
  const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(&peer);
  const auto client = IpAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&peer));
  const std::uint16_t port = ntohs(peer.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
  if (client && leave_reserve(fd)) listener_.on_accepted(std::move(fd), listen, *client, port);
}

void TcpAcceptors::note_failure(int error) {
  if (error == EINTR || error == ECONNABORTED) return;
  counters_.tcp_accept_errors.add();
  if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM) return;
  // Polling goes on telling us of the client that we cannot accept: without a pause we would spin.
  listener_.close_longest_idle();
  pause();
}

// One closes for one that opens, which takes over its number: with its own it would stand in the
// reserve, and the next one, finding the lower number free, would not see that all are in use.
// False: nobody is idle, and the reserve stays for others.
bool TcpAcceptors::leave_reserve(FileDescriptor& fd) {
  if (fd.get() <= max_accepted_fd_) return true;
  if (listener_.close_longest_idle()) fd = FileDescriptor(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (fd && fd.get() <= max_accepted_fd_) return true;
  counters_.tcp_rejected_files.add();
  pause();
  return false;
}

void TcpAcceptors::pause() {
  is_paused_ = true;
  watch();
  pause_timer_.start(kAcceptPause);
}

void TcpAcceptors::resume() {
  is_paused_ = false;
  watch();
}

void TcpAcceptors::watch() {
  for (const auto& a : acceptors_) a->poll.watch(is_paused_ || is_stopped_ ? 0 : UV_READABLE);
}

}  // namespace meshdns::dnsd
