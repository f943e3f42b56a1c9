// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/sidecar_scope.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

#include "registry/base/each_once.hpp"
#include "registry/base/hash.hpp"
#include "registry/base/host_name.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {
namespace {

// Several times as many as this, and it costs less to look each of the fewer ones up.
constexpr std::size_t kMuchMore = 8;
// So few names are compared sooner than hashed: most Sidecars have no more.
constexpr std::size_t kFewGroups = 8;

std::uint64_t hash_of(std::string_view suffix, bool wildcard) {
  return wildcard ? ~hash_bytes(suffix) : hash_bytes(suffix);
}

// Returns whether a port of the egress hosts is among `numbers`.  REQUIRES: both sorted.
bool have_common_port(std::span<const EgressHost> hosts, std::span<const std::uint16_t> numbers) {
  if (hosts.size() > kMuchMore * numbers.size())
    return std::ranges::any_of(numbers, [&](std::uint16_t number) {
      return std::ranges::binary_search(hosts, number, {}, &EgressHost::port);
    });
  if (numbers.size() > kMuchMore * hosts.size())
    return std::ranges::any_of(hosts, [&](const EgressHost& host) {
      return std::ranges::binary_search(numbers, host.port);
    });
  for (auto number = numbers.begin(); !hosts.empty() && number != numbers.end();) {
    if (hosts.front().port == *number) return true;
    if (hosts.front().port < *number)
      hosts = hosts.subspan(1);
    else
      ++number;
  }
  return false;
}

EgressHost read_host(std::string_view ns, std::string_view host, const SymbolRef& client_ns,
                     SymbolTable& symbols) {
  EgressHost result;
  if (ns == ".")
    result.ns = client_ns;
  else if (!ns.empty() && ns != "*")
    result.ns = symbols.intern(ns);
  // "~/*" alone imports nothing: an exclusion of everything.
  if (host == "*") {
    result.wildcard = true;
  } else if (host.starts_with("*.")) {
    result.wildcard = true;
    result.suffix = to_lower(host.substr(2));
  } else {
    result.suffix = canonical_host(host);
  }
  return result;
}

// AddressUse::tag_of() of the namespaces of which the listeners import services, sorted; empty: of
// any, or of too many.
std::vector<std::uint32_t> tags_of(std::span<const ListenerScope> listeners) {
  std::vector<std::uint32_t> tags;
  for (const ListenerScope& listener : listeners) {
    if (listener.all) return {};
    for (const Symbol* const ns : listener.whole_namespaces)
      tags.push_back(AddressUse::tag_of(ns->text()));
    for (const EgressHost& host : listener.included.all()) {
      if (!host.ns) return {};
      tags.push_back(AddressUse::tag_of(host.ns->text()));
    }
  }
  sort_each_once(tags);
  if (tags.size() > SidecarScope::kMaxTags) tags.clear();
  return tags;
}

}  // namespace

EgressHosts::EgressHosts(std::vector<EgressHost> hosts) : hosts_(std::move(hosts)) {
  if (hosts_.empty()) return;
  const auto order = [](const EgressHost& h) {
    return std::tuple(std::string_view(h.suffix), h.wildcard, h.ns.get(), h.port);
  };
  std::ranges::sort(hosts_, {}, order);
  for (std::uint32_t i = 0; i < hosts_.size(); ++i) {
    const EgressHost& host = hosts_[i];
    const bool begins =
        i == 0 || host.suffix != hosts_[i - 1].suffix || host.wildcard != hosts_[i - 1].wildcard;
    if (begins) groups_.push_back({hash_of(host.suffix, host.wildcard), i, i, i});
    groups_.back().end = i + 1;
    if (!host.ns) groups_.back().any_end = i + 1;
    if (begins && host.wildcard)
      wildcard_labels_.set(std::min(host.suffix.empty() ? 0 : count_labels(host.suffix),
                                    wildcard_labels_.size() - 1));
  }
  slots_.assign(std::bit_ceil(2 * groups_.size()), kNone);
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    std::size_t slot = groups_[i].hash & (slots_.size() - 1);
    while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = i;
  }
}

const EgressHosts::Group* EgressHosts::find(std::string_view suffix, bool wildcard) const {
  if (slots_.empty()) return nullptr;
  const std::uint64_t hash = hash_of(suffix, wildcard);
  for (std::size_t slot = hash & (slots_.size() - 1); slots_[slot] != kNone;
       slot = (slot + 1) & (slots_.size() - 1)) {
    const Group& group = groups_[slots_[slot]];
    const EgressHost& first = first_of(group);
    if (group.hash == hash && first.suffix == suffix && first.wildcard == wildcard) return &group;
  }
  return nullptr;
}

