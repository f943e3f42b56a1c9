// SPDX-License-Identifier: Apache-2.0
#include "registry/base/idle.hpp"

#include "registry/base/check_loop.hpp"

namespace meshdns::loop {

Idle::Idle(uv_loop_t* loop, Callback callback) {
  check_loop(
      begin(std::move(callback), [loop](uv_idle_t* idle) { return uv_idle_init(loop, idle); }),
      "have work for each turn");
}

void Idle::start() { check_loop(uv_idle_start(get(), call), "have work for each turn"); }

void Idle::stop() { check_loop(uv_idle_stop(get()), "have no more work"); }

}  // namespace meshdns::loop
