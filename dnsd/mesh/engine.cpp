// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/engine.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "dnsd/config/load.hpp"
#include "dnsd/config/values.hpp"
#include "dnsd/mesh/configured_sources.hpp"
#include "dnsd/mesh/state_directory.hpp"
#include "registry/base/cpu_time.hpp"
#include "registry/base/durable_file.hpp"
#include "registry/base/host_name.hpp"
#include "registry/view/view.hpp"

namespace meshdns::dnsd {

void MeshAnalysis::tick(Time now) {
  if (job_ && job_->is_done) conclude();
  if (job_ || !is_time(now)) return;
  job_ = std::make_unique<Job>();
  job_->snapshot = registry_.current();
  job_->begun = now;
  if (denied_) job_->denied = denied_();
  analysed_denied_ = job_->denied;
  work_ = std::jthread([job = job_.get()] { run(*job); });
}

void MeshAnalysis::close() {
  if (job_) job_->is_to_end = true;
  if (work_.joinable()) work_.join();
  job_.reset();
}

bool MeshAnalysis::is_time(Time now) {
  const registry::Snapshot& snapshot = *registry_.current();
  const bool stands_still = std::exchange(seen_, snapshot.generation) == snapshot.generation;
  if (!snapshot.sources.synced) return false;
  if (snapshot.generation == analysed_) return now >= not_before_ && have_denied_names_changed(now);
  changed_since_ = std::min(changed_since_, now);
  if (!stands_still && now - changed_since_ < kLongestDelay) return false;
  return now >= not_before_;
}

bool MeshAnalysis::have_denied_names_changed(Time now) {
  if (!denied_ || now < denied_due_) return false;
  denied_due_ = now + kDeniedPause;
  return denied_() != analysed_denied_;
}

void MeshAnalysis::run(Job& job) {
  const auto begun = thread_cpu_time();
  job.report = registry::analyse(*job.snapshot, job.denied, [&] { return job.is_to_end.load(); });
  job.took = thread_cpu_time() - begun;
  job.is_done = true;
}

// The snapshot is released here, because only the control thread may free its parts.
void MeshAnalysis::conclude() {
  work_.join();
  const auto counts = status_.report.counts;
  status_.report = std::move(job_->report);
  status_.seconds = std::chrono::duration<double>(job_->took).count();
  analysed_ = job_->snapshot->generation;
  changed_since_ = Time::max();
  not_before_ = std::chrono::steady_clock::now() +
                std::max<std::chrono::steady_clock::duration>(kMinPause, kPauseFactor * job_->took);
  job_.reset();
  tell(counts);
}

void MeshAnalysis::tell(const registry::FindingCounts& before) const {
  const auto& counts = status_.report.counts;
  if (counts == before) return;
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  log_.info("findings across resources have changed",
            {{"findings", all}, {"see", std::string_view("/registry/findings")}});
}

registry::ClientSettings client_settings(const Config& whole) {
  const ClientConfig& config = whole.client;
  const ClientIdentityConfig& from = config.default_identity;
  registry::ClientSettings settings;
  settings.by_source_address = config.by_source_address;
  settings.workload_entry_namespaces = config.workload_entry_namespaces;
  settings.node_search = config.node_search;
  settings.unknown = config.unknown;
  const auto has = [&](IpFamily family) {
    return std::ranges::find(from.ip_families, family) != from.ip_families.end();
  };
  auto& identity = settings.default_identity;
  identity.ns = from.ns;
  identity.labels = from.labels;
  identity.network = from.network;
  identity.cluster = from.cluster;
  identity.node = from.node.empty() ? own_node(whole) : from.node;
  identity.locality = from.locality;
  identity.search = from.search;
  identity.ipv4 = has(IpFamily::IPv4);
  identity.ipv6 = has(IpFamily::IPv6);
  if (!from.node_id) return settings;
  identity.narrowed_by_sidecars = from.node_id->type == "sidecar";
  if (!identity.search.empty()) return settings;
  identity.search = from.node_id->search();
  if (!identity.search.empty())
    identity.search.insert(identity.search.end(), config.node_search.begin(),
                           config.node_search.end());
  return settings;
}

namespace {

constexpr std::size_t kNamesShown = 5;

std::string names_of(const std::deque<AnswerEvent>& events, std::size_t newest) {
  std::string names;
  const std::size_t first = events.size() - std::min(newest, events.size());
  for (std::size_t i = first; i < std::min(first + kNamesShown, events.size()); ++i)
    names += (names.empty() ? "" : ",") + events[i].name;
  return names;
}

}  // namespace

void AnswerChanges::begin() {
  history_.begin(*registry_.current(), unix_now());
  handler_ =
      registry_.controller().attach([this](const registry::Changes& changes,
                                           const registry::Snapshot&) { history_.add(changes); });
}

const AnswerHistory& AnswerChanges::history() {
  history_.look(*registry_.current(), unix_now());
  return history_;
}

void AnswerChanges::tick() {
  const AnswerHistory::Counts counts = history().counts();
  const AnswerHistory::Counts before = std::exchange(said_, counts);
  const std::uint64_t changes = counts.all() - before.all();
  if (changes == 0 || !log_.enabled(LogLevel::Info)) return;
  const std::string names = names_of(history_.events(), changes);
  const AnswerEvent& last = history_.events().back();
  const std::string answers = changes == 1 ? answers_text(last) : std::string("see /changes");
  log_.info("answers changed", {{"appeared", counts.appeared - before.appeared},
                                {"vanished", counts.vanished - before.vanished},
                                {"different", counts.different - before.different},
                                {"names", names},
                                {"answers", answers},
                                {"object", last.object},
                                {"source", last.source}});
}

std::uint64_t hash_of_answers(const Config& config) {
  Config part;
  part.mesh = config.mesh;
  part.client = config.client;
  part.dns64 = config.dns64;
  part.hosts = config.hosts;
  part.overrides = config.overrides;
  return stable_hash(to_json(part));
}

namespace {

// Off forgets what there was.
Dependencies::Limits limits_of(const DependenciesConfig& config) {
  if (config.record == DependencyRecord::Off) return {.keep = 0, .memory = 0};
  return {.keep = config.keep.count(), .memory = config.memory_bytes};
}

}  // namespace

Engine::Engine(uv_loop_t* loop, const Config& current_config, ForwardListener& listener,
               Log& to_log, Time start)
    : config(current_config),
      log(to_log),
      started(start),
      registry(config.mesh),
      publisher(registry.current()),
      feed(registry, log),
      analysis(registry, log),
      answers(registry, log),
      forwarding(std::make_shared<ForwardShared>(config.cache, listener)),
      kept(config, registry, feed, forwarding, dependencies, log),
      history(registry, feed, log),
      resolution(registry, publisher, feed),
      server_names(registry, log),
      sources(loop, feed, server_names, started),
      loop_(loop) {
  registry.set_serial(static_cast<std::uint32_t>(unix_now()));
  registry.set_publish(
      [this](std::shared_ptr<const registry::Snapshot> s) { publisher.publish(std::move(s)); });
  registry.set_clients(client_settings(config));
  history.set_configuration(hash_of_answers(config));
  dependencies.configure(limits_of(config.dependencies));
  set_listener({});
}

void Engine::use(const UpstreamConfig& upstream) {
  forwarding->reconfigure(upstream);
  resolution.reconfigure(upstream, config.cache);
}

Result<void> Engine::start(const UpstreamConfig& upstream, const QuerySettings& settings) {
  return resolution.start(loop_, forwarding, upstream, config.cache, settings);
}

// The cache must know which servers are asked.
void Engine::open() {
  kept.open_cache();
  kept.open_registry();
  sources.follow(config);
}

void Engine::apply(const Config& before) {
  if (config.mesh != before.mesh) {
    feed.follow(registry.set_settings(config.mesh));
    kept.choose_vip_allocator();
  }
  if (config.client != before.client) registry.set_clients(client_settings(config));
  forwarding->cache.reconfigure(config.cache);
  dependencies.configure(limits_of(config.dependencies));
  history.set_configuration(hash_of_answers(config));
}

void Engine::set_listener(std::function<void()> listener) {
  publisher.set_listener([this, listener = std::move(listener)] {
    if (listener) listener();
    resolution.on_snapshot();
    server_names.recheck();
  });
}

void Engine::update() {
  const std::uint64_t before = registry.current()->generation;
  registry.set_sources({.authoritative = is_authority(config),
                        .synced = sources.awaited().empty(),
                        .from_state_dir = feed.is_restored(),
                        .endpoints_unknown = feed.lacks_endpoints(),
                        .policies_unknown = feed.lacks_policies(),
                        .awaited_source = sources.awaited()});
  if (registry.current()->generation != before) resolution.recheck_all();
}

void Engine::tick(Time now) {
  if (now >= networks_settle_at_) {
    networks_settle_at_ = now + kNetworksPause;
    if (const auto changes = registry.settle_networks()) feed.follow(*changes);
  }
  publisher.collect();
  dependencies.tick(unix_now());
  kept.tick(now);
  analysis.tick(now);
  answers.tick();
  history.tick(now, unix_now(), kept.path(), config.history, answers.history());
  sources.note_changes(now);
}

void Engine::count(const std::vector<std::unique_ptr<AskedHosts>>& tables) {
  const std::uint64_t now_ns = uv_hrtime();
  const std::int64_t now = unix_now();
  for (const auto& table : tables) {
    table->for_each([&](const AskedHost& asked) { dependencies.add(asked, now_ns, now); });
    table->for_each_dropped(
        [&](std::string_view ns, std::string_view workload, std::uint64_t /*questions*/) {
          // The table does not know how many hosts they asked for: at least one.
          dependencies.add_dropped(ns, workload, 1);
        });
  }
}

std::vector<std::string> Engine::past_of(const registry::View& view, std::string_view name) const {
  const std::string asked = canonical_host(name);
  const registry::Match match = view.lookup(asked);
  const std::string_view host = match.entry != nullptr ? match.entry->host() : asked;
  const std::string_view ns = match.service != nullptr ? match.service->ns->text() : "";
  std::vector<std::string> facts;
  if (std::string text = answers.last_change(host, ns); !text.empty())
    facts.push_back(std::move(text));
  if (match.service == nullptr) return facts;
  match.service->for_each_source([&](const registry::StoredRef& object) {
    const std::string origin(view.snapshot().origins->of(object->origin()));
    if (const std::string error = feed.error_of(object->label(), origin); !error.empty())
      facts.push_back(object->label() + " is served as it was before: " + error);
  });
  return facts;
}

void Engine::close() {
  publisher.set_listener({});
  analysis.close();
  history.close(unix_now(), answers.history());
  kept.close();
  sources.clear();
  resolution.close();
  server_names.close();
}

}  // namespace meshdns::dnsd
