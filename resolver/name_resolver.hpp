// The resolver engine: keeps every name that endpoint sets use resolved, ahead of their queries.
// One lookup per name and family however many sets use it, refreshed before its TTL ends; on
// failure the last good addresses stay, and the next try backs off.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "registry/model/resolved_name.hpp"
#include "resolver/lookup.hpp"
#include "resolver/watched_names.hpp"

struct uv_loop_s;  // NOLINT(readability-identifier-naming): libuv's name

namespace meshdns::resolver {

// Now, on a clock that never jumps back and, better, counts while the machine sleeps.
using Clock = std::function<TimePoint()>;

// REQUIRES: outlives the resolver.
class ResolverListener {
 public:
  virtual ~ResolverListener() = default;
  // What `name` resolves to has changed: the set of its addresses, or its state; their order only
  // where watch_order asked for it.  Control thread; may call watch and unwatch, must not destroy
  // the resolver.
  virtual void on_resolved(const registry::ResolvedName& name) = 0;
};

// Control thread.  `loop` must run on for the handles to close after destruction.
class NameResolver {
 public:
  // REQUIRES: `backend` and `listener` outlive the resolver.
  NameResolver(uv_loop_s* loop, LookupBackend& backend, ResolverPolicy policy, Clock clock,
               ResolverListener& listener);
  ~NameResolver();

  // Who uses a name how often is counted by the caller.  `host` is canonical and no IP address.
  // The first result comes through the listener, never from within watch().
  void watch(std::string_view host);
  // Cancels its lookups; nothing is told about it any more.
  void unwatch(std::string_view host);
  // For a watched name that a DNS_ROUND_ROBIN set uses: the order of its latest answer is told,
  // too.
  void watch_order(std::string_view host, bool order_counts);

  void set_policy(ResolverPolicy policy);
  // The upstreams are back, or others: all that failed is asked for again within a second.
  void retry_failed();

  // nullptr when it is not watched; valid until the next call of any other function.
  const registry::ResolvedName* find(std::string_view host) const;
  std::vector<NameStatus> status() const;  // sorted by host
  ResolverCounters counters() const;

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace meshdns::resolver
