// Who asks: an identity and what follows from it.  Computed when a Pod, WorkloadEntry, Sidecar or
// the configuration changes, never per query.  Immutable; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/base/result.hpp"
#include "registry/model/resources.hpp"
#include "registry/snapshot/service_record.hpp"
#include "registry/snapshot/symbol.hpp"

namespace meshdns::registry {

// The abstract model's Proxy: what a client is, before anything is looked up for it.
struct ClientIdentity {
  std::string ns = "default";
  Labels labels;
  std::string network;
  std::string cluster;
  std::vector<std::string> search;  // canonical; empty = the namespace's three
  bool ipv4 = true;
  bool ipv6 = true;
  std::string description = "client.default";  // "Pod shop/web-1"
  friend bool operator==(const ClientIdentity&, const ClientIdentity&) = default;
};

// `Type~IP~ID~Domain`; namespace from the ID ("pod.ns"), else the domain's first label.
Result<ClientIdentity> parse_node_id(std::string_view node_id);

enum class UnknownClient : std::uint8_t { Public, Refuse, Default };

// The egress hosts of one Sidecar, compiled: which services it lets through.  Shared by all clients
// that it selects (for a root-namespace Sidecar: per client namespace, since "." means the
// client's).
class SidecarScope final : public RefCounted {
 public:
  // `client_ns` resolves ".".
  static Ref<const SidecarScope> compile(const Sidecar& sidecar, const SymbolRef& client_ns,
                                         SymbolTable& symbols, StoredRef source);
  // Whether a service of that host (or "*.suffix") in that namespace is imported.
  bool imports(std::string_view host, const ServiceRecord& record) const;
  // Whether it imports that namespace as a whole, exclusions aside.
  bool imports_namespace(const Symbol* ns) const;
  // Whether an exclusion takes away all hosts of that namespace below `name`.
  bool excludes_below(std::string_view name, const Symbol* ns) const;
  struct HostPattern {
    SymbolRef ns;        // null = any
    std::string suffix;  // "" = every host; for a wildcard the text after "*."; else the exact host
    bool wildcard = false;
    bool exclude = false;
    std::uint16_t port = 0;  // 0 = any; else only services with that port
  };
  // Whether `is_it` says so of an egress host that stands for less than namespaces.
  template <typename IsIt>
  bool any_host(IsIt is_it) const {
    return std::ranges::any_of(
        patterns_, [&](const HostPattern& pattern) { return !pattern.exclude && is_it(pattern); });
  }
  std::string label() const { return source_ ? source_->label() : std::string(); }
  const StoredRef& source() const { return source_; }

 private:
  bool matches(const HostPattern& pattern, std::string_view host,
               const ServiceRecord& record) const;

  std::vector<HostPattern> patterns_;  // exclusions first
  bool all_ = false;                   // "*/*" and no exclusion
  // Namespaces imported as a whole ("ns/*", no port), sorted by address: the common case, one
  // search.
  std::vector<const Symbol*> whole_namespaces_;
  std::vector<SymbolRef> held_;
  StoredRef source_;
};

struct Client final : RefCounted {
  ClientIdentity identity;
  SymbolRef ns;  // null for the public client
  SymbolRef network;
  SymbolRef cluster;
  Ref<const SidecarScope> scope;    // null = no Sidecar restricts it
  std::vector<std::string> search;  // effective, canonical, without duplicates
};

// The client behind one source address.
struct ClientEntry final : RefCounted {
  IpAddress address;
  Ref<const Client> client;  // null: the address is shared and says nothing
};

}  // namespace meshdns::registry
