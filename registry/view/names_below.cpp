// SPDX-License-Identifier: Apache-2.0
// Whether a client sees hosts below a name that is none itself.  A part of view.hpp.
#include <algorithm>

#include "registry/base/host_name.hpp"
#include "registry/view/view.hpp"

namespace meshdns::registry {
namespace {

// Egress hosts and services that are looked at to learn whether something lies below a name.  A
// look into the registry counts as many.
constexpr std::size_t kMaxLooksBelow = 1024;
constexpr std::size_t kLookIntoRegistry = 32;

}  // namespace

// The services that a Sidecar imports by whole namespaces are known by what exports them; those of
// a narrower import are looked for by its hosts.  Where an egress listener's port or an exclusion
// of single hosts leaves it open, the name is there: denying it would deny what may be below.
bool View::is_empty_non_terminal(std::string_view name) const {
  if (is_exhausted()) return true;
  const NonTerminal* entry = snapshot_.find_non_terminal(name);
  if (entry == nullptr) return false;
  std::size_t looks = kMaxLooksBelow;
  const bool is_there = is_visible(*entry, looks);
  spend(kMaxLooksBelow - looks);
  return is_there;
}

bool View::is_visible(const NonTerminal& entry, std::size_t& looks) const {
  const SidecarScope* scope = client_.scope.get();
  const std::size_t cost =
      scope == nullptr ? 1 : std::max<std::size_t>(scope->listeners().size(), 1);
  for (const ExportScope& exports : entry.scopes) {
    if (looks < cost) return true;
    looks -= cost;
    if (!exports.includes(client_.ns.get())) continue;
    if (scope == nullptr ||
        std::ranges::any_of(scope->listeners(), [&](const ListenerScope& listener) {
          return listener.imports_namespace(exports.ns.get()) &&
                 !listener.excludes_below(entry.name, exports.ns.get());
        }))
      return true;
  }
  return scope != nullptr && may_import_below(entry, *scope, looks);
}

// Looks at the egress hosts that stand for less than a namespace.  Returns true where that would
// take too long to find out.
bool View::may_import_below(const NonTerminal& entry, const SidecarScope& scope,
                            std::size_t& looks) const {
  for (const ListenerScope& listener : scope.listeners())
    for (const EgressHost& egress : listener.included.all()) {
      const bool is_narrower = is_below(egress.suffix, entry.name);
      const bool is_wider =
          egress.wildcard && (egress.suffix.empty() || is_at_or_below(entry.name, egress.suffix));
      const std::size_t cost = is_narrower || is_wider ? kLookIntoRegistry : 1;
      if (looks < cost) return true;
      looks -= cost;
      if (cost > 1 && may_import_below(entry, listener, egress, is_narrower, looks)) return true;
    }
  return false;
}

bool View::may_import_below(const NonTerminal& entry, const ListenerScope& listener,
                            const EgressHost& egress, bool is_narrower, std::size_t& looks) const {
  if (!egress.wildcard) {
    const HostEntry* host = snapshot_.find_host(egress.suffix);
    return host != nullptr && choose(*host);
  }
  const NonTerminal* const below =
      is_narrower ? snapshot_.find_non_terminal(egress.suffix) : &entry;
  if (below == nullptr) return false;
  for (const ExportScope& exports : below->scopes) {
    if (looks == 0) return true;
    --looks;
    if ((!egress.ns || egress.ns == exports.ns) && exports.includes(client_.ns.get()) &&
        !listener.excludes_below(below->name, exports.ns.get()))
      return true;
  }
  return false;
}

}  // namespace meshdns::registry
