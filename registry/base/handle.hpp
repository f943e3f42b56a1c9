// SPDX-License-Identifier: Apache-2.0
// The ownership of a handle of a libuv loop, which is the same for every kind of handle, and the
// check of calls of the loop.
#pragma once

#include <uv.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

namespace meshdns {

// The rule for calls of the event loop: no result is ignored.  A call that can fail for want of
// something (descriptors, memory) is handled where it stands.  A call that fails only when we break
// the loop's rules goes through check_loop(), because a timer that never fires or a socket that
// nobody hears leaves a daemon that runs and does not work.
//
// Ends the process by SIGABRT, with a line on standard error, when `status` is an error: libuv's,
// which is a negative errno.  `what`: what could not be done, "start a timer".
void check_loop(int status, const char* what);

}  // namespace meshdns

namespace meshdns::loop {

// Owns a libuv handle and its callback.  Base of Timer and Poll, for example.  The loop's thread
// only.
//
// libuv uses the memory of a handle until its close callback, in a later turn of the loop.  That
// callback frees the handle, our callback and all that our callback holds.  So a callback may
// close, destroy or reopen its own handle, and may own the object that the handle is a member of.
//
// REQUIRES: the loop runs, or is run to its end, after close() and the destructor.
template <typename UvHandle, typename Signature>
class Handle {
 public:
  using Callback = std::move_only_function<Signature>;

  // Nothing is called after this.
  void close() { state_.reset(); }
  bool is_open() const { return state_ != nullptr; }
  // Returns whether a call is still to come.
  bool is_active() const { return state_ != nullptr && uv_is_active(state_->base()) != 0; }
  // The loop may end while the handle is open.  REQUIRES: is_open().
  void unref() { uv_unref(state_->base()); }

 protected:
  Handle() = default;
  Handle(Handle&&) noexcept = default;
  Handle& operator=(Handle&&) noexcept = default;
  ~Handle() = default;

  // Closes the handle that was open and begins a new one with `init`, which returns libuv's error.
  // After an error there is no handle, and `callback` is destroyed.
  template <typename Init>
  int begin(Callback callback, Init init) {
    close();
    auto state = std::make_unique<State>(std::move(callback));
    if (const int error = init(&state->handle); error != 0) return error;
    state->handle.data = state.get();
    state_.reset(state.release());
    return 0;
  }
  UvHandle* get() const { return &state_->handle; }

  // Calls the callback, from libuv's.
  template <typename... Arguments>
  static void call(UvHandle* handle, Arguments... arguments) {
    static_cast<State*>(handle->data)->callback(arguments...);
  }

 private:
  struct State {
    explicit State(Callback call) : callback(std::move(call)) {}
    uv_handle_t* base() { return reinterpret_cast<uv_handle_t*>(&handle); }

    UvHandle handle{};
    Callback callback;
  };
  struct Close {
    void operator()(State* state) const {
      uv_close(state->base(),
               [](uv_handle_t* handle) { delete static_cast<State*>(handle->data); });
    }
  };
  std::unique_ptr<State, Close> state_;
};

// A timer of a libuv loop.
// The loop's thread only.  The callback may stop, start, close or destroy the timer (see Handle).
class Timer : public Handle<uv_timer_t, void()> {
 public:
  // Without a loop: open() comes first.
  Timer() = default;
  Timer(uv_loop_t* loop, Callback callback) { open(loop, std::move(callback)); }

  // Sets the callback.  A timer that was open is closed first.
  void open(uv_loop_t* loop, Callback callback);

  // REQUIRES for start() and repeat(): is_open().

  // Calls back once after `delay`, and forgets what was started before.  A negative delay is none.
  void start(std::chrono::milliseconds delay);
  // Calls back every `interval`, and forgets what was started before.
  void repeat(std::chrono::milliseconds interval);
  // Forgets what was started.  The timer may be started again.
  void stop();
};

// A file descriptor that a libuv loop watches.
// The loop's thread only.  Does not own the descriptor.  The callback gets libuv's status and
// events; a negative status is an error, after which nothing is watched until the next watch().
// The callback may close or destroy the poll (see Handle).
class Poll : public Handle<uv_poll_t, void(int status, int events)> {
 public:
  // Returns libuv's error: the descriptor cannot be watched, or the system has no room for it.
  // REQUIRES: `fd` stays open until close().
  [[nodiscard]] int open(uv_loop_t* loop, int fd, Callback callback);
  // Watches for `events` (UV_READABLE, UV_WRITABLE) instead of those before; 0: for none.
  // REQUIRES: is_open().
  void watch(int events);
};

// Work that is left for the next turns of a libuv loop.
// The loop's thread only.  The callback may stop, close or destroy this (see Handle).
class Idle : public Handle<uv_idle_t, void()> {
 public:
  Idle(uv_loop_t* loop, Callback callback);

  // REQUIRES for both: is_open().

  // Calls back once in each turn, before the loop looks at descriptors.  It does not sleep then.
  void start();
  void stop();
};

}  // namespace meshdns::loop
