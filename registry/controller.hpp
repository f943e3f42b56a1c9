// The abstract model's Controller: tells handlers what has changed, one queue, in the order in
// which they were attached; the snapshot that a handler is given is at least as new as its event.
#pragma once

#include <functional>
#include <memory>
#include <string>
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
  bool service_changed = false;     // identity, VIPs, ports, visibility
  bool instances_changed = false;   // its endpoints
};

// Control thread.
class Controller {
 public:
  using Handler = std::function<void(const ServiceEvent&, const Snapshot&)>;
  void append_service_handler(Handler handler) { service_handlers_.push_back(std::move(handler)); }
  void append_instance_handler(Handler handler) {
    instance_handlers_.push_back(std::move(handler));
  }
  bool has_handlers() const { return !service_handlers_.empty() || !instance_handlers_.empty(); }
  void notify(const std::vector<ServiceEvent>& events, const Snapshot& snapshot) const;

 private:
  std::vector<Handler> service_handlers_;
  std::vector<Handler> instance_handlers_;
};

}  // namespace meshdns::registry
