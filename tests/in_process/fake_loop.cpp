// SPDX-License-Identifier: Apache-2.0
#include "tests/in_process/fake_loop.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace meshdns::dnsd::test {
namespace {

// A TCP handshake sends three segments, each in reply to the one before.
constexpr int kLongestExchange = 4;

int socket_to_itself() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (fd < 0) std::abort();
  if (bind(fd, any, size) != 0 || getsockname(fd, any, &size) != 0 || connect(fd, any, size) != 0)
    std::abort();
  return fd;
}

}  // namespace

FakeLoop::FakeLoop() : echo_(socket_to_itself()) { uv_loop_init(&loop_); }

FakeLoop::~FakeLoop() {
  uv_run(&loop_, UV_RUN_DEFAULT);
  if (uv_loop_close(&loop_) != 0) std::abort();  // a handle was left open
  close(echo_);
}

bool FakeLoop::is_ready() const {
  pollfd fd{.fd = uv_backend_fd(&loop_), .events = POLLIN, .revents = 0};
  return poll(&fd, 1, 0) > 0;
}

// The loopback interface delivers in order: when a datagram of our own arrives, all that was sent
// before it has arrived, too.
void FakeLoop::await_deliveries() const {
  for (int i = 0; i < kLongestExchange; ++i) {
    char octet = 0;
    if (send(echo_, &octet, 1, 0) != 1 || recv(echo_, &octet, 1, 0) != 1) std::abort();
  }
}

bool FakeLoop::run_until(const std::function<bool()>& done, std::chrono::milliseconds limit) {
  uv_update_time(&loop_);
  const Millis end = now() + static_cast<Millis>(limit.count());
  for (;;) {
    uv_run(&loop_, UV_RUN_NOWAIT);
    if (done()) return true;
    const int timeout = uv_backend_timeout(&loop_);
    if (timeout == 0 || is_ready()) continue;
    await_deliveries();
    if (is_ready()) continue;
    if (now() >= end) return false;
    const Millis rest = end - now();
    const Millis step = timeout < 0 ? rest : std::min(rest, static_cast<Millis>(timeout));
    time_.advance(std::chrono::milliseconds(step));
  }
}

void FakeLoop::run_for(std::chrono::milliseconds time) {
  run_until([] { return false; }, time);
}

}  // namespace meshdns::dnsd::test
