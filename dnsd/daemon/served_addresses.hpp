// SPDX-License-Identifier: Apache-2.0
// The addresses that the daemon serves: its sockets for DNS and for the admin endpoints, at the
// start, in an upgrade from one daemon to the next, and after a reload.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dnsd/admin/admin_endpoint.hpp"
#include "dnsd/admin/http_server.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/net/listeners.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// The certificate and the passwords of admin.metrics_listen, through changes of their files.
// Control thread.
class MetricsAccess {
 public:
  // Reads the files that `admin` names.  An Error names the key and the file.  access() is as
  // before then, if the names are; otherwise it is empty.
  Result<void> read(const AdminConfig& admin);
  // Call every second or so.  Whether a file has changed since read(), and not since the last call:
  // a certificate and its key are often written one after the other.
  bool has_changed();

  // Nullopt: the files cannot be used, and nothing must be served without them.
  const std::optional<HttpAccess>& access() const { return access_; }
  // Why the files as they are now are not used; empty: they are.
  const std::string& trouble() const { return trouble_; }

 private:
  // Differs after a file was written, replaced or given other permissions; all 0 if there is none.
  struct Stamp {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t changed_ns = 0;
    std::int64_t size = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  using Files = std::array<std::string, 3>;  // certificate, key, passwords; empty = none
  using Stamps = std::array<Stamp, 3>;

  static Stamp stamp_of(const std::string& path);
  Stamps look() const;
  Result<HttpAccess> read_files() const;

  Files files_;
  Stamps read_;  // as of read()
  Stamps seen_;  // as of the last has_changed()
  std::optional<HttpAccess> access_;
  std::string trouble_;
};

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
  // Returns whether a supervisor has given any.
  bool are_inherited() const { return are_inherited_; }

  // Opens all listeners of the configuration.  Waits a while for those that another process has.
  // The Error names every address that cannot be used.
  Result<void> open();
  // The same with the sockets of the daemon before this one; opens those that it did not have.
  Result<void> take_over(std::vector<HandedListener> handed);
  // Opens the admin endpoints.  A daemon that this one replaces closes its own ones last.  An
  // address that cannot be bound is logged, and is tried again when is_due().  The one for metrics
  // stays closed as long as its certificate or its passwords cannot be used.
  void open_admin();
  // Opens those admin endpoints whose addresses are free, while another daemon has the others: a
  // Unix socket in a directory of this daemon alone, say.
  void open_free_admin();
  // Gives the next open_admin() time for another daemon to leave its ports, and the paths of its
  // Unix sockets.  `other`: as Predecessor::pid().
  void replace_admin_of(pid_t other);
  // Leaves the ports to another daemon.  A Unix socket stays open to the end: it may have a
  // directory that the other daemon does not see.
  void leave_admin_ports();
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
  // The addresses with a UDP socket.
  std::vector<SocketAddress> udp_addresses() const;
  std::vector<AdminAddress> admin_addresses() const { return admin_.addresses(); }
  // The same for the log, with a comma between two; "off" if there are none.
  std::string admin_text() const;

 private:
  Result<void> open_beside(const ListenerSet& present);
  std::vector<std::string> serve_admin();
  Result<void> serve_metrics();
  void log_unbound(const std::vector<std::string>& said);
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
