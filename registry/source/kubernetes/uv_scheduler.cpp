// SPDX-License-Identifier: Apache-2.0
#include <uv.h>

#include <algorithm>
#include <utility>

#include "loop/check_loop.hpp"
#include "registry/source/kubernetes/scheduler.hpp"

namespace meshdns::registry::kubernetes {
namespace {

// The handle lives until libuv has closed it, the timer as long as its owner wants.
struct Handle {
  uv_timer_t timer{};
  std::function<void()> work;
};

class UvTimer final : public Timer {
 public:
  UvTimer(uv_loop_t* loop, Milliseconds delay, std::function<void()> work) : handle_(new Handle) {
    handle_->work = std::move(work);
    uv_timer_init(loop, &handle_->timer);
    handle_->timer.data = handle_;
    const auto wait = std::max(delay, Milliseconds(0));
    uv_update_time(loop);
    check_loop(uv_timer_start(
                   &handle_->timer,
                   [](uv_timer_t* timer) {
                     // Moved out: the work may destroy the timer.
                     const auto now = std::move(static_cast<Handle*>(timer->data)->work);
                     now();
                   },
                   static_cast<std::uint64_t>(wait.count()), 0),
               "start a timer");
  }
  ~UvTimer() override {
    uv_close(reinterpret_cast<uv_handle_t*>(&handle_->timer),
             [](uv_handle_t* handle) { delete static_cast<Handle*>(handle->data); });
  }
  UvTimer(const UvTimer&) = delete;
  UvTimer& operator=(const UvTimer&) = delete;

 private:
  Handle* handle_;
};

class UvScheduler final : public Scheduler {
 public:
  explicit UvScheduler(uv_loop_t* loop) : loop_(loop) {}
  Milliseconds now() const override {
    return Milliseconds(static_cast<Milliseconds::rep>(uv_hrtime() / 1'000'000));
  }
  std::unique_ptr<Timer> after(Milliseconds delay, std::function<void()> work) override {
    return std::make_unique<UvTimer>(loop_, delay, std::move(work));
  }

 private:
  uv_loop_t* loop_;
};

}  // namespace

std::unique_ptr<Scheduler> make_uv_scheduler(uv_loop_s* loop) {
  return std::make_unique<UvScheduler>(loop);
}

}  // namespace meshdns::registry::kubernetes
