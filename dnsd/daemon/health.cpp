// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/health.hpp"

#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "dnsd/answer/answer_history.hpp"
#include "registry/base/counted.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

// Effects of several problems.
constexpr const char* kUnlessCached = "unless they are in the cache";
constexpr const char* kNotSaved = "the state is not saved for the next start";

void note_unreadable(std::vector<Problem>& troubles, const char* key, const std::string& file) {
  if (!file.empty() && access(file.c_str(), R_OK) != 0)
    troubles.push_back({std::string(key) + ": cannot read " + file + ": " + std::strerror(errno),
                        std::string(key) + " is not in use, or as it was before"});
}

// Why the server is of no use now; empty: it may answer.
std::string why_useless(const UpstreamServer& server, std::span<const UpstreamStatus> statuses) {
  const std::string name = server.to_string();
  const auto status = std::ranges::find(statuses, name, &UpstreamStatus::name);
  if (status == statuses.end()) return {};
  if (status->looped) return name + " sends our own queries back";
  if (status->health == Health::Down) return name + " is down: " + status->last_error;
  if (status->health == Health::Up && !status->failing_with.empty())
    return name + " answers nothing but " + std::string(status->failing_with);
  return {};
}

// The upstream servers of one zone.
struct ForwardedZone {
  std::string label;  // "upstream.zones corp.example"
  std::string names;  // those that the servers are for, "names below corp.example"
  const std::vector<UpstreamServer>& servers;
};

void note_useless(std::vector<Problem>& troubles, const ForwardedZone& zone,
                  std::span<const UpstreamStatus> statuses) {
  std::string reasons;
  for (const UpstreamServer& server : zone.servers) {
    const std::string why = why_useless(server, statuses);
    if (why.empty()) return;
    reasons += (reasons.empty() ? "" : "; ") + why;
  }
  if (!reasons.empty())
    troubles.push_back({zone.label + ": no server answers: " + reasons,
                        zone.names + " are not answered, " + kUnlessCached});
}

// The names whose servers are those of the zone: another one may lie below it.
std::string names_below(const std::string& zone, const UpstreamConfig& upstream) {
  const bool is_divided = std::ranges::any_of(
      upstream.zones, [&](const auto& other) { return other.first.ends_with("." + zone); });
  return "names below " + zone + (is_divided ? " that are in no other zone of upstream.zones" : "");
}

std::string outside_names(const UpstreamConfig& upstream) {
  return upstream.zones.empty() || upstream.zones.contains("")
             ? "names outside the mesh"
             : "names outside the mesh that are in no zone of upstream.zones";
}

template <typename Visit>
void for_each_zone(const UpstreamConfig& upstream, const Visit& visit) {
  visit(ForwardedZone{"upstream", outside_names(upstream), upstream.servers});
  for (const auto& [zone, servers] : upstream.zones)
    visit(ForwardedZone{"upstream.zones " + (zone.empty() ? "." : zone),
                        zone.empty() ? outside_names(upstream) : names_below(zone, upstream),
                        servers});
}

std::string changes_of(const std::string& source) {
  return "changes of " + source + " may be missing";
}

}  // namespace

std::vector<Problem> file_troubles(const Config& config, const std::string& config_file,
                                   const std::string& state_dir) {
  std::vector<Problem> troubles;
  if (config.server.watch_config) note_unreadable(troubles, "config", config_file);
  note_unreadable(troubles, "hosts.file", config.hosts.file);
  note_unreadable(troubles, "server.cookies.secret_file", config.server.cookies.secret_file);
  note_unreadable(troubles, "admin.token_file", config.admin.token_file);
  note_unreadable(troubles, "upstream.tls.ca_file", config.upstream.tls_ca_file);
  if (!state_dir.empty() && access(state_dir.c_str(), W_OK | X_OK) != 0)
    troubles.push_back(
        {"state_dir: cannot write to " + state_dir + ": " + std::strerror(errno), kNotSaved});
  return troubles;
}

