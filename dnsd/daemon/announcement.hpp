// SPDX-License-Identifier: Apache-2.0
// The end of a start, as the log, the supervisor and a person at a terminal hear of it.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dnsd/config/admin_address.hpp"
#include "registry/base/socket_address.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::dnsd {

// Reports readiness, status and heartbeats to systemd (sd_notify(3)).  Without a supervisor it does
// nothing.  Control thread.
class Supervisor {
 public:
  void ready(const std::string& status);
  // Between both, a reload goes on (Type=notify-reload; `systemctl reload` waits for the end).
  void reloading();
  void reloaded();
  void stopping();
  // The daemon ends without having been ready.
  static void failed(const std::string& reason);
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

// Returns three lines for a person at a terminal: a question to ask, the address of the page, and
// how to stop.  The question is for the shortest name with an address that a client of this
// machine sees, or, if there is none, for a name that is forwarded.  `admin`: the addresses of the
// admin endpoint; a browser wants one with a port.  REQUIRES: `listen` is not empty.
std::string first_steps(const registry::Snapshot& snapshot, std::span<const SocketAddress> listen,
                        std::span<const AdminAddress> admin);

// Returns whether standard error is a terminal.
bool is_at_terminal();
// Writes the text to standard error; not at all if the terminal takes no text now.
void show_at_terminal(std::string_view text);

}  // namespace meshdns::dnsd
