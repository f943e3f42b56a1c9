// SPDX-License-Identifier: Apache-2.0
// One generation of the registry's data.  Immutable; any number of threads.  A query uses one
// snapshot from start to end.  Generations share their unchanged parts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/base/ref.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/snapshot/client.hpp"
#include "registry/snapshot/hash_trie.hpp"
#include "registry/snapshot/network_gateways.hpp"
#include "registry/snapshot/service_record.hpp"

namespace meshdns::registry {

// Tells at once that a set does not have a name, which is the usual case: a lookup would cost each
// forwarded or denied query a part of its time.  Tells names apart by length, first and last
// character, because a real hash costs as much as the lookup that it spares.  Any text is safe.
class NameFilter {
 public:
  void add(std::string_view name) {
    if (!name.empty()) words_[word_of(name)] |= bit_of(name);
  }
  // False: the name was never added.
  bool may_have(std::string_view name) const {
    return !name.empty() && (words_[word_of(name)] & bit_of(name)) != 0;
  }

 private:
  static std::size_t word_of(std::string_view name) {
    return static_cast<unsigned char>(name.front()) & 63U;
  }
  static std::uint64_t bit_of(std::string_view name) {
    const auto last = static_cast<unsigned char>(name.back());
    return std::uint64_t{1} << ((last + 7 * name.size()) & 63U);
  }

  std::array<std::uint64_t, 64> words_{};
};

// One service that has an address.  The order of the values is the order in which services are
// looked at: the more an address is a service's own, the sooner.  However many objects a tenant
// makes with an address, the names of its owner are found first.
class AddressUse {
 public:
  enum class Kind : std::uint8_t {
    ClusterIp,  // given by the API server
    Service,    // another address of a Service or of its endpoints
    Claim,      // a ServiceEntry's word
  };
  // The namespaces that the objects with the address are exported to.
  enum class Audience : std::uint8_t {
    Everybody,
    Some,  // some namespaces, or all but unknown clients
    Own,   // their own namespace, or none
  };
  AddressUse(Kind kind, Audience audience, const Symbol& ns, std::uint64_t host_hash);
  // The first value that such a use may have, and the one behind the last.
  static AddressUse first_of(Kind kind, Audience audience, std::uint32_t ns_tag);
  static AddressUse behind(Kind kind, Audience audience, std::uint32_t ns_tag);
  static std::uint32_t tag_of(std::string_view ns);

  Kind kind() const { return static_cast<Kind>(bits_ >> kKindShift); }
  Audience audience() const { return static_cast<Audience>(bits_ >> kAudienceShift & 3); }
  // Equal for equal namespaces, and for one in 65,536 pairs of others.
  std::uint32_t ns_tag() const { return (bits_ >> kNamespaceShift) & kNamespaceMask; }
  // The bits of the host's hash that HashTrie reads.
  std::uint64_t host_hash() const;
  bool is_of_host(std::uint64_t hash) const { return host_hash() == (hash & kHashMask); }
  friend auto operator<=>(const AddressUse&, const AddressUse&) = default;

 private:
  static constexpr unsigned kKindShift = 62;
  static constexpr unsigned kAudienceShift = 60;
  static constexpr unsigned kNamespaceShift = 44;
  static constexpr std::uint32_t kNamespaceMask = (1U << 16) - 1;
  static constexpr std::uint64_t kHashMask = 0xfff00000ffffffffULL;

  explicit AddressUse(std::uint64_t bits) : bits_(bits) {}
  std::uint64_t bits_;
};

// The services that have an address, in the order of AddressUse.  Readers check that the host
// still has the service.
class ReverseEntry final : public RefCounted {
 public:
  // REQUIRES: `uses` is sorted.
  static Ref<const ReverseEntry> create(std::uint64_t address_hash,
                                        std::span<const AddressUse> uses);
  static void destroy(const ReverseEntry* entry);

  std::uint64_t address_hash() const { return address_hash_; }
  std::span<const AddressUse> uses() const {
    return {reinterpret_cast<const AddressUse*>(this + 1), count_};
  }
  std::span<const AddressUse> uses(AddressUse::Kind kind) const;
  std::span<const AddressUse> uses(AddressUse::Kind kind, AddressUse::Audience audience) const;
  std::span<const AddressUse> uses(AddressUse::Kind kind, AddressUse::Audience audience,
                                   std::uint32_t ns_tag) const;