std::vector<Problem> upstream_troubles(const UpstreamConfig& upstream,
                                       std::span<const UpstreamStatus> statuses) {
  std::vector<Problem> troubles;
  if (upstream.servers.empty() && !upstream.zones.contains(""))
    troubles.push_back(
        {"upstream: neither upstream.servers nor /etc/resolv.conf names a server whose address is "
         "known",
         outside_names(upstream) + " are not answered, " + kUnlessCached});
  for_each_zone(upstream,
                [&](const ForwardedZone& zone) { note_useless(troubles, zone, statuses); });
  return troubles;
}

namespace {

// The answers of several servers together.
struct ZoneLatency {
  LatencyWindow::Buckets buckets{};
  std::uint64_t answers = 0;
  double median_ms = 0;
  std::string slow_servers;  // "10.0.0.53:53, 10.0.1.53:53"
};

ZoneLatency latency_of(const ForwardedZone& zone, std::span<const UpstreamStatus> statuses,
                       const LatencyWindow& latency) {
  ZoneLatency sum;
  for (const UpstreamServer& server : zone.servers) {
    const auto status = std::ranges::find(statuses, server.to_string(), &UpstreamStatus::name);
    if (status == statuses.end()) continue;
    const LatencyWindow::Buckets recent = latency.recent(*status);
    std::ranges::transform(sum.buckets, recent, sum.buckets.begin(), std::plus());
    if (quantile_ms(recent, 0.5) > SlowZones::kSlowMs)
      sum.slow_servers += (sum.slow_servers.empty() ? "" : ", ") + status->name;
  }
  sum.answers = std::accumulate(sum.buckets.begin(), sum.buckets.end(), std::uint64_t{0});
  sum.median_ms = quantile_ms(sum.buckets, 0.5);
  return sum;
}

// The largest bound of the histogram that half of the answers exceed: "0.5 s", "1 s".  The text
// changes less often than the median.
std::string exceeded_bound(double median_ms) {
  double bound = SlowZones::kSlowMs;
  while (2 * bound < median_ms) bound *= 2;
  return bound == SlowZones::kSlowMs ? "0.5 s" : std::to_string(std::lround(bound / 1024)) + " s";
}

}  // namespace

SlowZones::Change SlowZones::observe(const UpstreamConfig& upstream,
                                     std::span<const UpstreamStatus> statuses,
                                     const LatencyWindow& latency, Time now) {
  Change change;
  std::map<std::string, Slow> before = std::exchange(slow_, {});
  for_each_zone(upstream, [&](const ForwardedZone& zone) {
    const ZoneLatency recent = latency_of(zone, statuses, latency);
    const auto known = before.find(zone.label);
    const bool was_slow = known != before.end();
    Slow slow = was_slow ? std::move(known->second) : Slow{};
    if (recent.median_ms > (was_slow ? kQuickMs : kSlowMs) &&
        recent.answers >= (was_slow ? 1 : kMinAnswers))
      slow.until = now + kCalm;
    if (recent.median_ms > kSlowMs)
      slow.problem = {zone.label + ": slow: half of the answers take more than " +
                          exceeded_bound(recent.median_ms) + ": " + recent.slow_servers,
                      zone.names + " are answered slowly, " + kUnlessCached};
    if (slow.until <= now) {
      if (was_slow) change.ended.push_back(zone.label);
      return;
    }
    if (!was_slow) change.begun.push_back(slow.problem);
    slow_.emplace(zone.label, std::move(slow));
  });
  return change;
}

std::vector<Problem> SlowZones::troubles() const {
  std::vector<Problem> troubles;
  for (const auto& [label, slow] : slow_) troubles.push_back(slow.problem);
  return troubles;
}

