// SPDX-License-Identifier: Apache-2.0
// The resolver engine: keeps every name that endpoint sets use resolved, ahead of their queries,
// for each namespace as its clients resolve it.  Names of the mesh are answered by the mesh; all
// others are looked up, and what an alias outside leads back into the mesh is the mesh's again. One
// lookup per namespace, name and family however many sets use it, refreshed before its TTL ends; on
// failure the last good addresses stay, and the next try backs off.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "registry/model/resolved_name.hpp"
#include "resolver/names/lookup.hpp"
#include "resolver/names/mesh_names.hpp"
#include "resolver/names/watched_names.hpp"

struct uv_loop_s;  // NOLINT(readability-identifier-naming): libuv's name

namespace meshdns::resolver {

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
  std::vector<NameStatus> status() const;     // sorted by host, then namespace
  std::vector<RefusedNames> refused() const;  // sorted by namespace
  ResolverCounters counters() const;

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace meshdns::resolver
