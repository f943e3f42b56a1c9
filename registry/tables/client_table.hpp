// SPDX-License-Identifier: Apache-2.0
// The clients: the objects with an address, and the Sidecars that narrow a client's view.
#pragma once

#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/snapshot/client.hpp"
#include "registry/snapshot/hash_trie.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "registry/snapshot/stored_resource.hpp"
#include "registry/snapshot/symbol.hpp"
#include "registry/tables/namespace_table.hpp"
#include "registry/tables/network_table.hpp"
#include "registry/tables/workload_table.hpp"

namespace meshdns::registry {

// The Sidecars of each namespace, and the scopes that they give to clients.
//
// Control thread.
class SidecarTable {
 public:
  void add(const SymbolRef& ns, const StoredRef& sidecar);
  void remove(const SymbolRef& ns, const StoredRef& sidecar);

  // The Sidecar that applies to a client of `ns`: of its namespace, those with a matching
  // workloadSelector before those without one, each group by age; else one without a selector of
  // `root`, the root namespace.  Null: none applies.
  StoredRef find(const Labels& client_labels, const SymbolRef& ns, const SymbolRef& root) const;

  // The compiled form of `sidecar` for clients of `ns`; clients with equal forms share one
  // object.
  Ref<const SidecarScope> scope_of(const StoredRef& sidecar, const SymbolRef& ns,
                                   SymbolTable& symbols);
  // Removes scopes without clients.
  void sweep();
  // Number of scopes.
  std::size_t scopes() const { return scopes_.size(); }

 private:
  StoredRef choose(const SymbolRef& ns, const Labels* client_labels) const;

  std::unordered_map<SymbolRef, std::vector<StoredRef>, SymbolHash> sidecars_;
  // By Sidecar and, if it has ".", the namespace of the client.
  std::map<std::pair<const StoredResource*, const Symbol*>, Ref<const SidecarScope>> scopes_;
};

// The Pods and WorkloadEntries with an address, and the clients of addresses, of the configuration
// and of explanations.
//
// Control thread; any thread may read the published data.
class ClientTable {
 public:
  // REQUIRES: all outlive the table.  `workloads` has the arguments of link_workload().
  ClientTable(const MeshSettings& settings, SymbolTable& symbols, const WorkloadTable& workloads,
              const NodeTable& nodes, const NetworkTable& networks)
      : settings_(settings),
        symbols_(symbols),
        workloads_(workloads),
        nodes_(nodes),
        networks_(networks) {}

  // The next update() makes all clients again.
  void use(ClientSettings clients);
  const ClientSettings& settings() const { return clients_; }

  // `workload` is the decoded `stored`: a WorkloadEntry or Pod that is added (`add`) or removed.
  void link_workload(const StoredRef& stored, const Resource& workload, bool add);
  void link_sidecar(const SymbolRef& ns, const StoredRef& sidecar, bool add);
  // The next update() makes all clients again: the networks of clusters have changed.
  void note_networks() { all_changed_ = true; }
  // Visits the Pods with an address as of the last update(), one with several addresses several
  // times.
  void for_each_pod(const std::function<void(const StoredResource&)>& visit) const;
  // The next update() makes the clients at the Pod's addresses again.
  void refresh(const Pod& pod);
  // The next update() makes the client of the configuration again.
  void refresh_default() { default_changed_ = true; }
  struct Update {
    bool everyone = false;             // clients without an entry may be others, too
    std::vector<IpAddress> addresses;  // whose clients were made again
  };
  // Makes the clients again that depend on changes since the last call.
  Update update();

  // Returns a client with that identity that is not part of the snapshot.  Adds nothing to the
  // tables of symbols and scopes, which would otherwise grow with each request.
  Ref<const Client> visitor(const ClientIdentity& identity) const;
  // Number of distinct Sidecar scopes in use.
  std::size_t scopes() const { return sidecars_.scopes(); }
  void publish_to(Snapshot& snapshot) const;

 private:
  // The objects that begin or cease to have one address, in the order of the changes.  update()
  // applies all of them at once: an address may have tens of thousands of objects.
  struct ObjectChange {
    StoredRef object;
    bool add;
  };
  using ObjectChanges = std::vector<ObjectChange>;
  static std::vector<StoredRef> objects_after(std::vector<StoredRef> objects,
                                              const ObjectChanges& changes);
  void update_address(const IpAddress& address, const ObjectChanges& changes);
  Ref<const PodEntry> pod_entry(const IpAddress& address,
                                const std::vector<StoredRef>& objects) const;
  Ref<const ClientEntry> client_entry(const IpAddress& address,
                                      const std::vector<StoredRef>& objects);
  ClientIdentity identity_of(const Resource& workload, const IpAddress& address) const;
  std::string network_of(const Resource& workload, const IpAddress& address) const;
  Locality locality_of(const Resource& workload) const;
  void make_default();
  // The search list of a Pod that has none of its own.
  std::vector<std::string> search_list_of_pod(std::string_view ns) const;
  // The Sidecar that narrows the client's view; null = none.
  StoredRef sidecar_of(const ClientIdentity& identity, const SymbolRef& ns) const;
  Ref<const Client> make(const ClientIdentity& identity);
  Ref<const Client> describe(const ClientIdentity& identity, const SymbolRef& ns,
                             const SymbolRef& network, const SymbolRef& cluster, Place place,
                             Ref<const SidecarScope> scope) const;

  const MeshSettings& settings_;
  SymbolTable& symbols_;
  const WorkloadTable& workloads_;
  const NodeTable& nodes_;
  const NetworkTable& networks_;
  ClientSettings clients_;
  SidecarTable sidecars_;
  HashTrie<PodEntry> pods_;
  HashTrie<ClientEntry> by_address_;  // only with by_source_address
  Ref<const Client> default_client_;
  Ref<const Client> public_client_;
  // Since the last update().
  std::map<IpAddress, ObjectChanges> changes_;  // empty: the clients of the address alone
  std::unordered_set<SymbolRef, SymbolHash> changed_sidecars_;  // by namespace
  bool all_changed_ = true;
  bool default_changed_ = true;
};

}  // namespace meshdns::registry
