// SPDX-License-Identifier: Apache-2.0
// The changes of a commit, and the handlers that are called with them, in the order in which they
// were attached.  The snapshot that a handler receives is at least as new as the changes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/snapshot/snapshot.hpp"
#include "registry/tables/endpoint_name_table.hpp"

namespace meshdns::registry {

class HostTable;

// The record of one host in one namespace that was derived again, with any difference or none.
struct RecordChange {
  std::string host;                 // "*.suffix" for a wildcard
  Ref<const ServiceRecord> before;  // null: there was none
  Ref<const ServiceRecord> after;   // null: there is none; not both

  std::string_view ns() const { return (after ? after : before)->ns->text(); }
  // The service of the former and of the present record; null: there is none, or a placeholder.
  const ServiceRecord* service_before() const { return service_of(before); }
  const ServiceRecord* service_after() const { return service_of(after); }

 private:
  static const ServiceRecord* service_of(const Ref<const ServiceRecord>& record) {
    return record && !record->placeholder ? record.get() : nullptr;
  }
};

// The changes of one commit.
struct Changes {
  // The commit was given up (Registry::set_interrupt): the rest is empty.
  bool interrupted = false;
  std::size_t changed_resources = 0;
  std::size_t changed_hosts = 0;
  // In no order.  A record that was derived several times is there as often, each time as a change
  // of the one before.  Empty without before_publish and handlers.
  std::vector<RecordChange> records = {};
  // Any answer may differ: settings, the state of the sources, gateways or Sidecars.
  bool everything = false;
  // Addresses whose clients may be others.
  std::vector<IpAddress> clients = {};
  // The work of the resolver engine.
  EndpointNameTable::Difference names = {};
  // Endpoint names of the derived services whose order of addresses matters (DNS_ROUND_ROBIN).
  std::vector<NameUse> names_in_order = {};
  // Claims that are refused since this commit: by `mesh.claims: strict`, or names of gateways.
  struct RefusedClaim {
    std::string host;
    StoredRef source;
    std::string reason;
  };
  std::vector<RefusedClaim> refused = {};
  // Hosts that several namespaces claim, and that shadow Services.
  std::vector<std::string> conflicts = {};
  // MeshConfig has changed the settings, and so all services were derived again.
  bool mesh_config_changed = false;
};

// Each compares one part of two services: the objects that they come from, their ports, and their
// addresses for clients that name neither network nor cluster.
bool same_sources(const ServiceRecord& a, const ServiceRecord& b);
bool same_ports(const ServiceRecord& a, const ServiceRecord& b);
bool same_addresses(const ServiceRecord& a, const ServiceRecord& b);

enum class Event : std::uint8_t { Add, Update, Delete };
std::string_view to_string(Event event);

// Returns what happened to the service: another identity, VIP, port or object is an Update, other
// addresses of its endpoints are not.  nullopt: nothing.
std::optional<Event> event_of(const RecordChange& change);

// Control thread.
class Controller {
 public:
  using Handler = std::function<void(const Changes&, const Snapshot&)>;
  // Calls `handler` after each commit for as long as the result lives.
  [[nodiscard]] std::shared_ptr<const Handler> attach(Handler handler);

  using ServiceHandler = std::function<void(Event, const RecordChange&, const Snapshot&)>;
  // Calls `handler` for each service that a commit adds, changes or removes.
  void append_service_handler(ServiceHandler handler);

  bool has_handlers() const;
  void notify(const Changes& changes, const Snapshot& snapshot);

 private:
  std::vector<std::weak_ptr<const Handler>> handlers_;
  std::vector<std::shared_ptr<const Handler>> appended_;  // are never detached
};

// Two steps of Registry, for hosts that are not derived again, or not from their former records.

// Adds the Services whose endpoints have these addresses, which are those of changed Pods: the
// service model shows the Pods' labels.
void add_changes_of_pods(std::span<const IpAddress> addresses, const Snapshot& snapshot,
                         std::vector<RecordChange>& changes);

// After a change of the settings: `changes` has all records of `now`, as additions.  Sets their
// former records, and adds the records that only `former` has.
void compare_with_former(const HostTable& former, const HostTable& now,
                         std::vector<RecordChange>& changes);

}  // namespace meshdns::registry
