// SPDX-License-Identifier: Apache-2.0
// The registry: takes resources in transactions and publishes snapshots.  Applying a change costs
// as much as the change: what it touches is derived anew, all else is shared with the generation
// before.
//
//   Registry registry(settings);
//   Transaction t;
//   t.upsert(resource, registry.origin("shop.yaml"), 14);
//   registry.commit(std::move(t));
//   View view(*registry.current(), *registry.current()->default_client);
//
// Control thread, all of it; snapshots are for any thread.
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
#include "registry/vip/vip_allocator.hpp"

namespace meshdns::registry {

// Changes to be applied together.  Order counts: the last word on a key wins.
class Transaction {
 public:
  void upsert(const Resource& resource, OriginId origin, std::uint32_t line);
  // An already encoded resource (state snapshot).
  void upsert(StoredRef resource);
  // Octets of encode_resource().
  void upsert(std::string_view encoded, OriginId origin, std::uint32_t line);
  void remove(ResourceKey key, OriginId origin);
  // All that `origin` holds and that is neither upserted in this transaction nor in `keep` goes.
  void replace_origin(OriginId origin, std::vector<ResourceKey> keep);
  // All that `origin` holds and whose hash_of(key) is not in `retained` goes: what this transaction
  // upserts is to be listed, too.  REQUIRES: sorted.
  void retain(OriginId origin, std::vector<std::uint64_t> retained);
  // Sets the addresses of `name` for the endpoint sets of namespace `ns`.  Sets of other namespaces
  // that use the name follow when this is called for them, or with their next change.
  void set_resolved(std::string_view ns, ResolvedName name);
  bool empty() const {
    return upserts_.empty() && removals_.empty() && replaced_.empty() && retained_.empty() &&
           resolved_.empty();
  }

 private:
  friend class Registry;
  std::vector<StoredRef> upserts_;
  std::vector<std::pair<ResourceKey, OriginId>> removals_;
  std::vector<std::pair<OriginId, std::vector<ResourceKey>>> replaced_;
  std::vector<std::pair<OriginId, std::vector<std::uint64_t>>> retained_;
  std::vector<std::pair<std::string, ResolvedName>> resolved_;  // by namespace
};

// The changes of one commit.
struct CommitSummary {
  std::size_t changed_resources = 0;
  std::size_t changed_hosts = 0;
  // Names that endpoint sets of a namespace have begun or ceased to use: the resolver engine's work
  // list. Sorted.
  std::vector<NameUse> names_added;
  std::vector<NameUse> names_removed;
  // Of the names in use by what this commit derived: those whose order counts (DNS_ROUND_ROBIN).
  std::vector<std::string> names_in_order;
  // Claims that `mesh.claims: strict` has begun to refuse.
  struct RefusedClaim {
    std::string host;
    StoredRef source;
    std::string reason;
  };
  std::vector<RefusedClaim> refused;
  std::vector<std::string> conflicts;  // hosts claimed by several namespaces, shadowing of services
};

class Registry {
 public:
  explicit Registry(MeshSettings settings);
  ~Registry();

  // Each derives everything anew and publishes.
  CommitSummary set_settings(MeshSettings settings);
  void set_clients(ClientSettings clients);
  // Facts about sources that change answers: see Snapshot.
  void set_state(bool authoritative, bool synced, bool from_state_dir);
  void set_endpoints_unknown(bool unknown);
  // The SOA serial, 1 without it: see Snapshot::serial.
  void set_serial(std::uint32_t serial);

  // The id of an origin's name; the same name gives the same id.
  OriginId origin(std::string_view name);

  // Applies, publishes, then tells the Controller's handlers.  Never fails: resources have been
  // validated, and an object of the same key from several origins is served from the origin whose
  // name is the least.
  CommitSummary commit(Transaction&& transaction);

  const std::shared_ptr<const Snapshot>& current() const { return current_; }
  Controller& controller() { return controller_; }
  // Called with each new snapshot before handlers are told (the Publisher's place).
  void set_publish(std::function<void(std::shared_ptr<const Snapshot>)> publish);
  // The allocator of `auto_allocate`; replaces the one that the settings chose (persistent ones
  // need a file, of which the registry knows nothing).
  CommitSummary set_vip_allocator(std::unique_ptr<VipAllocator> allocator);
  // A client of that identity as of now, for explanations: what it sees, without being one of the
  // snapshot's. Any identity may be asked for, as often as one likes: nothing is kept of it.
  Ref<const Client> client_of(const ClientIdentity& identity);
  // How many words are interned.
  std::size_t symbols() const;
  // How many distinct Sidecar scopes are alive.
  std::size_t scopes() const;

 private:
  struct State;
  struct Change;
  CommitSummary finish(Change& change);

  std::unique_ptr<State> state_;
  std::shared_ptr<const Snapshot> current_;
  Controller controller_;
};

}  // namespace meshdns::registry
