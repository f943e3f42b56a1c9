// SPDX-License-Identifier: Apache-2.0
// The addresses that the daemon serves: its sockets for DNS and for the admin endpoints, at the
// start, in an upgrade from one daemon to the next, and after a reload.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "dnsd/admin/admin_endpoint.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/daemon/metrics_access.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/net/listeners.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// Control thread.
class ServedAddresses {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // REQUIRES: all outlive it.  `config` may change; each call uses it as it is then.
  ServedAddresses(const Config& config, WorkerPool& workers, AdminEndpoint& admin,
                  AdminEndpoint& metrics, Log& log)
      : config_(config), workers_(workers), admin_(admin), metrics_(metrics), log_(log) {}

  // Takes `sockets` for the next open(): those that a supervisor has opened for this process.
  void inherit(std::vector<InheritedSocket> sockets);
  // Whether a supervisor has given any.
  bool are_inherited() const { return are_inherited_; }

  // Opens all listeners of the configuration.  Waits a while for those that another process has.
  // The Error names every address that cannot be used.
  Result<void> open();
  // The same with the sockets of the daemon before this one; opens those that it did not have.
  Result<void> take_over(std::vector<HandedListener> handed);
  // Opens the admin endpoints.  A daemon that this one replaces closes its own ones last.  The one
  // for metrics stays closed as long as its certificate or its passwords cannot be used: that is no
  // reason to answer no queries.
  Result<void> open_admin();
  // Gives the next open_admin() time for another daemon to close its endpoints.
  void expect_other_admin();
  void close_admin();

  // Serves the addresses of the configuration, the workers included.  An address that cannot be
  // bound is logged once, and is tried again when is_due().
  void bind();
  // The next bind() logs all failures, also those that have been logged.
  void forget_failures() { unbound_.clear(); }
  bool is_due(Time now) const { return !unbound_.empty() && now >= bind_again_at_; }
  // Call every second or so.  Whether bind() would find other files of admin.metrics_listen.
  bool have_metrics_files_changed();

  // Addresses of the configuration that cannot be bound, with the reason; others serve meanwhile.
  const std::vector<std::string>& unbound() const { return unbound_; }
  // Why a file of admin.metrics_listen is not used, and what is done instead; empty: all are.
  std::string metrics_trouble() const;
  const ListenerSet& listeners() const { return listeners_; }
  ListenerSet& listeners() { return listeners_; }
  std::vector<SocketAddress> addresses() const { return listeners_.addresses(); }
  // Of those, with a UDP socket.
  std::vector<SocketAddress> udp_addresses() const;
  // Of the admin endpoint, or "off".
  std::string admin_address() const { return admin_.address(); }

 private:
  Result<void> open_beside(const ListenerSet& present);
  Result<void> serve_admin();
  Result<void> serve_metrics();
  void read_metrics_files();
  bool may_wait() const;
  void apply_listeners();

  const Config& config_;
  WorkerPool& workers_;
  AdminEndpoint& admin_;
  AdminEndpoint& metrics_;
  MetricsAccess metrics_access_;
  Log& log_;
  std::vector<InheritedSocket> inherited_;  // until listeners_ has them
  bool are_inherited_ = false;
  ListenerSet listeners_;
  std::vector<std::string> unbound_;
  Time bind_again_at_;
  Time wait_until_;  // during the start; the past if nothing waits
};

}  // namespace meshdns::dnsd
