// SPDX-License-Identifier: Apache-2.0
#include "resolver/name_resolver.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "loop/timer.hpp"
#include "resolver/result_batches.hpp"

namespace meshdns::resolver {
namespace {

// libuv's timers stand still while the machine sleeps, the clock need not: nothing waits longer
// than this for being noticed.
constexpr std::chrono::milliseconds kLongestSleep{10'000};
constexpr std::chrono::milliseconds kRetrySpread{1'000};

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

class NameResolver::Engine {
 public:
  Engine(uv_loop_t* loop, LookupBackend& backend, ResolverPolicy policy, Clock clock,
         ResolverListener& listener)
      : names_(policy, random_seed()),
        backend_(backend),
        clock_(std::move(clock)),
        listener_(listener),
        timer_(loop, [this] { on_time(); }) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  bool watch(std::string_view host, std::string_view ns) {
    const auto outcome = names_.watch(host, ns, clock_());
    // A result that is there already, and the refusal, are told from the loop.
    if (outcome != WatchedNames::Watch::Begun) tell_later(ns, host);
    arm();
    return outcome != WatchedNames::Watch::Refused;
  }
  void unwatch(std::string_view host, std::string_view ns) {
    const auto result = names_.unwatch(host, ns, clock_());
    for (const LookupId id : result.cancelled) end(id);
    results_.remove(ns, host);
    if (result.begun) tell_later(ns, *result.begun);
    arm();
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
      lookups_[due.id] =
          backend_.start(due.host, due.id.family,
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
    if (auto ended = lookups_.extract(id)) ended_.push_back(std::move(ended.mapped()));
  }

  void note(const registry::ResolvedName& name) {
    for (const auto& ns : names_.namespaces_of(name.host)) results_.add(ns, name.host);
  }
  void tell_later(std::string_view ns, std::string_view host) {
    const registry::ResolvedName* name = names_.find(host);
    if (name == nullptr || name->state != registry::ResolvedName::State::Pending)
      results_.add(ns, host);
  }

  // One batch per turn of the loop, which has other things to do between them.
  void tell() {
    const TimePoint began = clock_();
    auto batch = results_.take_due(began);
    if (!batch) return;
    std::vector<registry::ResolvedName> names;
    for (auto& host : batch->hosts) {
      const registry::ResolvedName* name = names_.find(host);
      // A name that is not looked up for this namespace has failed for it; one that another
      // namespace has looked up is known all the same.
      if (name != nullptr)
        names.push_back(*name);
      else
        names.push_back({std::move(host), registry::ResolvedName::State::Failed, {}});
    }
    listener_.on_resolved(batch->ns, std::move(names));
    results_.told(batch->ns, began, clock_());
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
  LookupBackend& backend_;
  Clock clock_;
  ResolverListener& listener_;
  loop::Timer timer_;
  std::map<LookupId, std::unique_ptr<Lookup>> lookups_;
  std::vector<std::unique_ptr<Lookup>> ended_;  // destroyed in the next turn of the loop
  ResultBatches results_;
};

NameResolver::NameResolver(uv_loop_s* loop, LookupBackend& backend, ResolverPolicy policy,
                           Clock clock, ResolverListener& listener)
    : engine_(std::make_unique<Engine>(loop, backend, policy, std::move(clock), listener)) {}
NameResolver::~NameResolver() = default;

bool NameResolver::watch(std::string_view host, std::string_view ns) {
  return engine_->watch(host, ns);
}
void NameResolver::unwatch(std::string_view host, std::string_view ns) {
  engine_->unwatch(host, ns);
}
void NameResolver::watch_order(std::string_view host, bool order_counts) {
  engine_->names().watch_order(host, order_counts);
}
void NameResolver::set_policy(ResolverPolicy policy) { engine_->set_policy(policy); }
void NameResolver::retry_failed() { engine_->retry_failed(); }

const registry::ResolvedName* NameResolver::find(std::string_view host) const {
  return engine_->names().find(host);
}
std::vector<NameStatus> NameResolver::status() const {
  return engine_->names().status(engine_->now());
}
std::vector<RefusedNames> NameResolver::refused() const { return engine_->names().refused(); }
ResolverCounters NameResolver::counters() const { return engine_->names().counters(); }

}  // namespace meshdns::resolver
