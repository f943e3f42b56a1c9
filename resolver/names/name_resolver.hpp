// SPDX-License-Identifier: Apache-2.0
// The resolver engine: keeps every name that endpoint sets use resolved, ahead of their queries,
// for each namespace as its clients resolve it.  Names of the mesh are answered by the mesh; all
// others are looked up, and what an alias outside leads back into the mesh is the mesh's again. One
// lookup per namespace, name and family however many sets use it, refreshed before its TTL ends; on
// failure the last good addresses stay, and the next try backs off.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "registry/model/resolved_name.hpp"
#include "resolver/names/lookup.hpp"
#include "resolver/names/refresh_schedule.hpp"
#include "resolver/names/watched_names.hpp"

struct uv_loop_s;  // NOLINT(readability-identifier-naming): libuv's name

namespace meshdns::resolver {

// Selects the results that the listener gets next: the changed names of one namespace, together.
//
// Telling them costs a commit, which builds every endpoint set anew that uses one of the names. A
// set of thousands of names with short TTLs would otherwise keep the thread busy with commits. So a
// namespace whose commits take long gets fewer of them, each for more names, and costs other
// namespaces nothing but its share.
// Time is an argument. One thread.
class ResultBatches {
 public:
  // Between two batches of a namespace.
  static constexpr std::chrono::milliseconds kShortestPause{5};
  // Part of the time that the batches of one namespace may take, and that all long ones may take.
  static constexpr int kPausePerCost = 19;       // 5%
  static constexpr int kCommonPausePerCost = 4;  // 20%
  // A batch that takes longer is a long one.
  static constexpr std::chrono::milliseconds kLong{2};

  struct Batch {
    std::string ns;
    std::vector<std::string> hosts;  // sorted
  };

  // Notes that what `host` resolves to has changed for `ns`, or may have.  Returns false if that
  // was noted already.
  bool add(std::string_view ns, std::string_view host);
  // Forgets what was noted.
  void remove(std::string_view ns, std::string_view host);
  // Returns one batch that is due, those of namespaces whose last one was not long first.
  std::optional<Batch> take_due(TimePoint now);
  // Notes the processor time that telling the batch took, until `now`.  A busy machine, where the
  // clock runs on while the thread waits, must not make a short batch a long one.
  void told(std::string_view ns, Duration cost, TimePoint now);
  // Returns when take_due() has a batch; nullopt = nothing waits.
  std::optional<TimePoint> next() const;

 private:
  struct Tenant {
    std::string ns;
    std::set<std::string, std::less<>> hosts;  // to tell
    bool is_long = false;                      // the last batch was
    TimePoint due{};                           // of the next batch
  };
  using Queue = std::set<std::pair<TimePoint, Tenant*>>;  // tenants with hosts to tell
  Queue& queue_of(const Tenant& tenant) { return tenant.is_long ? long_ : short_; }

  std::map<std::string, std::unique_ptr<Tenant>, std::less<>> tenants_;
  Queue short_;
  Queue long_;
  TimePoint long_due_{};  // of the next long batch of any namespace
};

// Now, on a clock that never jumps back and, better, counts while the machine sleeps.
using Clock = std::function<TimePoint()>;

// REQUIRES: outlives the resolver.
class ResolverListener {
 public:
  virtual ~ResolverListener() = default;
  // The results of these names have changed: the set of addresses, or the state; the order only if
  // watch_order() requested it. Namespace `ns` uses all of them; other namespaces that use one of
  // them get their own call. Control thread, never within watch() or unwatch(); may call both, must
  // not destroy the resolver.
  virtual void on_resolved(std::string_view ns, std::vector<registry::ResolvedName>&& names) = 0;
};

// Control thread.  `loop` must run on for the handles to close after destruction.
class NameResolver {
 public:
  // REQUIRES: all outlive the resolver.  `mesh`: null = no name is one of the mesh.
  NameResolver(uv_loop_s* loop, Lookups& lookups, ResolverPolicy policy, Clock clock,
               ResolverListener& listener, MeshNames* mesh = nullptr);
  ~NameResolver();

  // Namespace `ns` uses the name from now on; the caller counts its uses there. `host` is canonical
  // and no IP address. The first result comes through the listener, never from within watch().
  // Returns false for a name that should be looked up and is not: a namespace that has too many is
  // told that it has failed, until it has fewer.
  bool watch(std::string_view host, std::string_view ns);
  // Nothing is told to `ns` about the name any more; cancels its lookups.
  void unwatch(std::string_view host, std::string_view ns);
  // The mesh may have a new answer for a watched name, for all names of the namespace, or for all
  // names.  Asks the mesh soon, and tells the listener what is new: at once, or less often for a
  // namespace whose results take long to tell.
  void recheck(std::string_view host, std::string_view ns);
  void recheck_namespace(std::string_view ns);
  void recheck_all();
  // For a watched name that a DNS_ROUND_ROBIN set uses: the order of its latest answer is told,
  // too.
  void watch_order(std::string_view host, std::string_view ns, bool order_counts);

  void set_policy(ResolverPolicy policy);
  // The upstreams are back: all that failed is asked for again within a second.
  void retry_failed();
  // The upstreams are others: all names are asked for again within a second.
  void retry_all();

  // nullptr when it is not looked up; valid until the next call of any other function.
  const registry::ResolvedName* find(std::string_view host, std::string_view ns) const;
  std::vector<NameStatus> status() const;  // sorted by host, then namespace
  // As WatchedNames has them, and with those that the mesh answers.
  FailingNames without_address(std::size_t limit) const;
  FailingNames with_old_addresses(std::size_t limit) const;
  std::vector<RefusedNames> refused() const;  // sorted by namespace
  ResolverCounters counters() const;

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace meshdns::resolver
