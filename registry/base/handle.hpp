// SPDX-License-Identifier: Apache-2.0
// The ownership of a handle of a libuv loop, which is the same for every kind of handle.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <utility>

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

}  // namespace meshdns::loop
