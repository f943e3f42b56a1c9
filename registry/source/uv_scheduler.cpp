// SPDX-License-Identifier: Apache-2.0
#include <uv.h>

#include <utility>

#include "registry/base/handle.hpp"
#include "registry/source/scheduler.hpp"

namespace meshdns::registry {
namespace {

class UvTimer final : public Timer {
 public:
  UvTimer(uv_loop_t* loop, Milliseconds delay, std::function<void()> work)
      : timer_(loop, std::move(work)) {
    uv_update_time(loop);
    timer_.start(delay);
  }

 private:
  loop::Timer timer_;
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

}  // namespace meshdns::registry
