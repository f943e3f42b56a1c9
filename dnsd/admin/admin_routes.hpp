// SPDX-License-Identifier: Apache-2.0
// The pages of the admin endpoint: the daemon's state as text, JSON and metrics (docs/admin.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/admin/http_server.hpp"
#include "dnsd/admin/load_history.hpp"
#include "dnsd/admin/published_health.hpp"
#include "dnsd/admin/registry_streams.hpp"
#include "dnsd/answer/query_settings.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/mesh/dependencies.hpp"
#include "dnsd/mesh/engine.hpp"

namespace meshdns::dnsd {

// The daemon as the pages show and change it.
// The control thread, except `health`.  REQUIRES: all outlive the routes that are made of it.
struct ShownDaemon {
  Engine& engine;
  RegistryStreams& streams;
  PublishedHealth& health;         // any thread
  const UpstreamConfig& upstream;  // in use
  const QuerySettings& query_settings;
  const History& history;
  const ReloadStatus& reloads;
  const HttpCounters& http;
  Dependencies& dependencies;
  std::function<DaemonStatus()> status;  // as of the call
  // The most frequent names and clients; each list has at most `limit` entries.
  std::function<FrequentQueries(std::size_t limit)> frequent;
  // Asks for a reload, which begins soon.  Returns the number that `reloads` has at its end.
  std::function<Result<std::uint64_t>()> request_reload;
};

// The `status` handlers read daemon.health on any thread; all others run on the control thread.
HttpRoutes admin_routes(ShownDaemon daemon);

// Health and metrics alone, for an address that others may reach.
HttpRoutes metrics_routes(ShownDaemon daemon);

// --- The pages of files of their own.

// All metrics in the Prometheus text format.  Labels never hold names of queries: their number is
// bounded by the configuration.
std::string metrics_text(const ShownDaemon& daemon);

// /cache: statistics.  The arguments name=, zone= (at and below it) and top= (the largest) ask for
// entries instead; limit= is their number.
HttpResponse show_cache(const ShownDaemon& daemon, const HttpRequest& request);

// /cache/flush.  `name`: that name, every type; `zone`: it and all below, "." everything.
HttpResponse flush_cache(const ShownDaemon& daemon, const HttpRequest& request);

// /dependencies.  The arguments namespace=, workload= and host= (at and below it), since= (Unix
// seconds, of the last question) and hidden= restrict the rows.
HttpResponse show_dependencies(const ShownDaemon& daemon, const HttpRequest& request);

// /dependencies/forget.  Removes the rows that namespace=, workload= and host= leave, or with all=
// all of them.
HttpResponse forget_dependencies(const ShownDaemon& daemon, const HttpRequest& request);

// /explain of a name, with search= the names that have a text, or with connect= of a connection.
HttpResponse show_explanation(const ShownDaemon& daemon, const HttpRequest& request);

// /changes.  The arguments name=, since= (Unix seconds) and limit= restrict the changes; the newest
// come first.
HttpResponse show_changes(const ShownDaemon& daemon, const HttpRequest& request);

// /top.  The argument limit= is the number of entries of each list: 10, at most 100.
HttpResponse show_top(const ShownDaemon& daemon, const HttpRequest& request);

// All upstreams in use, by name.
std::vector<UpstreamStatus> upstream_status(const ShownDaemon& daemon);

}  // namespace meshdns::dnsd