namespace {

// Names whose hosts are looked for, and those that a text has.
constexpr std::size_t kNamesLookedAt = 100;
constexpr std::size_t kNamesShown = 3;

std::int64_t unix_seconds_of(std::chrono::steady_clock::time_point then) {
  const auto wall = std::chrono::system_clock::now() - (std::chrono::steady_clock::now() - then);
  return std::chrono::floor<std::chrono::seconds>(wall).time_since_epoch().count();
}

// "gone.example.net of namespace shop (NXDOMAIN, since 2026-11-25T02:47:06Z); and 2 more"
std::string names_text(const resolver::FailingNames& failing) {
  std::string text;
  const std::size_t shown = std::min(failing.first.size(), kNamesShown);
  for (const resolver::FailingName& name : std::span(failing.first).first(shown)) {
    text +=
        (text.empty() ? "" : "; ") + name.host + " of namespace " + name.ns + " (" + name.reason;
    if (name.since) text += ", since " + time_text(unix_seconds_of(*name.since));
    text += ")";
  }
  return failing.count > shown ? text + "; and " + std::to_string(failing.count - shown) + " more"
                               : text;
}

using Hosts = std::set<std::string>;

// "api.example.org and 2 more hosts"
std::string hosts_text(const Hosts& hosts) {
  const std::string& first = *hosts.begin();
  if (hosts.size() == 1) return first;
  return first + " and " + std::to_string(hosts.size() - 1) +
         (hosts.size() == 2 ? " more host" : " more hosts");
}

// Null: it has no such host any more.
const registry::ServiceRecord* find_record(const registry::Snapshot& snapshot,
                                           std::string_view host, std::string_view ns) {
  const registry::HostEntry* const entry =
      host.starts_with("*.") ? snapshot.find_wildcard(host.substr(2)) : snapshot.find_host(host);
  if (entry == nullptr) return nullptr;
  const auto found = std::ranges::find_if(
      entry->records(),
      [&](const registry::ServiceRecord* record) { return record->ns->text() == ns; });
  return found == entry->records().end() ? nullptr : *found;
}

// Describes the answers of the hosts that use the names.
std::string effect_of(const resolver::FailingNames& failing, const registry::Registry& registry) {
  Hosts failed;
  Hosts empty;
  Hosts incomplete;
  for (const resolver::FailingName& name : failing.first)
    for (std::string& host : registry.users_of_endpoint_name(name.ns, name.host)) {
      const auto* const record = find_record(*registry.current(), host, name.ns);
      if (record == nullptr) continue;
      Hosts& hosts = record->answer == registry::AnswerKind::Unresolvable ? failed
                     : record->answer == registry::AnswerKind::NoAddress  ? empty
                                                                          : incomplete;
      hosts.insert(std::move(host));
    }
  std::string text;
  const auto add = [&](std::string_view what, const Hosts& hosts, std::string_view lost) {
    if (hosts.empty()) return;
    if (!text.empty()) text += "; ";
    text.append(what).append(hosts_text(hosts)).append(lost);
  };
  add("queries for ", failed, " get SERVFAIL");
  add("queries for ", empty, " get no address");
  add("answers for ", incomplete, " lack endpoints");
  return text.empty() ? "some endpoints are missing" : text;
}

std::string stale_effect_of(const resolver::FailingNames& failing,
                            const registry::Registry& registry) {
  Hosts hosts;
  for (const resolver::FailingName& name : failing.first)
    for (std::string& host : registry.users_of_endpoint_name(name.ns, name.host))
      hosts.insert(std::move(host));
  return (hosts.empty() ? "some endpoints" : "answers for " + hosts_text(hosts)) +
         " have old addresses";
}

}  // namespace

std::vector<Problem> endpoint_troubles(const resolver::NameResolver& names,
                                       const registry::Registry& registry) {
  std::vector<Problem> troubles;
  if (const auto failing = names.without_address(kNamesLookedAt); failing.count > 0)
    troubles.push_back(
        {"endpoint names: no address: " + names_text(failing), effect_of(failing, registry)});
  if (const auto failing = names.with_old_addresses(kNamesLookedAt); failing.count > 0)
    troubles.push_back({"endpoint names: old addresses: " + names_text(failing),
                        stale_effect_of(failing, registry)});
  return troubles;
}

