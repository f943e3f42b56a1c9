// SPDX-License-Identifier: Apache-2.0
// The state of a daemon as its log, its admin pages and its supervisor tell it.
#include <iterator>

#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/config/values.hpp"
#include "dnsd/daemon/daemon.hpp"
#include "dnsd/daemon/daemon_shared.hpp"
#include "dnsd/daemon/first_steps.hpp"
#include "dnsd/daemon/troubles.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {

void Daemon::housekeep() {
  announce_when_ready();
  publisher_.collect();
  log_.write_fold_counts();
  cache_keeper_.tick(std::chrono::steady_clock::now());
  state_keeper_.tick(std::chrono::steady_clock::now());
  analysis_.tick(std::chrono::steady_clock::now());
  answers_.tick();
  if (!state_directory_.trouble().empty()) follow_state_dir();
  if (!unbound_.empty() && std::chrono::steady_clock::now() >= bind_again_at_) bind();
  if (!handover_.successor_serves())  // which deals the sockets out
    workers_.watch(listeners_, std::chrono::steady_clock::now());
  // A worker that hangs leaves queries unanswered: the supervisor is to start us anew.
  if (workers_.complaint().empty()) supervisor_.feed_watchdog();
  tell_of_overload();
  workers_.tell_of_limited_clients();
  tell_of_admin_clients(admin_, admin_counts_);
  tell_of_admin_clients(metrics_, metrics_counts_);
  if (cookie_secrets_.tick(std::chrono::steady_clock::now())) apply_query_settings();
  keep_history();
  look_for_troubles();
  health_.beat(std::chrono::steady_clock::now());
  publish_health();
  supervisor_.set_status(status_line());
}

void Daemon::tell_of_overload() {
  const auto now = std::chrono::steady_clock::now();
  for (const auto& warning : overload_.observe(degradations_of(*this), now))
    log_.warn(warning.what, {{"count", warning.count}});
}

void Daemon::tell_of_admin_clients(const AdminEndpoint& endpoint, AdminCounts& counts) {
  const HttpCounters& counters = endpoint.counters();
  const AdminCounts now{counters.accept_failures, counters.overdue, counters.evicted};
  const AdminCounts before = std::exchange(counts, now);
  const std::string key = std::string(endpoint.key()) + ": ";
  if (now.accept_failures != before.accept_failures)
    log_.write_folded(LogLevel::Warn,
                      key + "cannot accept a connection for lack of file descriptors or memory");
  if (now.overdue != before.overdue)
    log_.write_folded(LogLevel::Warn, key + "closed a connection that took too long");
  if (now.evicted != before.evicted)
    log_.write_folded(LogLevel::Warn, key + "too many connections; closed the oldest one");
}

// Updates the figures of the last minutes on the status page.
void Daemon::keep_history() {
  const auto now = std::chrono::steady_clock::now();
  load_.observe(workers_.totals(), now);
  if (latency_.is_due(now))
    latency_.observe(forwarding_->upstreams.status(uv_hrtime() / 1'000'000), now);
  sources_.note_changes(now);
  if (--seconds_to_fade_ > 0) return;
  seconds_to_fade_ = kFadeSeconds;
  workers_.fade_failing_names();
}

Readiness Daemon::readiness() const {
  Readiness readiness;
  auto& degraded = readiness.degraded;
  if (phase_ != Phase::Serving) readiness.not_ready.emplace_back("stopping");
  for (const auto& [status, changed] : sources_.reports()) {
    if (feed_.is_complete(status.name)) {
      if (!status.last_error.empty()) degraded.push_back(status.name + ": " + status.last_error);
      continue;
    }
    auto& reasons = feed_.is_known(status.name) ? degraded : readiness.not_ready;
    reasons.push_back(status.name + ": not read yet" +
                      (status.last_error.empty() ? "" : ": " + status.last_error));
  }
  if (registry_.current()->from_state_dir)
    degraded.emplace_back("snapshot: serving the state of state_dir");
  if (!state_directory_.trouble().empty()) degraded.push_back(state_directory_.trouble());
  if (!vip_trouble_.empty()) degraded.push_back("persistent VIPs: " + vip_trouble_);
  for (const auto& failure : unbound_) degraded.push_back("not bound: " + failure);
  if (!handover_trouble_.empty()) degraded.push_back(handover_trouble_);
  if (!reloader_.status().ok)
    degraded.emplace_back("config: the last reload failed; the previous configuration is in use");
  degraded.insert(degraded.end(), troubles_.begin(), troubles_.end());
  return readiness;
}