template <typename Visit>
void EgressHosts::for_each_wildcard(std::string_view suffix, Visit&& visit) const {
  if (groups_.size() <= kFewGroups) {
    for (const Group& group : groups_)
      if (const EgressHost& first = first_of(group);
          first.wildcard && (first.suffix.empty() || is_at_or_below(suffix, first.suffix)))
        visit(group);
    return;
  }
  if (wildcard_labels_.none()) return;
  std::size_t labels = suffix.empty() ? 0 : count_labels(suffix);
  for (;; suffix = parent_of(suffix), --labels) {
    if (wildcard_labels_[std::min(labels, wildcard_labels_.size() - 1)])
      if (const Group* group = find(suffix, true)) visit(*group);
    if (suffix.empty()) return;
  }
}

template <typename Visit>
void EgressHosts::for_each_group(std::string_view host, Visit&& visit) const {
  if (host.starts_with("*.")) return for_each_wildcard(host.substr(2), visit);
  if (groups_.size() <= kFewGroups) {
    for (const Group& group : groups_)
      if (const EgressHost& first = first_of(group);
          first.wildcard ? first.suffix.empty() || is_below(host, first.suffix)
                         : first.suffix == host)
        visit(group);
    return;
  }
  if (const Group* group = find(host, false)) visit(*group);
  for_each_wildcard(parent_of(host), visit);
}

std::span<const EgressHost> EgressHosts::of_namespace(const Group& group, const Symbol* ns) const {
  const auto of_group = std::span(hosts_).subspan(group.any_end, group.end - group.any_end);
  const auto get_ns = [](const EgressHost& host) { return host.ns.get(); };
  const auto first = std::ranges::lower_bound(of_group, ns, {}, get_ns);
  // Most namespaces have none, or one.
  if (first == of_group.end() || first->ns.get() != ns) return {};
  const auto second = std::next(first);
  if (second == of_group.end() || second->ns.get() != ns) return {first, 1};
  return {first, std::ranges::upper_bound(second, of_group.end(), ns, {}, get_ns)};
}

inline bool EgressHosts::allows(const Group& group, const Symbol* ns, const PortList* ports) const {
  // Most names stand alone and for every port.
  if (const EgressHost& first = first_of(group); group.end - group.begin == 1 && first.port == 0)
    return !first.ns || first.ns.get() == ns;
  return one_allows(group, ns, ports);
}

bool EgressHosts::allows(std::string_view host, const Symbol* ns, const PortList* ports) const {
  if (hosts_.empty()) return false;
  bool found = false;
  for_each_group(host, [&](const Group& group) { found = found || allows(group, ns, ports); });
  return found;
}

bool EgressHosts::one_allows(const Group& group, const Symbol* ns, const PortList* ports) const {
  const auto is_allowed_by = [&](std::span<const EgressHost> hosts) {
    if (hosts.empty()) return false;
    if (hosts.front().port == 0) return true;
    return ports != nullptr && have_common_port(hosts, ports->numbers);
  };
  return is_allowed_by(for_any_namespace(group)) || is_allowed_by(of_namespace(group, ns));
}

bool EgressHosts::has_all_below(std::string_view name, const Symbol* ns) const {
  bool found = false;
  const auto has_every_port = [](std::span<const EgressHost> hosts) {
    return !hosts.empty() && hosts.front().port == 0;
  };
  for_each_wildcard(name, [&](const Group& group) {
    found |= has_every_port(for_any_namespace(group)) ||
             (ns != nullptr && has_every_port(of_namespace(group, ns)));
  });
  return found;
}

bool ListenerScope::imports(std::string_view host, const Symbol* ns, const PortList* ports) const {
  if (!excluded.empty() && excluded.allows(host, ns, ports)) return false;
  return included.allows(host, ns, ports) || imports_namespace(ns);
}

// The egress hosts of a ListenerScope while they are read.
struct SidecarScope::Draft {
  std::uint16_t port = 0;
  std::vector<EgressHost> excluded;
  std::vector<EgressHost> included;
  bool all = false;
  std::vector<SymbolRef> whole_namespaces;

  // `own_port`: the port of the host's listener where it is not that of the draft.
  void add(std::string_view text, std::uint16_t own_port, const SymbolRef& client_ns,
           SymbolTable& symbols) {
    const bool excludes = text.starts_with('~');
    const auto slash = text.find('/');
    if (slash == std::string_view::npos) return;
    const std::string_view ns = text.substr(excludes ? 1 : 0, slash - (excludes ? 1 : 0));
    EgressHost host = read_host(ns, text.substr(slash + 1), client_ns, symbols);
    if (excludes) return excluded.push_back(std::move(host));
    host.port = own_port;
    const bool is_everything = host.wildcard && host.suffix.empty() && host.port == 0;
    if (!is_everything)
      included.push_back(std::move(host));
    else if (!host.ns)
      all = true;
    else
      whole_namespaces.push_back(std::move(host.ns));
  }

