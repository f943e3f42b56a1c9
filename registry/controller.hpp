// SPDX-License-Identifier: Apache-2.0
// The abstract model's Controller: tells handlers what has changed, one queue, in the order in
// which they were attached; the snapshot that a handler is given is at least as new as its event.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {

enum class Event : std::uint8_t { Add, Update, Delete };
std::string_view to_string(Event event);

// A service (one host in one namespace) that came, changed or went.
struct ServiceEvent {
  Event event;
  std::string host;
  std::string ns;
  Ref<const ServiceRecord> before;  // null for Add
  Ref<const ServiceRecord> after;   // null for Delete
};

// The event for handlers when a namespace's record of a host has become `after`; null = none.
// Nothing when they could not tell a difference.
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

 private:
  std::vector<Handler> handlers_;
};

}  // namespace meshdns::registry
