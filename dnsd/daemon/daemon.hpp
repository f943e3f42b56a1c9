// The running daemon: one control thread (signals, sources, resolver engine, admin endpoint) and
// the workers that answer.
//
//     Daemon::start -> run (until SIGTERM or SIGINT) -> drain
#pragma once

#include <uv.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dnsd/admin/http_server.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/daemon/load_history.hpp"
#include "dnsd/daemon/registry_feed.hpp"
#include "dnsd/daemon/state_keeper.hpp"
#include "dnsd/forward/forwarder.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/net/counters.hpp"
#include "dnsd/query/failing_names.hpp"
#include "dnsd/query/forwarding_facts.hpp"
#include "dnsd/query/query_counters.hpp"
#include "dnsd/query/query_settings.hpp"
#include "registry/registry.hpp"
#include "registry/snapshot/publisher.hpp"
#include "registry/source/source.hpp"
#include "resolver/name_resolver.hpp"

namespace meshdns::dnsd {

// Why the daemon is or is not ready: one line per source and state.
struct Readiness {
  bool ready = false;
  std::vector<std::string> reasons;
};

// What one worker counts; any thread may read.
struct WorkerStatus {
  const WorkerCounters& net;
  const QueryCounters& query;
  const ForwardCounters& forward;
};

// Frames since the start.
struct DnstapCounts {
  std::uint64_t written = 0;
  std::uint64_t dropped = 0;
};

struct ReloadStatus {
  bool ok = true;  // the last reload of the configuration
  std::uint64_t reloads = 0;
  std::uint64_t failures = 0;
  std::int64_t last_success_unix = 0;
};

// Control thread, all of it.
class Daemon {
 public:
  // Binds, reads, starts answering.  An Error leaves nothing running.  `config_path` is read again
  // on SIGHUP; empty = never.
  static Result<std::unique_ptr<Daemon>> start(std::string config_path, Config config, Log& log);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Serves until SIGTERM, SIGINT or stop(), then drains.  The process's exit status.
  int run();
  void stop();
  // As SIGHUP: configuration and sources.
  void reload();

  // For the admin endpoint.
  uv_loop_t* loop();
  const Config& config() const;
  const registry::Registry& registry() const;
  registry::Registry& registry();
  const QuerySettings& query_settings() const;
  Log& log();
  Readiness readiness() const;
  std::vector<registry::SourceStatus> sources() const;
  const RegistryFeed& feed() const;
  const resolver::NameResolver& resolver() const;
  Cache& cache();
  ForwardShared& forwarding();
  std::vector<WorkerStatus> workers() const;
  const ReloadStatus& reloads() const;
  StateStatus state() const;
  std::vector<SocketAddress> listening() const;
  // What becomes of a name (lower-case wire form) that is forwarded.
  ForwardingFacts describe_forwarding(std::string_view wire_name, wire::Type type) const;
  std::chrono::steady_clock::time_point started() const;
  double started_unix() const;
  const LoadHistory& load() const;
  // The names that recently got no answer most often, over all workers; at most `limit`.
  std::vector<FailingNames::Entry> failing_names(std::size_t limit) const;
  // Since when the source has handed over nothing new.
  std::chrono::steady_clock::time_point last_change(const std::string& source) const;
  // Workers that get no new queries, since their loop has stood still for 2 s.
  std::size_t avoided() const;
  // Workers whose loop stands still, and that in words: "worker 1 hangs"; empty when all turn.
  std::size_t stuck() const;
  std::string complaint() const;
  DnstapCounts dnstap_counts() const;
  const HttpCounters& admin_counters() const;
  // Lines of the query log that were lost.
  std::uint64_t query_log_dropped() const;

 private:
  class Impl;
  explicit Daemon(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshdns::dnsd
