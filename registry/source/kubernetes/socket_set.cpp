// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/socket_set.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "registry/base/handle.hpp"

namespace meshdns::registry::kubernetes {
namespace {

// Events of one turn of the loop.  The others come in the next turn.
constexpr int kEventsPerTurn = 64;

std::unexpected<Error> fail_with_error(const char* what, int error) {
  return fail(std::string(what) + ": " + std::strerror(error));
}

}  // namespace

// The callback of the poll shares it, because the listener may destroy the set.
struct SocketSet::Engine {
  explicit Engine(Listener listening) : listener(std::move(listening)) {}
  ~Engine() {
    if (epoll >= 0) ::close(epoll);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void turn();

  int epoll = epoll_create1(EPOLL_CLOEXEC);
  Listener listener;
  loop::Poll poll;
};

// One event at a time: what the listener does may close a socket, and the next event must not be
// that of a closed one, or of another that has its number.
void SocketSet::Engine::turn() {
  for (int left = kEventsPerTurn; left > 0 && poll.is_open(); --left) {
    epoll_event event{};
    const int count = epoll_wait(epoll, &event, 1, 0);
    check_loop(count >= 0 || errno == EINTR ? 0 : -errno, "read the events of connections");
    if (count != 1) return;
    const bool is_broken = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
    listener(event.data.fd, {.readable = is_broken || (event.events & EPOLLIN) != 0,
                             .writable = is_broken || (event.events & EPOLLOUT) != 0});
  }
}

Result<std::unique_ptr<SocketSet>> SocketSet::open(uv_loop_t* loop, Listener listener) {
  auto engine = std::make_shared<Engine>(std::move(listener));
  if (engine->epoll < 0) return fail_with_error("cannot watch connections", errno);
  const auto turn = [engine](int, int) { engine->turn(); };
  if (const int error = engine->poll.open(loop, engine->epoll, turn); error != 0)
    return fail_with_error("cannot watch connections", -error);
  engine->poll.watch(UV_READABLE);
  return std::unique_ptr<SocketSet>(new SocketSet(std::move(engine)));
}

SocketSet::~SocketSet() { engine_->poll.close(); }

Result<void> SocketSet::watch(int socket, Readiness interest) {
  epoll_event event{};
  event.data.fd = socket;
  event.events = (interest.readable ? EPOLLIN : 0U) | (interest.writable ? EPOLLOUT : 0U);
  // An error would be reported again and again to a socket of which nothing is wanted.
  if (event.events == 0) {
    forget(socket);
    return {};
  }
  if (epoll_ctl(engine_->epoll, EPOLL_CTL_MOD, socket, &event) == 0) return {};
  if (errno == ENOENT && epoll_ctl(engine_->epoll, EPOLL_CTL_ADD, socket, &event) == 0) return {};
  const int error = errno;
  forget(socket);
  return fail_with_error("cannot watch the connection", error);
}

// It may not be in the set, or be closed already, which has removed it.
void SocketSet::forget(int socket) {
  epoll_event ignored{};
  (void)epoll_ctl(engine_->epoll, EPOLL_CTL_DEL, socket, &ignored);
}

}  // namespace meshdns::registry::kubernetes
