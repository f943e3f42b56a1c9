// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/supervisor.hpp"

#include <systemd/sd-daemon.h>
#include <time.h>

#include <cstdint>

namespace meshdns::dnsd {
namespace {

std::uint64_t monotonic_usec() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
}

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

void Supervisor::feed_watchdog() {
  std::uint64_t usec = 0;
  if (::sd_watchdog_enabled(0, &usec) <= 0) return;
  const auto now = Clock::now();
  // Half of the time, as sd_watchdog_enabled(3) advises.
  if (now - fed_ < std::chrono::microseconds(usec / 2)) return;
  fed_ = now;
  ::sd_notify(0, "WATCHDOG=1");
}

}  // namespace meshdns::dnsd
