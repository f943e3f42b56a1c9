// SPDX-License-Identifier: Apache-2.0
#include "resolver/name_resolver.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "loop/timer.hpp"
#include "registry/base/cpu_time.hpp"
#include "resolver/name_leads.hpp"
#include "resolver/result_batches.hpp"

namespace meshdns::resolver {
namespace {

// libuv's timers stand still while the machine sleeps, the clock need not: nothing waits longer
// than this for being noticed.
constexpr std::chrono::milliseconds kLongestSleep{10'000};
constexpr std::chrono::milliseconds kRetrySpread{1'000};
// Stands for all names of a namespace.
constexpr std::string_view kEveryName = "";

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

class NameResolver::Engine {
 public:
  Engine(uv_loop_t* loop, Lookups& lookups, ResolverPolicy policy, Clock clock,
         ResolverListener& listener, MeshNames* mesh)
      : names_(policy, random_seed()),
        lookups_(lookups),
        clock_(std::move(clock)),
        listener_(listener),
        mesh_(mesh),
        timer_(loop, [this] { on_time(); }) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  bool watch(std::string_view host, std::string_view ns) {
    MeshAnswer answer = mesh_ == nullptr ? MeshAnswer{std::string(host)} : mesh_->find(ns, host);
    const std::string target = answer.asks;
    leads_.set(ns, host, std::move(answer));
    // A result that is there already, and the refusal, are told from the loop.
    if (target.empty()) note(ns, host);
    const bool is_watched = target.empty() || begin_asking(ns, host, target);
    arm();
    return is_watched;
  }
  void unwatch(std::string_view host, std::string_view ns) {
    const std::string target = leads_.asked_for(ns, host);
    leads_.erase(ns, host);
    if (!target.empty()) end_asking(ns, host, target);
    results_.remove(ns, host);
    checks_.erase({std::string(ns), std::string(host)});
    arm();
  }
  void recheck(std::string_view host, std::string_view ns) {
    if (mesh_ == nullptr) return;
    if (results_.add(ns, host)) checks_.emplace(ns, host);
    arm();
  }
  void recheck_all() {
    if (mesh_ == nullptr) return;
    for (const auto& ns : mesh_->namespaces()) recheck(kEveryName, ns);
  }
  void set_policy(ResolverPolicy policy) {
    names_.set_policy(policy);
    arm();
  }
  void retry_failed() {
    names_.hasten_failed(clock_(), kRetrySpread);
    arm();
  }
  WatchedNames& names() { return names_; }
  const NameLeads& leads() const { return leads_; }
  TimePoint now() const { return clock_(); }

 private:
  void on_time() {
    ended_.clear();
    for (const auto& name : names_.expire(clock_())) note(name);
    tell();
    start_due();
  }

  void start_due() {
    for (const DueLookup& due : names_.take_due(clock_())) {
      running_[due.id] =
          lookups_.start(due.host, due.id.family,
                         [this, id = due.id](Answer&& answer) { finish(id, std::move(answer)); });
    }
    arm();
  }

  void finish(LookupId id, Answer&& answer) {
    end(id);
    if (const auto changed = names_.finish(id, std::move(answer), clock_())) note(*changed);
    start_due();
  }

  // A lookup may be the one that is calling us, so that it is destroyed in a later turn of the
  // loop.
  void end(LookupId id) {
    if (auto ended = running_.extract(id)) ended_.push_back(std::move(ended.mapped()));
  }

  // Notes a result to tell.
  void note(std::string_view ns, std::string_view host) {
    results_.add(ns, host);
    checks_.erase({std::string(ns), std::string(host)});
  }
  void note_asked(std::string_view ns, std::string_view target) {
    for (const auto& host : leads_.askers(ns, target)) note(ns, host);
  }
  void note(const registry::ResolvedName& name) {
    for (const auto& ns : names_.namespaces_of(name.host)) note_asked(ns, name.host);
  }

  bool is_pending(std::string_view target) const {
    const registry::ResolvedName* name = names_.find(target);
    return name != nullptr && name->state == registry::ResolvedName::State::Pending;
  }

  // `host` is looked up as `target` from now on.  Returns false if the namespace has too many
  // names.
  bool begin_asking(std::string_view ns, std::string_view host, std::string_view target) {
    auto outcome = WatchedNames::Watch::Joined;
    if (leads_.join(ns, host, target, host != target && names_.is_watched(target, ns)))
      outcome = names_.watch(target, ns, clock_());
    if (!is_pending(target)) note(ns, host);
    return outcome != WatchedNames::Watch::Refused;
  }
  void end_asking(std::string_view ns, std::string_view host, std::string_view target) {
    if (!leads_.leave(ns, host, target)) return;
    const auto result = names_.unwatch(target, ns, clock_());
    for (const LookupId id : result.cancelled) end(id);
    if (result.begun && !is_pending(*result.begun)) note_asked(ns, *result.begun);
  }

  // One batch per turn of the loop, which has other things to do between them.
  void tell() {
    auto batch = results_.take_due(clock_());
    if (!batch) return;
    const auto began = thread_cpu_time();
    std::vector<registry::ResolvedName> names;
    for (const auto& host : batch->hosts) {
      const bool is_check = checks_.erase({batch->ns, host}) > 0;
      if (host == kEveryName)
        check_all(batch->ns, names);
      else if (ask_mesh(batch->ns, host) || !is_check)
        names.push_back(result_of(batch->ns, host));
    }
    if (!names.empty()) listener_.on_resolved(batch->ns, std::move(names));
    results_.told(batch->ns, thread_cpu_time() - began, clock_());
  }

  void check_all(const std::string& ns, std::vector<registry::ResolvedName>& changed) {
    for (const auto& host : mesh_->names_of(ns))
      if (ask_mesh(ns, host)) changed.push_back(result_of(ns, host));
  }

  // Follows what the mesh says of the name now.  Returns whether that is new.
  bool ask_mesh(const std::string& ns, const std::string& host) {
    if (mesh_ == nullptr) return false;
    MeshAnswer answer = mesh_->find(ns, host);
    const MeshAnswer* const before = leads_.find(ns, host);
    const bool is_same = before == nullptr
                             ? answer.asks == host
                             : answer.asks == before->asks && answer.result == before->result;
    if (is_same) return false;
    const std::string from = before == nullptr ? host : before->asks;
    const std::string to = answer.asks;
    leads_.set(ns, host, std::move(answer));
    if (from == to) return true;
    // In this order, so that a name that is used as before goes on being watched.
    if (!to.empty()) begin_asking(ns, host, to);
    if (!from.empty()) end_asking(ns, host, from);
    results_.remove(ns, host);  // is being told
    return true;
  }

  registry::ResolvedName result_of(const std::string& ns, const std::string& host) const {
    const MeshAnswer* const lead = leads_.find(ns, host);
    if (lead != nullptr && lead->asks.empty()) return lead->result;
    const registry::ResolvedName* name = names_.find(lead == nullptr ? host : lead->asks);
    // A name that is not looked up for this namespace has failed for it; one that another namespace
    // has looked up is known all the same.
    registry::ResolvedName result{host, registry::ResolvedName::State::Failed, {}};
    result.reason = "the namespace has too many names";
    if (name != nullptr) result = *name;
    result.host = host;
    if (lead != nullptr) result.via = lead->result.via;
    return result;
  }

  void arm() {
    auto next = names_.next_wakeup();
    if (const auto results = results_.next())
      next = std::min(next.value_or(TimePoint::max()), *results);
    if (!ended_.empty()) next = TimePoint::min();
    if (!next) return timer_.stop();
    const TimePoint now = clock_();
    const auto wait = *next <= now ? std::chrono::milliseconds{0}
                                   : std::chrono::ceil<std::chrono::milliseconds>(*next - now);
    timer_.start(std::min(wait, kLongestSleep));
  }

  WatchedNames names_;
  Lookups& lookups_;
  Clock clock_;
  ResolverListener& listener_;
  MeshNames* const mesh_;
  loop::Timer timer_;
  std::map<LookupId, std::unique_ptr<Lookup>> running_;
  std::vector<std::unique_ptr<Lookup>> ended_;  // destroyed in the next turn of the loop
  NameLeads leads_;
  ResultBatches results_;
  std::set<NameLeads::Use> checks_;  // in results_ only because the mesh may say something new
};

NameResolver::NameResolver(uv_loop_s* loop, Lookups& lookups, ResolverPolicy policy, Clock clock,
                           ResolverListener& listener, MeshNames* mesh)
    : engine_(std::make_unique<Engine>(loop, lookups, policy, std::move(clock), listener, mesh)) {}
NameResolver::~NameResolver() = default;

bool NameResolver::watch(std::string_view host, std::string_view ns) {
  return engine_->watch(host, ns);
}
void NameResolver::unwatch(std::string_view host, std::string_view ns) {
  engine_->unwatch(host, ns);
}
void NameResolver::recheck(std::string_view host, std::string_view ns) {
  engine_->recheck(host, ns);
}
void NameResolver::recheck_namespace(std::string_view ns) { engine_->recheck(kEveryName, ns); }
void NameResolver::recheck_all() { engine_->recheck_all(); }
void NameResolver::watch_order(std::string_view host, bool order_counts) {
  engine_->names().watch_order(host, order_counts);
}
void NameResolver::set_policy(ResolverPolicy policy) { engine_->set_policy(policy); }
void NameResolver::retry_failed() { engine_->retry_failed(); }

const registry::ResolvedName* NameResolver::find(std::string_view host) const {
  return engine_->names().find(host);
}
std::vector<NameStatus> NameResolver::status() const {
  std::vector<NameStatus> names = engine_->names().status(engine_->now());
  for (const auto& [use, lead] : engine_->leads().all())
    if (lead.asks.empty()) names.push_back({lead.result, {}, use.first});
  std::ranges::sort(names, {}, [](const NameStatus& status) {
    return std::pair<std::string_view, std::string_view>(status.name.host, status.ns);
  });
  return names;
}
std::vector<RefusedNames> NameResolver::refused() const { return engine_->names().refused(); }
ResolverCounters NameResolver::counters() const {
  ResolverCounters counters = engine_->names().counters();
  counters.names += engine_->leads().known();
  counters.names_failed += engine_->leads().unresolved();
  return counters;
}

}  // namespace meshdns::resolver
