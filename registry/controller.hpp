// SPDX-License-Identifier: Apache-2.0
// The changes of a commit, and the handlers for changes of services.  Handlers are called in the
// order in which they were attached.  The snapshot that a handler receives is at least as new as
// its event.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {

class HostTable;

enum class Event : std::uint8_t { Add, Update, Delete };
std::string_view to_string(Event event);

// A service (one host in one namespace) that was added, changed or removed.
struct ServiceEvent {
  Event event;
  std::string host;
  std::string ns;
  Ref<const ServiceRecord> before;  // null for Add
  Ref<const ServiceRecord> after;   // null for Delete
};

// A record that was derived again, with any difference or none.  Null: no record.
struct HostChange {
  std::string host;
  std::string ns;
  Ref<const ServiceRecord> before;
  Ref<const ServiceRecord> after;
};

// The answers that a commit may change, for whoever keeps answers outside of the snapshots.
struct AnswerChange {
  // Any answer may be another: settings, the state of the sources, gateways or Sidecars.
  bool everything = false;
  // Hosts that were derived again, "*.suffix" for wildcards; in no order, some several times.
  std::vector<std::string> hosts;
  // Addresses whose clients may be others.
  std::vector<IpAddress> clients;
};

// Returns the event for a change of a record from `before` to `after`; null = no record.  nullopt
// if the handlers could not see a difference.
std::optional<ServiceEvent> difference(std::string_view host, std::string_view ns,
                                       const Ref<const ServiceRecord>& before,
                                       const Ref<const ServiceRecord>& after);

// Control thread.
class Controller {
 public:
  using Handler = std::function<void(const ServiceEvent&, const Snapshot&)>;
  void append_service_handler(Handler handler) { handlers_.push_back(std::move(handler)); }
  bool has_handlers() const { return !handlers_.empty(); }
  void notify(const std::vector<ServiceEvent>& events, const Snapshot& snapshot) const;

  // One handler for all that the abstract service model shows of a service: it is called after each
  // commit, with the changed hosts in no order, each once.  Null ends that.
  using ChangeHandler = std::function<void(const std::vector<HostChange>&)>;
  void set_change_handler(ChangeHandler handler) { change_handler_ = std::move(handler); }
  const ChangeHandler& change_handler() const { return change_handler_; }

 private:
  std::vector<Handler> handlers_;
  ChangeHandler change_handler_;
};

// Two steps of Registry, for hosts that are not derived again, or not from their former records.

// Adds the Services whose endpoints have these addresses, which are those of changed Pods: the
// service model shows the Pods' labels.
void add_changes_of_pods(std::span<const IpAddress> addresses, const Snapshot& snapshot,
                         std::vector<HostChange>& changes);

// After a change of the settings: `changes` has all records of `now`, as additions.  Sets their
// former records, and adds the records that only `former` has.
void compare_with_former(const HostTable& former, const HostTable& now,
                         std::vector<HostChange>& changes);

}  // namespace meshdns::registry
