// SPDX-License-Identifier: Apache-2.0
#include "resolver/names/name_resolver.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "registry/base/cpu_time.hpp"
#include "registry/base/handle.hpp"

namespace meshdns::resolver {

bool ResultBatches::add(std::string_view ns, std::string_view host) {
  auto& tenant = tenants_[std::string(ns)];
  if (!tenant) {
    tenant = std::make_unique<Tenant>();
    tenant->ns = ns;
  }
  if (tenant->hosts.empty()) queue_of(*tenant).emplace(tenant->due, tenant.get());
  return tenant->hosts.emplace(host).second;
}

void ResultBatches::remove(std::string_view ns, std::string_view host) {
  const auto found = tenants_.find(ns);
  if (found == tenants_.end()) return;
  Tenant& tenant = *found->second;
  const auto noted = tenant.hosts.find(host);
  if (noted == tenant.hosts.end()) return;
  tenant.hosts.erase(noted);
  if (tenant.hosts.empty()) queue_of(tenant).erase({tenant.due, &tenant});
}

std::optional<ResultBatches::Batch> ResultBatches::take_due(TimePoint now) {
  Queue* queue = nullptr;
  if (!short_.empty() && short_.begin()->first <= now)
    queue = &short_;
  else if (!long_.empty() && std::max(long_.begin()->first, long_due_) <= now)
    queue = &long_;
  if (queue == nullptr) return std::nullopt;
  Tenant& tenant = *queue->begin()->second;
  queue->erase(queue->begin());
  Batch batch{tenant.ns, {}};
  while (!tenant.hosts.empty())
    batch.hosts.push_back(std::move(tenant.hosts.extract(tenant.hosts.begin()).value()));
  return batch;
}

void ResultBatches::told(std::string_view ns, Duration cost, TimePoint now) {
  const auto found = tenants_.find(ns);
  if (found == tenants_.end()) return;
  Tenant& tenant = *found->second;
  const bool waits = !tenant.hosts.empty();
  if (waits) queue_of(tenant).erase({tenant.due, &tenant});
  tenant.is_long = cost > kLong;
  tenant.due = now + std::max<Duration>(kShortestPause, kPausePerCost * cost);
  if (tenant.is_long) long_due_ = now + kCommonPausePerCost * cost;
  if (waits) queue_of(tenant).emplace(tenant.due, &tenant);
  // A namespace whose pause is over and that has nothing to tell needs no memory.
  if (tenants_.size() > 2 * (short_.size() + long_.size()) + 64)
    std::erase_if(tenants_, [&](const auto& item) {
      return item.second->hosts.empty() && item.second->due <= now;
    });
}

std::optional<TimePoint> ResultBatches::next() const {
  std::optional<TimePoint> next;
  if (!short_.empty()) next = short_.begin()->first;
  if (!long_.empty())
    next = std::min(next.value_or(TimePoint::max()), std::max(long_.begin()->first, long_due_));
  return next;
}

namespace {

// libuv's timers stand still while the machine sleeps, the clock need not: nothing waits longer
// than this for being noticed.
constexpr std::chrono::milliseconds kLongestSleep{10'000};
constexpr std::chrono::milliseconds kRetrySpread{1'000};
// Stands for all names of a namespace.
constexpr std::string_view kEveryName = "";

using State = registry::ResolvedName::State;

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
    const Use use(ns, host);
    const bool is_watched = follow(use, mesh_answer(use, host));
    // A result that is there already, and the refusal, are told from the loop.
    if (!is_watched || is_of_mesh(use)) note(ns, host);
    arm();
    return is_watched;
  }
  void unwatch(std::string_view host, std::string_view ns) {
    const Use use(ns, host);
    if (!is_of_mesh(use)) end_asking(use);
    answers_.erase(use);
    ends_.erase(use);
    results_.remove(ns, host);
    checks_.erase(use);
    arm();
  }
  void recheck(std::string_view host, std::string_view ns) {
    if (mesh_ == nullptr) return;
    if (results_.add(ns, host)) checks_.emplace(ns, host);
    if (host != kEveryName) look_again(host, ns);
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
  void retry_all() {
    names_.hasten_all(clock_(), kRetrySpread);
    arm();
  }
  std::vector<NameStatus> status() const;
  FailingNames without_address(std::size_t limit) const;
  FailingNames with_old_addresses(std::size_t limit) const {
    return names_.with_old_addresses(limit, clock_());
  }
  ResolverCounters counters() const;
  WatchedNames& names() { return names_; }

 private:
  using Use = std::pair<std::string, std::string>;  // namespace, name

  void on_time() {
    ended_.clear();
    for (const auto& name : names_.expire(clock_())) note(name);
    tell();
    start_due();
  }

  void start_due() {
    for (const DueLookup& due : names_.take_due(clock_())) {
      running_[due.id] =
          lookups_.start(due.ns, due.host, due.id.family,
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
  void note(const ChangedName& changed) { note(changed.ns, changed.name.host); }

  MeshAnswer mesh_answer(const Use& use, std::string_view name) const {
    if (mesh_ == nullptr) return {.is_outside = true};
    return mesh_->find(use.first, use.second, name);
  }
  static bool is_unresolved(const MeshAnswer& answer) {
    return !answer.is_outside &&
           (answer.result.state == State::Failed || answer.result.state == State::NoAddresses);
  }
  bool is_of_mesh(const Use& use) const {
    const auto known = answers_.find(use);
    return known != answers_.end() && !known->second.is_outside;
  }

  // Takes over what the mesh says of the name.  Returns false if it is to be looked up, and the
  // namespace has too many names.
  bool follow(const Use& use, MeshAnswer answer) {
    const bool is_outside = answer.is_outside;
    // A name that is looked up as it is, as nearly all are, takes no memory here.
    if (is_outside && answer.result.via.empty())
      answers_.erase(use);
    else
      answers_[use] = std::move(answer);
    return !is_outside || names_.watch(use.second, use.first, clock_());
  }
  void end_asking(const Use& use) {
    ends_.erase(use);
    const auto result = names_.unwatch(use.second, use.first, clock_());
    for (const LookupId id : result.cancelled) end(id);
    if (result.begun) note(use.first, *result.begun);
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
    for (const auto& host : mesh_->names_of(ns)) {
      look_again(host, ns);
      if (ask_mesh(ns, host)) changed.push_back(result_of(ns, host));
    }
  }

  // The mesh has changed: where a name outside has led through aliases, these may lead elsewhere.
  void look_again(std::string_view host, std::string_view ns) {
    const registry::ResolvedName* const name = names_.find(host, ns);
    if (name != nullptr && (!name->via.empty() || name->state == State::Pending))
      names_.refresh(host, ns, clock_());
  }

  // Follows what the mesh says of the name now.  Returns whether that is new.
  bool ask_mesh(const std::string& ns, const std::string& host) {
    if (mesh_ == nullptr) return false;
    const Use use(ns, host);
    MeshAnswer answer = mesh_answer(use, host);
    const bool is_outside = answer.is_outside;
    const auto known = answers_.find(use);
    const bool was_outside = known == answers_.end() || known->second.is_outside;
    const bool is_same =
        known == answers_.end() ? is_outside && answer.result.via.empty() : answer == known->second;
    if (!is_same) {
      if (was_outside && !is_outside) end_asking(use);
      follow(use, std::move(answer));
      if (was_outside && is_outside) names_.refresh(host, ns, clock_());
    }
    return (is_outside && follow_end(use)) || !is_same;
  }

  // Takes over what the mesh says of the last alias that the lookup of the name has led through.
  // Returns whether that is new.
  bool follow_end(const Use& use) {
    std::optional<registry::ResolvedName> end;
    const registry::ResolvedName* const name = names_.find(use.second, use.first);
    if (name != nullptr && !name->via.empty())
      if (MeshAnswer answer = mesh_answer(use, name->via.back()); !answer.is_outside)
        end = std::move(answer.result);
    const auto known = ends_.find(use);
    if (!end) return ends_.erase(use) > 0;
    end->host = use.second;
    end->via.insert(end->via.begin(), name->via.begin(), name->via.end());
    if (known != ends_.end() && known->second == *end) return false;
    ends_[use] = *std::move(end);
    return true;
  }

  registry::ResolvedName result_of(const std::string& ns, const std::string& host) const {
    const Use use(ns, host);
    const auto known = answers_.find(use);
    if (known != answers_.end() && !known->second.is_outside) return known->second.result;
    if (const auto end = ends_.find(use); end != ends_.end()) return end->second;
    const registry::ResolvedName* const name = names_.find(host, ns);
    if (name == nullptr)
      return {.host = host,
              .state = State::Failed,
              .addresses = {},
              .reason = "the namespace has too many names"};
    registry::ResolvedName result = *name;
    if (result.via.empty() && known != answers_.end()) result.via = known->second.result.via;
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
  // The mesh's answers for names that it answers, or that are aliases in it.
  std::map<Use, MeshAnswer> answers_;
  // Its answers for those that are looked up and lead back into it.
  std::map<Use, registry::ResolvedName> ends_;
  ResultBatches results_;
  std::set<Use> checks_;  // in results_ only because the mesh may say something new
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
void NameResolver::watch_order(std::string_view host, std::string_view ns, bool order_counts) {
  engine_->names().watch_order(host, ns, order_counts);
}
void NameResolver::set_policy(ResolverPolicy policy) { engine_->set_policy(policy); }
void NameResolver::retry_failed() { engine_->retry_failed(); }
void NameResolver::retry_all() { engine_->retry_all(); }

const registry::ResolvedName* NameResolver::find(std::string_view host, std::string_view ns) const {
  return engine_->names().find(host, ns);
}

std::vector<NameStatus> NameResolver::Engine::status() const {
  std::vector<NameStatus> names = names_.status(clock_());
  for (NameStatus& status : names)
    if (!status.name.via.empty()) status.name = result_of(status.ns, status.name.host);
  for (const auto& [use, answer] : answers_)
    if (!answer.is_outside) names.push_back({answer.result, {}, use.first});
  std::ranges::sort(names, {}, [](const NameStatus& status) {
    return std::pair<std::string_view, std::string_view>(status.name.host, status.ns);
  });
  return names;
}

FailingNames NameResolver::Engine::without_address(std::size_t limit) const {
  FailingNames failing = names_.without_address(limit, clock_());
  for (const auto& [use, answer] : answers_) {
    if (!is_unresolved(answer)) continue;
    ++failing.count;
    if (failing.first.size() < limit)
      failing.first.push_back({use.first, use.second, answer.result.reason, std::nullopt});
  }
  return failing;
}

ResolverCounters NameResolver::Engine::counters() const {
  ResolverCounters counters = names_.counters();
  for (const auto& [use, answer] : answers_) {
    if (!answer.is_outside) ++counters.names;
    if (is_unresolved(answer)) ++counters.names_failed;
  }
  return counters;
}

std::vector<NameStatus> NameResolver::status() const { return engine_->status(); }
FailingNames NameResolver::without_address(std::size_t limit) const {
  return engine_->without_address(limit);
}
FailingNames NameResolver::with_old_addresses(std::size_t limit) const {
  return engine_->with_old_addresses(limit);
}
std::vector<RefusedNames> NameResolver::refused() const { return engine_->names().refused(); }
ResolverCounters NameResolver::counters() const { return engine_->counters(); }

}  // namespace meshdns::resolver
