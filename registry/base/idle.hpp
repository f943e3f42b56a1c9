// SPDX-License-Identifier: Apache-2.0
// Work that is left for the next turns of a libuv loop.
#pragma once

#include "registry/base/handle.hpp"

namespace meshdns::loop {

// The loop's thread only.  The callback may stop, close or destroy this (handle.hpp).
class Idle : public Handle<uv_idle_t, void()> {
 public:
  Idle(uv_loop_t* loop, Callback callback);

  // REQUIRES for both: is_open().

  // Calls back once in each turn, before the loop looks at descriptors.  It does not sleep then.
  void start();
  void stop();
};

}  // namespace meshdns::loop
