#include "resolver/name_resolver.hpp"

#include <uv.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

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
        timer_(new uv_timer_t) {
    uv_timer_init(loop, timer_);
    timer_->data = this;
  }
  ~Engine() {
    lookups_.clear();
    uv_timer_stop(timer_);
    uv_close(reinterpret_cast<uv_handle_t*>(timer_),
             [](uv_handle_t* handle) { delete reinterpret_cast<uv_timer_t*>(handle); });
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void watch(std::string_view host) {
    if (names_.watch(host, clock_())) arm();
  }
  void unwatch(std::string_view host) {
    for (const LookupId id : names_.unwatch(host)) lookups_.erase(id);
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
    for (const auto& name : names_.expire(clock_())) listener_.on_resolved(name);
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
    // The lookup that is calling us ends with this call, not within it.
    const auto ended = lookups_.extract(id);
    const auto changed = names_.finish(id, std::move(answer), clock_());
    if (changed) listener_.on_resolved(*changed);
    start_due();
  }

  void arm() {
    const auto next = names_.next_wakeup();
    if (!next) {
      uv_timer_stop(timer_);
      return;
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(*next - clock_());
    const auto bounded = std::clamp(wait, std::chrono::milliseconds{0}, kLongestSleep);
    uv_timer_start(
        timer_, [](uv_timer_t* timer) { static_cast<Engine*>(timer->data)->on_time(); },
        static_cast<std::uint64_t>(bounded.count()), 0);
  }

  WatchedNames names_;
  LookupBackend& backend_;
  Clock clock_;
  ResolverListener& listener_;
  uv_timer_t* timer_;  // freed by its close callback
  std::map<LookupId, std::unique_ptr<Lookup>> lookups_;
};

NameResolver::NameResolver(uv_loop_s* loop, LookupBackend& backend, ResolverPolicy policy,
                           Clock clock, ResolverListener& listener)
    : engine_(std::make_unique<Engine>(loop, backend, policy, std::move(clock), listener)) {}
NameResolver::~NameResolver() = default;

void NameResolver::watch(std::string_view host) { engine_->watch(host); }
void NameResolver::unwatch(std::string_view host) { engine_->unwatch(host); }
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
ResolverCounters NameResolver::counters() const { return engine_->names().counters(); }

}  // namespace meshdns::resolver
