// SPDX-License-Identifier: Apache-2.0
// The parts of the daemon that the pages of the admin endpoint show or change.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/admin/daemon_status.hpp"
#include "dnsd/admin/health_board.hpp"
#include "dnsd/admin/http_server.hpp"
#include "dnsd/admin/load_history.hpp"
#include "dnsd/admin/registry_streams.hpp"
#include "dnsd/answer/answer_history.hpp"
#include "dnsd/answer/forwarding_facts.hpp"
#include "dnsd/answer/query_settings.hpp"
#include "dnsd/config/config.hpp"
#include "dnsd/kernel/kernel_feed.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/query/top_queries.hpp"
#include "registry/registry.hpp"
#include "resolver/names/name_resolver.hpp"

namespace meshdns::dnsd {

// The control thread, except `health`. REQUIRES: all outlive the routes that are made of them.
struct DaemonParts {
  using Time = std::chrono::steady_clock::time_point;
  using FindingsByOrigin = std::map<std::string, std::vector<registry::Finding>>;

  const Time started;
  const Config& config;
  const QuerySettings& query_settings;
  registry::Registry& registry;
  RegistryStreams& streams;
  const FindingsByOrigin& findings;  // those that stand now
  const AnalysisStatus& analysis;
  // Files and collections that cannot be read as they are now: their objects are those of before.
  const std::set<std::string>& held_origins;
  const FeedCounters& feed;
  const resolver::NameResolver& resolver;
  ForwardShared& forwarding;
  Log& log;
  HealthBoard& health;  // any thread
  const LoadHistory& load;
  const LatencyWindow& latency;
  const UpstreamHistory& upstream_history;
  const ReloadStatus& reloads;
  const HttpCounters& http;

  // Each returns the state at the call.
  std::function<const AnswerHistory&()> answers;
  std::function<Readiness()> readiness;
  std::function<WorkersStatus()> workers;
  std::function<std::vector<FailingNames::Entry>(std::size_t limit)> failing_names;
  std::function<TopReport(std::size_t limit)> top;
  std::function<std::vector<SourceReport>()> sources;
  std::function<StateStatus()> state;
  std::function<const KernelFeed*()> kernel;  // null: it answers nothing
  std::function<KernelAnswersStatus()> kernel_answers;
  std::function<QueryLogCounts()> query_logs;
  std::function<std::vector<SocketAddress>()> listening;
  // Addresses of the configuration that cannot be bound, with the reason.
  std::function<std::vector<std::string>()> unbound;
  // Asks for a reload, which begins soon.  Returns the number that `reloads` has at its end.
  std::function<Result<std::uint64_t>()> request_reload;
  // Describes the forwarding of a name (lower-case wire form), for explanations.
  std::function<ForwardingFacts(std::string_view wire_name, wire::Type type)> describe_forwarding;
};

}  // namespace meshdns::dnsd