std::string refused_objects(const std::map<std::string, std::vector<registry::Finding>>& findings) {
  std::size_t count = 0;
  const registry::Finding* first = nullptr;
  for (const auto& [origin, of_origin] : findings)
    for (const registry::Finding& finding : of_origin) {
      if (finding.severity != registry::Severity::Error) continue;
      if (first == nullptr) first = &finding;
      ++count;
    }
  if (first == nullptr) return {};
  return counted(count, "error") +
         " in resources (/registry/findings); the first: " + first->to_string();
}

namespace {

// So many take no time.
constexpr std::size_t kFew = 1'000;
// The largest range that is named: more than one Pod network has little in common.
constexpr std::uint8_t kShortest = 8;
// The range of one Pod: what a node usually has.
constexpr std::uint8_t kOfOneIpv4 = 24;
constexpr std::uint8_t kOfOneIpv6 = 64;

std::uint8_t common_length(const IpAddress& a, const IpAddress& b) {
  int bits = 0;
  for (std::size_t i = 0; i < a.octets().size(); ++i) {
    const int same = std::countl_zero(static_cast<std::uint8_t>(a.octets()[i] ^ b.octets()[i]));
    bits += same;
    if (same < 8) break;
  }
  return static_cast<std::uint8_t>(a.is_v4() ? bits - 96 : bits);
}

void widen(IpPrefix& range, const IpAddress& address) {
  if (range.address.is_v4() != address.is_v4()) return;
  const std::uint8_t length = std::min(range.length, common_length(range.address, address));
  if (length >= kShortest) range.length = length;
}

}  // namespace

RefusedPods::Found RefusedPods::find(const registry::Snapshot& snapshot,
                                     const std::vector<IpPrefix>& allow) {
  const AccessList allowed(allow);
  Found found;
  snapshot.clients.for_each([&](const registry::ClientEntry& entry) {
    if (!entry.client || allowed.contains(entry.address)) return;
    const std::string& description = entry.client->identity.description;
    if (!description.starts_with("Pod ")) return;
    if (found.count++ == 0) {
      found.first = description + " at " + entry.address.to_string();
      found.range = {entry.address, entry.address.is_v4() ? kOfOneIpv4 : kOfOneIpv6};
    }
    widen(found.range, entry.address);
  });
  found.range = found.range.network();
  return found;
}

std::string RefusedPods::describe(const Found& found) {
  if (found.count == 0) return {};
  return "server.allow: refuses the queries of " + counted(found.count, "Pod") +
         (found.count == 1 ? ": " : "; one of them: ") + found.first + "; add " +
         found.range.to_string() + ", or the range of the Pods";
}

void RefusedPods::observe(const registry::Snapshot& snapshot, const std::vector<IpPrefix>& allow,
                          Time now) {
  if (allow == allow_ && (snapshot.generation == generation_ || now < look_again_at_)) return;
  generation_ = snapshot.generation;
  allow_ = allow;
  if (snapshot.clients.size() > kFew) look_again_at_ = now + kPause;
  trouble_ = describe(find(snapshot, allow));
}

void DaemonHealth::publish(Complaints complaints) {
  Readiness readiness;
  if (!complaints.not_ready.reason.empty())
    readiness.not_ready.push_back(std::move(complaints.not_ready));
  readiness.degraded = std::move(complaints.degraded);
  std::ranges::copy(troubles_, std::back_inserter(readiness.degraded));
  add_engine(readiness);
  board_.publish(std::move(complaints.workers), std::move(readiness));
}