 private:
  ReverseEntry(std::uint64_t address_hash, std::size_t count)
      : count_(static_cast<std::uint32_t>(count)), address_hash_(address_hash) {}
  const std::uint32_t count_;
  const std::uint64_t address_hash_;
};

// A known Namespace.
struct NamespaceEntry final : RefCounted {
  SymbolRef name;
  Labels labels;
  TrafficDistribution traffic_distribution = TrafficDistribution::Unset;
};

// A name with hosts below it (RFC 4592, section 2.2.2), and the clients that may see it.
struct NonTerminal final : RefCounted {
  std::string name;
  std::vector<ExportScope> scopes;  // of the services of the hosts, each once
};

// Pods by address, for verified pod names and for identity.
struct PodEntry final : RefCounted {
  IpAddress address;
  std::vector<Ref<const StoredResource>> pods;
  std::vector<SymbolRef> namespaces;  // of the running pods with that address
  // Namespaces of the Pods that hold the address, running or not, without Pods of the host network.
  std::vector<SymbolRef> holders;
  bool has_pod = false;  // any Pod holds it
};

// Origins (files, clusters) by id, for explanations.  In blocks, most of which a snapshot shares
// with the one before.
struct OriginNames final : RefCounted {
  static constexpr std::size_t kBlockSize = 256;
  using Block = std::array<std::string, kBlockSize>;

  std::size_t size() const { return blocks.size() * kBlockSize; }
  // Empty: there is none.
  std::string_view of(OriginId id) const {
    return id < size() ? std::string_view((*blocks[id / kBlockSize])[id % kBlockSize])
                       : std::string_view();
  }

  std::vector<std::shared_ptr<const Block>> blocks;
};

// The states of sources that change answers.
struct SourceState {
  // Whether missing names of the cluster domain are denied (`authoritative`).
  bool authoritative = false;
  // false: a required source has not delivered yet; cluster names get SERVFAIL with EDE 14.
  bool synced = true;
  // The state is the one from `state_dir`, not yet confirmed by its sources.
  bool from_state_dir = false;
  // A source has no permission to read endpoints: a headless Service without any may have some.
  bool endpoints_unknown = false;
  // A source has no permission to read Sidecars or MeshConfig.
  bool policies_unknown = false;
  // The name of the first source that has not delivered; empty: none, or it is not known.
  std::string awaited_source = {};
  // Returns whether Client::is_registry_only is what the sources say now.
  bool have_policies() const { return synced && !from_state_dir && !policies_unknown; }
  friend bool operator==(const SourceState&, const SourceState&) = default;
};

struct Snapshot {
  std::uint64_t generation = 0;
  // SOA serial: Unix seconds of the start.  It does not follow changes, because it would show
  // each client changes of hidden objects.  Serials are not compared, because there are no zone
  // transfers.
  std::uint32_t serial = 1;
  SourceState sources;

  std::shared_ptr<const MeshSettings> settings;
  HashTrie<HostEntry> hosts;
  HashTrie<HostEntry> wildcards;  // by hash_bytes of the suffix; host() is "*.suffix"
  NameFilter wildcard_suffixes;   // of `wildcards`, and of those that are gone
  HashTrie<ReverseEntry> reverse;
  HashTrie<NamespaceEntry> namespaces;
  HashTrie<PodEntry> pods;
  HashTrie<ClientEntry> clients;  // by source address; only with by_source_address
  HashTrie<StoredResource> resources;
  HashTrie<NonTerminal> non_terminals;  // above hosts
  NameFilter members;                   // names of the Services that have, or had, members
  Ref<const Client> default_client;     // client.default
  Ref<const Client> public_client;      // sees public services only
  Ref<const OriginNames> origins;
  Ref<const NetworkGateways> gateways;  // null: networks are not told apart
  bool by_source_address = false;
  UnknownClient unknown_clients = UnknownClient::Public;

  const HostEntry* find_host(std::string_view host) const {
    return hosts.find(hash_bytes(host), [&](const HostEntry& e) { return e.host() == host; });
  }
  const HostEntry* find_wildcard(std::string_view suffix) const {
    return wildcards.find(hash_bytes(suffix),
                          [&](const HostEntry& e) { return e.host().substr(2) == suffix; });
  }
  const NamespaceEntry* find_namespace(std::string_view name) const {
    return namespaces.find(hash_bytes(name),
                           [&](const NamespaceEntry& e) { return e.name->text() == name; });
  }
  const NonTerminal* find_non_terminal(std::string_view name) const {
    return non_terminals.find(hash_bytes(name),
                              [&](const NonTerminal& e) { return e.name == name; });
  }
  const PodEntry* find_pod(const IpAddress& address) const;
  // The reason for the client of an address; null = nothing is known of the address.
  const ClientEntry* client_entry_at(const IpAddress& source) const;
  // The client at `source`.  Null: by_source_address, unknown, and unknown clients are refused.
  const Client* client_at(const IpAddress& source) const;
};

std::uint64_t hash_of(const IpAddress& address);

}  // namespace meshdns::registry
