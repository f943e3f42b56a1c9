// SPDX-License-Identifier: Apache-2.0
// The registry: applies transactions of resources and publishes snapshots.  The cost of a commit is
// proportional to the change: affected services are derived again, and all others are shared with
// the previous generation.
//
//   Registry registry(settings);
//   Transaction t;
//   t.upsert(resource, registry.origin("shop.yaml"), 14);
//   registry.commit(std::move(t));
//   View view(*registry.current(), *registry.current()->default_client);
//
// Control thread only; any thread may use the snapshots.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "registry/controller.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/model/resolved_name.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "registry/tables/endpoint_name_table.hpp"
#include "registry/tables/status_address_table.hpp"
#include "registry/tables/vip_allocator.hpp"

namespace meshdns::registry {

// Changes that are applied together.  If a key changes more than once, the last change wins.
class Transaction {
 public:
  void upsert(const Resource& resource, OriginId origin, std::uint32_t line);
  // An already encoded resource (state snapshot).
  void upsert(StoredRef resource);
  // `encoded`: bytes from encode_resource().
  void upsert(std::string_view encoded, OriginId origin, std::uint32_t line);
  void remove(ResourceKey key, OriginId origin);
  void remove(std::uint64_t key_hash, OriginId origin);
  // Removes the objects of `origin` that are neither upserted in this transaction nor in `keep`.
  void replace_origin(OriginId origin, std::vector<ResourceKey> keep);
  // As replace_origin() with nothing to keep; and if the origin has no object then, its id is
  // given to others: ask for it again.
  void remove_origin(OriginId origin);
  // Removes the objects of `origin` whose hash_of(key) is not in `retained`; list the objects that
  // this transaction upserts, too.  REQUIRES: `retained` is sorted.
  void retain(OriginId origin, std::vector<std::uint64_t> retained);
  // Sets what `name` resolves to for the endpoint sets of namespace `ns`, and only for these: a
  // name of the mesh may be another service's in another namespace.
  void set_resolved(std::string_view ns, ResolvedName name);
  bool empty() const {
    return upserts_.empty() && removals_.empty() && hashed_removals_.empty() && replaced_.empty() &&
           retained_.empty() && resolved_.empty();
  }

 private:
  friend class Registry;
  std::vector<StoredRef> upserts_;
  std::vector<std::pair<ResourceKey, OriginId>> removals_;
  std::vector<std::pair<std::uint64_t, OriginId>> hashed_removals_;
  std::vector<std::pair<OriginId, std::vector<ResourceKey>>> replaced_;
  std::vector<OriginId> removed_origins_;  // all of them are in replaced_, too
  std::vector<std::pair<OriginId, std::vector<std::uint64_t>>> retained_;
  std::vector<std::pair<std::string, ResolvedName>> resolved_;  // by namespace
};

// The changes of one commit.
struct CommitSummary {
  // The commit was given up (Registry::set_interrupt): the rest is empty.
  bool interrupted = false;
  std::size_t changed_resources = 0;
  std::size_t changed_hosts = 0;
  // Names that endpoint sets of a namespace now use, or no longer use: the work list of the
  // resolver engine.  Sorted.
  std::vector<NameUse> names_added;
  std::vector<NameUse> names_removed;
  // Uses whose names may have another result in the mesh since this commit: all of these
  // namespaces', or all that there are.  Sorted; without those that began or ended.
  std::vector<NameUse> names_touched;
  std::vector<std::string> namespaces_touched;
  bool all_names_touched = false;
  // Endpoint names of the derived services whose order of addresses matters (DNS_ROUND_ROBIN).
  std::vector<NameUse> names_in_order;
  // Claims that are refused since this commit: by `mesh.claims: strict`, or names of gateways.
  struct RefusedClaim {
    std::string host;
    StoredRef source;
    std::string reason;
  };
  std::vector<RefusedClaim> refused;
  std::vector<std::string> conflicts;  // hosts claimed by several namespaces, shadowing of services
  // MeshConfig has changed the settings, and so all services were derived again.
  bool mesh_config_changed = false;
};

class Registry {
 public:
  explicit Registry(MeshSettings settings);
  ~Registry();

  // Each derives all services again and publishes a snapshot.  `settings` are those of the
  // configuration; MeshConfig completes them (Snapshot::settings).
  CommitSummary set_settings(MeshSettings settings);
  void set_clients(ClientSettings clients);
  void set_sources(SourceState sources);
  // Sets the SOA serial (default 1); see Snapshot::serial.
  void set_serial(std::uint32_t serial);

  // Returns the id of the origin `name`; equal names have equal ids until remove_origin().
  OriginId origin(std::string_view name);

  // Applies a transaction, publishes a snapshot, then calls the handlers of the Controller.  Never
  // fails: resources have been validated.  If several origins have an object, the version of the
  // origin with the smallest name is used.
  CommitSummary commit(Transaction&& transaction);

  const std::shared_ptr<const Snapshot>& current() const { return current_; }
  Controller& controller() { return controller_; }
  // `publish` is called with each new snapshot, before the handlers (for the Publisher).
  void set_publish(std::function<void(std::shared_ptr<const Snapshot>)> publish);
  // `before_publish` is called before each `publish`, with all that the new snapshot may answer
  // in another way than the one before it.
  void set_before_publish(std::function<void(const AnswerChange&)> before_publish);
  // `interrupt` is asked now and then during large commits.  Once it returns true, that commit and
  // all later ones are given up and nothing is published any more: the process is to end, and does
  // not wait for seconds of work.  current() stays as it was.
  void set_interrupt(std::function<bool()> interrupt);
  // Replaces the allocator of `auto_allocate` that the settings selected (persistent allocators
  // need a file, which the registry does not have).
  CommitSummary set_vip_allocator(std::unique_ptr<VipAllocator> allocator);
  // Returns a client with that identity, for explanations.  It is not stored in the snapshot or in
  // any table, so any number of identities may be used.
  Ref<const Client> client_of(const ClientIdentity& identity);
  // The endpoint names that services of a namespace use, and the namespaces that have any.
  std::vector<std::string> endpoint_names_of(std::string_view ns) const;
  std::vector<std::string> namespaces_with_endpoint_names() const;
  // Visits the WorkloadEntries and Pods of the namespace that `selector` selects.
  void for_each_selected(std::string_view ns, const Labels& selector,
                         const std::function<void(const Resource&)>& visit) const;
  // The addresses of an endpoint name for services of the namespace; null: not resolved yet.
  const ResolvedName* resolved(std::string_view ns, std::string_view name) const;
  // Addresses that `status.addresses` of several hosts have.
  static constexpr std::size_t kMaxContestedAddresses = 1000;
  std::vector<ContestedAddress> contested_addresses() const;
  // Number of interned words.
  std::size_t symbols() const;
  // Number of distinct Sidecar scopes in use.
  std::size_t scopes() const;

 private:
  struct State;
  struct Change;
  CommitSummary finish(Change& change);
  CommitSummary rebuild(MeshSettings configured);
  void notify(Change& change);

  std::unique_ptr<State> state_;
  std::shared_ptr<const Snapshot> current_;
  Controller controller_;
};

}  // namespace meshdns::registry
