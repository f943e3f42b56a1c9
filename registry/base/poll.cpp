// SPDX-License-Identifier: Apache-2.0
#include "registry/base/poll.hpp"

#include "registry/base/check_loop.hpp"

namespace meshdns::loop {

int Poll::open(uv_loop_t* loop, int fd, Callback callback) {
  return begin(std::move(callback),
               [loop, fd](uv_poll_t* poll) { return uv_poll_init(loop, poll, fd); });
}

void Poll::watch(int events) {
  check_loop(events == 0 ? uv_poll_stop(get()) : uv_poll_start(get(), events, call),
             "watch a descriptor");
}

}  // namespace meshdns::loop