  ListenerScope finish() && {
    ListenerScope scope;
    scope.port = port;
    scope.all = all;
    if (all) included.clear();
    scope.excluded = EgressHosts(std::move(excluded));
    scope.included = EgressHosts(std::move(included));
    for (const SymbolRef& ns : whole_namespaces) scope.whole_namespaces.insert(ns.get());
    return scope;
  }
};

Ref<const SidecarScope> SidecarScope::compile(const Sidecar& sidecar, const SymbolRef& client_ns,
                                              SymbolTable& symbols, StoredRef source) {
  auto* scope = new SidecarScope;
  Ref<const SidecarScope> result(scope);
  scope->source_ = std::move(source);
  scope->outbound_policy_ = outbound_policy_of(sidecar.meta);
  Draft plain;  // all listeners without exclusions
  plain.all = sidecar.egress.empty();
  std::vector<Draft> excluding;
  std::size_t for_every_port = 0;
  for (const auto& listener : sidecar.egress) {
    const std::uint16_t port = listener.protocol == "HTTP_PROXY" ? 0 : listener.port;
    if (port != 0) scope->ports_.push_back(port);
    const bool excludes = std::ranges::any_of(
        listener.hosts, [](const std::string& host) { return host.starts_with('~'); });
    Draft* draft = &plain;
    if (excludes && (port != 0 || for_every_port < kMaxForEveryPort)) {
      draft = &excluding.emplace_back();
      draft->port = port;
      for_every_port += port == 0 ? 1 : 0;
    } else if (excludes) {
      draft = &*std::ranges::find(excluding, 0, &Draft::port);
    }
    for (const std::string_view text : listener.hosts)
      draft->add(text, draft == &plain ? port : 0, client_ns, symbols);
  }
  if (excluding.empty() || plain.all || !plain.included.empty() || !plain.whole_namespaces.empty())
    excluding.push_back(std::move(plain));
  sort_each_once(scope->ports_);
  std::ranges::stable_sort(excluding, {}, &Draft::port);
  for (Draft& draft : excluding) {
    scope->for_every_port_ += draft.port == 0 ? 1 : 0;
    scope->held_.insert(scope->held_.end(), draft.whole_namespaces.begin(),
                        draft.whole_namespaces.end());
    scope->listeners_.push_back(std::move(draft).finish());
  }
  if (scope->for_every_port_ == 1 && scope->listeners_.size() == 1)
    scope->only_ = scope->listeners_.data();
  scope->namespace_tags_ = tags_of(scope->listeners());
  return result;
}

template <typename Matches>
bool SidecarScope::any_listener(const PortList* ports, const Matches& matches) const {
  const auto all = listeners();
  for (const ListenerScope& listener : all.first(for_every_port_))
    if (matches(listener)) return true;
  const auto by_port = all.subspan(for_every_port_);
  if (ports == nullptr || by_port.empty()) return false;
  if (by_port.size() < ports->numbers.size())
    return std::ranges::any_of(by_port, [&](const ListenerScope& listener) {
      return std::ranges::binary_search(ports->numbers, listener.port) && matches(listener);
    });
  return std::ranges::any_of(ports->numbers, [&](std::uint16_t number) {
    return std::ranges::any_of(std::ranges::equal_range(by_port, number, {}, &ListenerScope::port),
                               matches);
  });
}

bool SidecarScope::imports(std::string_view host, const Symbol* ns, const PortList* ports) const {
  if (only_ != nullptr) return only_->imports(host, ns, ports);
  return any_listener(
      ports, [&](const ListenerScope& listener) { return listener.imports(host, ns, ports); });
}

bool ScopedHost::any_allows(const EgressHosts& hosts, Groups& found, const Symbol* ns,
                            const PortList* ports) const {
  if (hosts.empty()) return false;
  if (!found.is_filled) {
    hosts.for_each_group(
        host_, [&](const EgressHosts::Group& group) { found.groups[found.count++] = &group; });
    found.is_filled = true;
  }
  return std::any_of(found.groups.begin(), found.groups.begin() + found.count,
                     [&](const auto* group) { return hosts.allows(*group, ns, ports); });
}

bool ScopedHost::imports(const Symbol* ns, const PortList* ports) {
  if (scope_ == nullptr) return true;
  return scope_->any_listener(ports, [&](const ListenerScope& listener) {
    if (&listener != scope_->listeners_.data()) return listener.imports(host_, ns, ports);
    return !any_allows(listener.excluded, excluded_, ns, ports) &&
           (listener.imports_namespace(ns) || any_allows(listener.included, included_, ns, ports));
  });
}

}  // namespace meshdns::registry
