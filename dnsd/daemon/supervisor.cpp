// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/supervisor.hpp"

#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>
#include <cstdint>

namespace meshdns::dnsd {
namespace {

std::uint64_t monotonic_usec() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
}

std::optional<std::chrono::microseconds> watchdog_time() {
  std::uint64_t usec = 0;
  if (::sd_watchdog_enabled(0, &usec) <= 0) return std::nullopt;
  return std::chrono::microseconds(usec);
}

constexpr std::chrono::milliseconds kShortestFeed{10};
constexpr std::chrono::milliseconds kLongestFeed{1'000};

}  // namespace

void Supervisor::ready(const std::string& status) {
  is_ready_ = true;
  status_ = status;
  ::sd_notify(0, ("READY=1\nSTATUS=" + status).c_str());
}

void Supervisor::reloading() {
  if (!is_ready_) return;
  // The time is what Type=notify-reload recognises the reload by.
  ::sd_notify(0, ("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(monotonic_usec())).c_str());
}

void Supervisor::reloaded() {
  if (is_ready_) ::sd_notify(0, "READY=1");
}

void Supervisor::stopping() { ::sd_notify(0, "STOPPING=1\nSTATUS=answering queries in flight"); }

void Supervisor::set_status(const std::string& status) {
  if (!is_ready_ || status == status_) return;
  status_ = status;
  ::sd_notify(0, ("STATUS=" + status).c_str());
}

// A call that comes a little late must not make a gap that is too long.
std::optional<std::chrono::milliseconds> Supervisor::watchdog_interval() {
  const auto time = watchdog_time();
  if (!time) return std::nullopt;
  return std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(*time / 8), kShortestFeed,
                    kLongestFeed);
}

void Supervisor::feed_watchdog() {
  const auto time = watchdog_time();
  if (!time) return;
  const auto now = Clock::now();
  // Half of the time at most, as sd_watchdog_enabled(3) advises.
  if (now - fed_ < *time / 3) return;
  fed_ = now;
  ::sd_notify(0, "WATCHDOG=1");
}

}  // namespace meshdns::dnsd
