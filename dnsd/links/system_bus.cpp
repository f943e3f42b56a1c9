// SPDX-License-Identifier: Apache-2.0
#include "dnsd/links/system_bus.hpp"

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <utility>

namespace meshdns::dnsd {
namespace {

// A container has no bus, and one look every so often costs nothing.
constexpr std::chrono::seconds kRetry{30};

// `due`: microseconds of CLOCK_MONOTONIC.
std::chrono::milliseconds until(std::uint64_t due) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto left = std::chrono::microseconds(due) - now;
  return std::chrono::ceil<std::chrono::milliseconds>(left);
}

}  // namespace

void SystemBus::open(uv_loop_t* loop, std::function<void(sd_bus*)> on_open,
                     std::function<void()> on_lost) {
  loop_ = loop;
  on_open_ = std::move(on_open);
  on_lost_ = std::move(on_lost);
  due_.open(loop, [this] { turn(); });
  retry_.open(loop, [this] { connect(); });
  connect();
}

void SystemBus::close() {
  poll_.close();
  due_.close();
  retry_.close();
  bus_.reset();
  watched_ = -1;
}

void SystemBus::connect() {
  sd_bus* bus = nullptr;
  if (sd_bus_open_system(&bus) < 0) return retry_.start(kRetry);
  bus_.reset(bus);
  on_open_(bus);
  turn();
}

void SystemBus::turn() {
  if (!bus_) return;
  int result = 0;
  do result = sd_bus_process(bus_.get(), nullptr);
  while (result > 0);
  if (result < 0 || !watch()) lose();
}

bool SystemBus::watch() {
  const int descriptor = sd_bus_get_fd(bus_.get());
  const int events = sd_bus_get_events(bus_.get());
  std::uint64_t due = 0;
  if (descriptor < 0 || events < 0 || sd_bus_get_timeout(bus_.get(), &due) < 0) return false;
  if (descriptor != watched_) {
    watched_ = descriptor;
    if (poll_.open(loop_, descriptor, [this](int, int) { turn(); }) != 0) return false;
  }
  poll_.watch(((events & POLLIN) != 0 ? UV_READABLE : 0) |
              ((events & POLLOUT) != 0 ? UV_WRITABLE : 0));
  if (due == UINT64_MAX)
    due_.stop();
  else
    due_.start(until(due));
  return true;
}

void SystemBus::lose() {
  poll_.close();
  due_.stop();
  on_lost_();
  bus_.reset();
  watched_ = -1;
  retry_.start(kRetry);
}

}  // namespace meshdns::dnsd
