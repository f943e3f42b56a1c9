// SPDX-License-Identifier: Apache-2.0
// The services that a Sidecar imports.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "registry/model/resources.hpp"
#include "registry/snapshot/service_record.hpp"
#include "registry/snapshot/symbol.hpp"

namespace meshdns::registry {

// An egress host of a Sidecar.
struct EgressHost {
  SymbolRef ns;        // null = any
  std::string suffix;  // "" = every host; for a wildcard the text after "*."; else the exact host
  bool wildcard = false;
  std::uint16_t port = 0;  // 0 = any; else only services with that port
};

// Finds the egress hosts that match a host, however many there are: a Sidecar may have thousands,
// and one query may ask about hundreds of hosts.  Immutable once made; any thread.
class EgressHosts {
 public:
  EgressHosts() = default;
  explicit EgressHosts(std::vector<EgressHost> hosts);

  // All of them; those of one name are neighbours.
  std::span<const EgressHost> all() const { return hosts_; }
  bool empty() const { return hosts_.empty(); }

  // Egress hosts of one name, by namespace and port.
  struct Group {
    std::uint64_t hash = 0;
    std::uint32_t begin = 0;
    std::uint32_t any_end = 0;  // those for any namespace come first
    std::uint32_t end = 0;
  };
  // Calls `visit(group)` for each group whose name matches the host, or, for "*.suffix", all that
  // it stands for: "*.a.com" takes in "*.b.a.com".
  template <typename Visit>
  void for_each_group(std::string_view host, Visit&& visit) const;
  // Returns whether any of them lets a service of the host, of that namespace and with those ports
  // (null = none), through.
  bool allows(std::string_view host, const Symbol* ns, const PortList* ports) const;
  // Returns whether one of the group does.
  bool allows(const Group& group, const Symbol* ns, const PortList* ports) const;
  // Returns whether a wildcard for every port takes in all hosts of that namespace below `name`.
  bool has_all_below(std::string_view name, const Symbol* ns) const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // REQUIRES: a group of these hosts.  Not by operator[], which would check that for each query.
  const EgressHost& first_of(const Group& group) const { return *(hosts_.begin() + group.begin); }
  const Group* find(std::string_view suffix, bool wildcard) const;
  // Calls `visit(group)` for the wildcards over `suffix` or a name above it.
  template <typename Visit>
  void for_each_wildcard(std::string_view suffix, Visit&& visit) const;
  std::span<const EgressHost> for_any_namespace(const Group& group) const {
    return std::span(hosts_).subspan(group.begin, group.any_end - group.begin);
  }
  // allows() where egress hosts of several namespaces or ports have one name.
  bool one_allows(const Group& group, const Symbol* ns, const PortList* ports) const;
  // REQUIRES: ns is not null.
  std::span<const EgressHost> of_namespace(const Group& group, const Symbol* ns) const;

  std::vector<EgressHost> hosts_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> slots_;  // a hash table of indices into groups_
  std::bitset<129> wildcard_labels_;  // numbers of labels that wildcards' suffixes have
};

// Egress listeners of a Sidecar with the same exclusions: all that have none, or one that has some.
// An exclusion takes nothing from what other listeners import.
struct ListenerScope {
  EgressHosts excluded;
  EgressHosts included;
  // Namespaces imported as a whole ("ns/*", no port).
  std::unordered_set<const Symbol*> whole_namespaces;
  bool all = false;        // "*/*" for every port
  std::uint16_t port = 0;  // 0 = any; else only services with that port

  // Returns whether it imports that namespace as a whole, exclusions aside.
  bool imports_namespace(const Symbol* ns) const { return all || whole_namespaces.contains(ns); }
  // Returns whether an exclusion takes away all hosts of that namespace below `name`.
  bool excludes_below(std::string_view name, const Symbol* ns) const {
    return excluded.has_all_below(name, ns);
  }
  bool imports(std::string_view host, const Symbol* ns, const PortList* ports) const;
};

// The egress hosts of one Sidecar, compiled: which services it lets through.  Shared by all clients
// that it selects (for a root-namespace Sidecar: per client namespace, since "." means the
// client's).
class SidecarScope final : public RefCounted {
 public:
  // Number of listeners for every port (HTTP_PROXY) that keep exclusions of their own; others share
  // those of the first.  A question about a service looks at each of these listeners.
  static constexpr std::size_t kMaxForEveryPort = 16;

  // `client_ns` resolves ".".
  static Ref<const SidecarScope> compile(const Sidecar& sidecar, const SymbolRef& client_ns,
                                         SymbolTable& symbols, StoredRef source);
  // Returns whether a service of the host, of that namespace and with those ports (null = none), is
  // imported.  ScopedHost asks faster about many of one host.
  bool imports(std::string_view host, const Symbol* ns, const PortList* ports) const;
  // Returns whether the ports of a service matter: a listener is for one port.
  bool depends_on_ports() const { return !ports_.empty(); }
  // The ports that listeners are for, sorted.
  std::span<const std::uint16_t> ports() const { return ports_; }
  // Listeners for every port come first, then the others by port.
  std::span<const ListenerScope> listeners() const { return listeners_; }
  // AddressUse::tag_of() of each namespace that it may import services of, sorted; empty: of any
  // namespace, or of more than kMaxTags.
  static constexpr std::size_t kMaxTags = 64;
  std::span<const std::uint32_t> namespace_tags() const { return namespace_tags_; }
  const StoredRef& source() const { return source_; }
  // nullopt: that of the mesh.
  std::optional<OutboundPolicy> outbound_policy() const { return outbound_policy_; }

 private:
  friend class ScopedHost;
  struct Draft;

  // Calls `matches(listener)` for the listeners that may import services with those ports, until it
  // returns true; returns whether it did.
  template <typename Matches>
  bool any_listener(const PortList* ports, const Matches& matches) const;

  std::vector<ListenerScope> listeners_;
  std::vector<std::uint16_t> ports_;
  std::vector<std::uint32_t> namespace_tags_;
  std::size_t for_every_port_ = 0;  // so many of them, the first
  std::vector<SymbolRef> held_;
  StoredRef source_;
  std::optional<OutboundPolicy> outbound_policy_;
  // The only one, for every port: most Sidecars have one listener, or none with exclusions.
  const ListenerScope* only_ = nullptr;
};

// Asks a scope about the services of one host.  The egress hosts that match are looked for once,
// however many namespaces have the host.  Never allocates.  REQUIRES: outlived by all it is given.
class ScopedHost {
 public:
  // `scope`: null = everything is imported.  `host`: a name or "*.suffix".
  ScopedHost(const SidecarScope* scope, std::string_view host) : scope_(scope), host_(host) {}
  // Returns whether a service of the host, of that namespace and with those ports (null = none), is
  // imported.
  bool imports(const Symbol* ns, const PortList* ports);

 private:
  // A name has at most 127 labels, and there may be "*" and the name itself.
  struct Groups {
    std::array<const EgressHosts::Group*, 129> groups;
    std::size_t count = 0;
    bool is_filled = false;
  };
  bool any_allows(const EgressHosts& hosts, Groups& found, const Symbol* ns,
                  const PortList* ports) const;

  const SidecarScope* const scope_;
  const std::string_view host_;
  // The groups of the first listener: most Sidecars have one.
  Groups excluded_;
  Groups included_;
};

}  // namespace meshdns::registry
