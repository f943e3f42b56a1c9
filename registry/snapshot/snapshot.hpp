// SPDX-License-Identifier: Apache-2.0
// One generation of the registry's data.  Immutable; any number of threads.  A query uses one
// snapshot from start to end.  Generations share their unchanged parts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/snapshot/client.hpp"
#include "registry/snapshot/hash_trie.hpp"
#include "registry/snapshot/name_filter.hpp"
#include "registry/snapshot/network_gateways.hpp"
#include "registry/snapshot/reverse_entry.hpp"
#include "registry/snapshot/service_record.hpp"

namespace meshdns::registry {

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
  // Of the Pods that hold the address, running or not, without those of the host network.
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
  // The name of the first source that has not delivered; empty: none, or it is not known.
  std::string awaited_source = {};
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
