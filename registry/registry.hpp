// SPDX-License-Identifier: Apache-2.0
// The registry: applies transactions of resources and publishes snapshots.  The cost of a commit is
// proportional to the change: affected services are derived again, and all others are shared with
// the previous generation.
//
//   Registry registry(settings);
//   Transaction t;
//   t.upsert(resource, "shop.yaml", 14);
//   registry.commit(std::move(t));
//   View view(*registry.current(), *registry.current()->default_client);
//
// Control thread only; any thread may use the snapshots.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "registry/controller.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/model/resolved_name.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "registry/snapshot/transaction.hpp"
#include "registry/tables/status_address_table.hpp"
#include "registry/tables/vip_allocator.hpp"

namespace meshdns::registry {

class Registry {
 public:
  explicit Registry(MeshSettings settings);
  ~Registry();

  // Each derives all services again and publishes a snapshot.  `settings` are those of the
  // configuration; MeshConfig completes them (Snapshot::settings).
  Changes set_settings(MeshSettings settings);
  void set_clients(ClientSettings clients);
  void set_sources(SourceState sources);
  // Sets the SOA serial (default 1); see Snapshot::serial.
  void set_serial(std::uint32_t serial);

  // Answers a mesh that named several networks, and names one only now, as one that always did.
  // All services with endpoints are derived again then, and whoever may write a WorkloadEntry can
  // begin and end a network: call it once a minute.
  std::optional<Changes> settle_networks();

  // Returns the id of the origin `name`; equal names have equal ids until the origin is removed.
  OriginId origin(std::string_view name);

  // Applies a transaction, publishes a snapshot, then calls the handlers of the Controller.  Never
  // fails: resources have been validated.  If several origins have an object, the version of the
  // origin with the smallest name is used.
  Changes commit(Transaction&& transaction);

  const std::shared_ptr<const Snapshot>& current() const { return current_; }
  Controller& controller() { return controller_; }
  // `publish` is called with each new snapshot, before the handlers (for the Publisher).
  void set_publish(std::function<void(std::shared_ptr<const Snapshot>)> publish);
  // `before_publish` is called before each `publish`.
  void set_before_publish(std::function<void(const Changes&)> before_publish);
  // `interrupt` is asked now and then during large commits.  Once it returns true, that commit and
  // all later ones are given up and nothing is published any more: the process is to end, and does
  // not wait for seconds of work.  current() stays as it was.
  void set_interrupt(std::function<bool()> interrupt);
  // Replaces the allocator of `auto_allocate` that the settings selected (persistent allocators
  // need a file, which the registry does not have).
  Changes set_vip_allocator(std::unique_ptr<VipAllocator> allocator);
  // The addresses that the allocator has assigned, in no order, and a number that grows whenever
  // they change.
  std::vector<VipAssignment> virtual_addresses() const;
  std::uint64_t virtual_address_changes() const;
  // Returns a client with that identity, for explanations.  It is not stored in the snapshot or in
  // any table, so any number of identities may be used.
  Ref<const Client> client_of(const ClientIdentity& identity);
  // The endpoint names that services of a namespace use, and the namespaces that have any.
  std::vector<std::string> endpoint_names_of(std::string_view ns) const;
  std::vector<std::string> namespaces_with_endpoint_names() const;
  // The hosts of the namespace that use an endpoint name.
  std::vector<std::string> users_of_endpoint_name(std::string_view ns, std::string_view name) const;
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
  bool wants_records() const;
  Changes finish(Change& change);
  Changes rebuild(MeshSettings configured);

  std::unique_ptr<State> state_;
  std::shared_ptr<const Snapshot> current_;
  Controller controller_;
};

}  // namespace meshdns::registry
