// SPDX-License-Identifier: Apache-2.0
// The Pods and WorkloadEntries that have an address, and the clients that an address, the
// configuration and an explanation stand for.
//
// Control thread; what it publishes is for any thread.
#pragma once

#include <set>
#include <unordered_set>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/snapshot/client.hpp"
#include "registry/snapshot/hash_trie.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "registry/tables/sidecar_table.hpp"
#include "registry/tables/workload_table.hpp"

namespace meshdns::registry {

class ClientTable {
 public:
  // REQUIRES: all outlive the table.  `workloads` are those that link_workload() hears of.
  ClientTable(const MeshSettings& settings, SymbolTable& symbols, const WorkloadTable& workloads)
      : settings_(settings), symbols_(symbols), workloads_(workloads) {}

  // Every client is made anew by the next update().
  void use(ClientSettings clients);
  const ClientSettings& settings() const { return clients_; }

  // `workload` is what `stored` decodes to: a WorkloadEntry or a Pod that comes (`add`) or goes.
  void link_workload(const StoredRef& stored, const Resource& workload, bool add);
  void link_sidecar(const SymbolRef& ns, const StoredRef& sidecar, bool add);
  // Makes those clients anew that depend on what has changed since the last call.
  void update();

  // A client of that identity as of now, without being one of the snapshot's.  Adds nothing to the
  // tables of symbols and scopes, which would grow with each name that is asked for.
  Ref<const Client> visitor(const ClientIdentity& identity) const;
  // How many distinct Sidecar scopes are alive.
  std::size_t scopes() const { return sidecars_.scopes(); }
  void publish_to(Snapshot& snapshot) const;

 private:
  void update_address(const IpAddress& address);
  Ref<const PodEntry> pod_entry(const IpAddress& address,
                                const std::vector<StoredRef>& objects) const;
  Ref<const ClientEntry> client_entry(const IpAddress& address,
                                      const std::vector<StoredRef>& objects);
  ClientIdentity identity_of(const Resource& workload) const;
  Ref<const Client> make(const ClientIdentity& identity);
  Ref<const Client> describe(const ClientIdentity& identity, const SymbolRef& ns,
                             const SymbolRef& network, const SymbolRef& cluster,
                             Ref<const SidecarScope> scope) const;

  const MeshSettings& settings_;
  SymbolTable& symbols_;
  const WorkloadTable& workloads_;
  ClientSettings clients_;
  SidecarTable sidecars_;
  HashTrie<PodEntry> pods_;
  HashTrie<ClientEntry> by_address_;  // only with by_source_address
  Ref<const Client> default_client_;
  Ref<const Client> public_client_;
  // Since the last update().
  std::set<IpAddress> changed_addresses_;
  std::unordered_set<SymbolRef, SymbolHash> changed_sidecars_;  // by namespace
  bool all_changed_ = true;
};

}  // namespace meshdns::registry