void DaemonHealth::add_engine(Readiness& readiness) const {
  auto& degraded = readiness.degraded;
  const RegistryFeed& feed = engine_.feed;
  for (const auto& [status, changed] : engine_.sources.reports()) {
    if (feed.is_complete(status.name) && !status.awaits_namespace) {
      if (!status.last_error.empty())
        degraded.push_back({status.name + ": " + status.last_error, changes_of(status.name)});
      continue;
    }
    const std::string reason = status.name + ": not read yet" +
                               (status.last_error.empty() ? "" : ": " + status.last_error);
    if (feed.is_known(status.name) && !status.awaits_namespace)
      degraded.push_back({reason, changes_of(status.name)});
    else
      readiness.not_ready.push_back({reason, "names of the mesh may be missing"});
  }
  if (engine_.registry.current()->sources.from_state_dir)
    degraded.push_back({"snapshot: serving the state of state_dir",
                        "names of the mesh are as they were before the last start"});
  const KeptState& kept = engine_.kept;
  if (!kept.trouble().empty()) degraded.push_back({kept.trouble(), kNotSaved});
  if (!kept.vip_trouble().empty())
    degraded.push_back({"persistent VIPs: " + kept.vip_trouble(),
                        "allocated addresses may differ after the next start"});
}

void DaemonHealth::look(Time now, const std::string& config_file, const std::string& kernel,
                        const LatencyWindow& latency) {
  look_for_refused_pods(now);
  troubles_.clear();
  if (!refused_pods_.trouble().empty())
    troubles_.push_back({refused_pods_.trouble(), "queries of some Pods are refused"});
  const auto upstreams = engine_.forwarding->upstreams.status(uv_hrtime() / 1'000'000);
  std::ranges::move(upstream_troubles(upstream_, upstreams), std::back_inserter(troubles_));
  std::ranges::move(endpoint_troubles(engine_.resolution.resolver(), engine_.registry),
                    std::back_inserter(troubles_));
  if (std::string refused = refused_objects(engine_.feed.findings()); !refused.empty())
    troubles_.push_back(
        {std::move(refused), "objects with errors are not in use, or not as written"});
  look_for_slow_zones(upstreams, latency, now);
  std::ranges::move(slow_zones_.troubles(), std::back_inserter(troubles_));
  std::ranges::move(file_troubles(engine_.config, config_file, engine_.kept.path()),
                    std::back_inserter(troubles_));
  if (const std::string trouble = engine_.kept.status().trouble; !trouble.empty())
    troubles_.push_back({"state_dir: the state was not saved: " + trouble, kNotSaved});
  if (const std::string& trouble = engine_.history.trouble(); !trouble.empty())
    troubles_.push_back({"history: " + trouble, "the answers of now cannot be explained later"});
  if (!kernel.empty() && engine_.config.server.kernel_answers == KernelAnswersMode::On)
    troubles_.push_back({"kernel answers: " + kernel, "answers are slower: none is in the kernel"});
  board_.beat(now);
}

std::string DaemonHealth::status_line() const {
  const auto& snapshot = *engine_.registry.current();
  const std::size_t sources = engine_.sources.size();
  const Readiness state = readiness();
  const std::string what = counted(snapshot.hosts.size() + snapshot.wildcards.size(), "host") +
                           " of " + counted(sources, "source");
  if (state.is_ready() && state.degraded.empty()) return "answering for " + what;
  return std::string(state.is_ready() ? "degraded: " : "not ready: ") +
         registry::escape(state.effects().front()) + "; knows " + what + "; " +
         registry::escape(state.first_reason());
}

void DaemonHealth::look_for_refused_pods(Time now) {
  const bool was_well = refused_pods_.trouble().empty();
  refused_pods_.observe(*engine_.registry.current(), engine_.config.server.allow, now);
  if (was_well && !refused_pods_.trouble().empty())
    engine_.log.warn("server.allow refuses Pods",
                     {{"reason", std::string_view(refused_pods_.trouble())}});
}

void DaemonHealth::look_for_slow_zones(std::span<const UpstreamStatus> statuses,
                                       const LatencyWindow& latency, Time now) {
  const SlowZones::Change change = slow_zones_.observe(upstream_, statuses, latency, now);
  for (const Problem& problem : change.begun)
    engine_.log.warn("upstream servers answer slowly", {{"reason", problem.reason}});
  for (const std::string& zone : change.ended)
    engine_.log.info("upstream servers answer in time again", {{"zone", zone}});
}

}  // namespace meshdns::dnsd