void Daemon::look_for_troubles() {
  troubles_ = file_troubles(config_, reloader_.path(), state_directory_.path());
  if (const std::string trouble = state_keeper_.status().trouble; !trouble.empty())
    troubles_.push_back("state_dir: the state was not saved: " + trouble);
  const auto upstreams = forwarding_->upstreams.status(uv_hrtime() / 1'000'000);
  std::ranges::move(upstream_troubles(upstream_, upstreams), std::back_inserter(troubles_));
  if (std::string refused = refused_objects(feed_.findings()); !refused.empty())
    troubles_.push_back(std::move(refused));
}

void Daemon::update_state() {
  const bool was_restored = registry_.current()->from_state_dir;
  const std::uint64_t before = registry_.current()->generation;
  registry_.set_state(is_authority(config_), sources_.are_known(), feed_.is_restored());
  registry_.set_endpoints_unknown(feed_.lacks_endpoints());
  if (registry_.current()->generation != before && resolver_) resolver_->recheck_all();
  if (was_restored && !feed_.is_restored())
    log_.info("all sources have been read; dropped resources that were only in the saved state");
  announce_when_ready();
  publish_health();
}

void Daemon::publish_health() {
  health_.publish(workers_.complaint(), readiness_response(readiness()));
}

// Says once that everything is answered, when the sources have been read.  If they take long, says
// before it, once, that the rest is.
void Daemon::announce_when_ready() {
  if (announced_ == Announced::Ready || workers_.size() == 0) return;
  const bool is_ready = sources_.are_known();
  if (!is_ready && (announced_ == Announced::Serving ||
                    std::chrono::steady_clock::now() - started_ < kServingAnyway))
    return;
  const bool is_first = announced_ == Announced::Nothing;
  if (is_first) supervisor_.ready(status_line());
  announced_ = is_ready ? Announced::Ready : Announced::Serving;
  const auto& snapshot = *registry_.current();
  const std::string facts =
      "listen=" + joined(listeners_.addresses()) + " workers=" + std::to_string(workers_.size()) +
      " resources=" + std::to_string(snapshot.resources.size()) +
      " hosts=" + std::to_string(snapshot.hosts.size() + snapshot.wildcards.size()) +
      " admin=" + admin_.address();
  if (is_ready)
    log_.announce("ready: " + facts);
  else
    log_.warn("not ready yet: " + facts, {{"reason", first_reason(readiness())}});
  if (!is_first) return;
  answers_.begin();
  show_first_steps();
}

void Daemon::show_first_steps() {
  const std::vector<SocketAddress> listen = listeners_.addresses();
  if (!is_at_terminal() || config_.log.format != LogFormat::Text || listen.empty()) return;
  log_.flush();
  show_at_terminal(first_steps(*registry_.current(), listen, admin_.address()));
}

// The line that `systemctl status` shows.
std::string Daemon::status_line() const {
  const auto& snapshot = *registry_.current();
  const Readiness state = readiness();
  std::string line = state.is_ready() ? "answering for " : "not ready; knows ";
  line += std::to_string(snapshot.hosts.size() + snapshot.wildcards.size()) + " hosts of " +
          std::to_string(sources_.size()) + (sources_.size() == 1 ? " source" : " sources");
  if (const auto reason = first_reason(state); !reason.empty())
    line += "; " + registry::escape(reason);
  return line;
}

void Daemon::tell_of_memory() const {
  const std::string size = format_size(config_.cache.size_bytes);
  const std::string limit = memory_limit_ ? format_size(*memory_limit_) : "none";
  log_.info("memory", {{"cache.size", std::string_view(size)},
                       {"auto", config_.cache.has_default_size},
                       {"cgroup_limit", std::string_view(limit)}});
}

}  // namespace meshdns::dnsd
