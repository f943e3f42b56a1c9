// SPDX-License-Identifier: Apache-2.0
// Reports readiness, status and heartbeats to systemd (sd_notify(3)).  Without a supervisor it does
// nothing.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace meshdns::dnsd {

// Control thread.
class Supervisor {
 public:
  void ready(const std::string& status);
  // Between both, a reload goes on (Type=notify-reload; `systemctl reload` waits for the end).
  void reloading();
  void reloaded();
  void stopping();
  // The line of `systemctl status`.  Sent when it differs from the last one.
  void set_status(const std::string& status);
  // How often feed_watchdog() wants to be called; nullopt: nobody waits for it.
  static std::optional<std::chrono::milliseconds> watchdog_interval();
  // While all is well; sends no more than WATCHDOG_USEC asks for.
  void feed_watchdog();

 private:
  using Clock = std::chrono::steady_clock;

  bool is_ready_ = false;
  std::string status_;
  Clock::time_point fed_;
};

}  // namespace meshdns::dnsd
