// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/socket_set.hpp"

#include <sys/epoll.h>
#include <unistd.h>
#include <uv.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "loop/check_loop.hpp"

namespace meshdns::registry::kubernetes {
namespace {

// Events of one turn of the loop.  The others come in the next turn.
constexpr int kEventsPerTurn = 64;

std::unexpected<Error> fail_with_error(const char* what, int error) {
  return fail(std::string(what) + ": " + std::strerror(error));
}

}  // namespace

struct SocketSet::Engine {
  uv_poll_t poll{};
  int epoll = -1;
  Listener listener;
  bool is_closed = false;

  void turn();
  static void close(Engine* engine);
};

// One event at a time: what the listener does may close a socket, and the next event must not be
// that of a closed one, or of another that has its number.
void SocketSet::Engine::turn() {
  for (int left = kEventsPerTurn; left > 0 && !is_closed; --left) {
    epoll_event event{};
    const int count = epoll_wait(epoll, &event, 1, 0);
    check_loop(count >= 0 || errno == EINTR ? 0 : -errno, "read the events of connections");
    if (count != 1) return;
    const bool is_broken = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
    listener(event.data.fd, {.readable = is_broken || (event.events & EPOLLIN) != 0,
                             .writable = is_broken || (event.events & EPOLLOUT) != 0});
  }
}

// The listener may be running: it goes with the handle.
void SocketSet::Engine::close(Engine* engine) {
  engine->is_closed = true;
  uv_close(reinterpret_cast<uv_handle_t*>(&engine->poll), [](uv_handle_t* handle) {
    auto* const closed = static_cast<Engine*>(handle->data);
    ::close(closed->epoll);
    delete closed;
  });
}

Result<std::unique_ptr<SocketSet>> SocketSet::open(uv_loop_t* loop, Listener listener) {
  auto engine = std::make_unique<Engine>();
  engine->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (engine->epoll < 0) return fail_with_error("cannot watch connections", errno);
  if (const int error = uv_poll_init(loop, &engine->poll, engine->epoll); error != 0) {
    ::close(engine->epoll);
    return fail_with_error("cannot watch connections", -error);
  }
  engine->listener = std::move(listener);
  engine->poll.data = engine.get();
  const int error = uv_poll_start(&engine->poll, UV_READABLE, [](uv_poll_t* poll, int, int) {
    static_cast<Engine*>(poll->data)->turn();
  });
  std::unique_ptr<SocketSet> set(new SocketSet(engine.release()));
  if (error != 0) return fail_with_error("cannot watch connections", -error);
  return set;
}

SocketSet::~SocketSet() { Engine::close(engine_); }

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
