#include "registry/controller.hpp"

namespace meshdns::registry {

std::string_view to_string(Event event) {
  switch (event) {
    case Event::Add:
      return "add";
    case Event::Update:
      return "update";
    case Event::Delete:
      return "delete";
  }
  return "";
}

void Controller::notify(const std::vector<ServiceEvent>& events, const Snapshot& snapshot) const {
  for (const auto& event : events) {
    if (event.service_changed)
      for (const auto& handler : service_handlers_) handler(event, snapshot);
    if (event.instances_changed)
      for (const auto& handler : instance_handlers_) handler(event, snapshot);
  }
}

}  // namespace meshdns::registry
