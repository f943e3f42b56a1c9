// SPDX-License-Identifier: Apache-2.0
#include "registry/controller.hpp"

#include <algorithm>

namespace meshdns::registry {
namespace {

bool same_vips(const ServiceRecord& a, const ServiceRecord& b) {
  const AddressView x = a.addresses(nullptr, nullptr);
  const AddressView y = b.addresses(nullptr, nullptr);
  return std::ranges::equal(x.v4, y.v4) && std::ranges::equal(x.v6, y.v6);
}

bool same_ports(const ServiceRecord& a, const ServiceRecord& b) {
  static const std::vector<ServicePort> kNone;
  return (a.ports ? a.ports->ports : kNone) == (b.ports ? b.ports->ports : kNone);
}

// The parts of a service come from its sources; equal sources make equal parts.
bool same_parts(const ServiceRecord& a, const ServiceRecord& b) {
  if (a.split != b.split) return false;
  return !a.split ||
         (a.source == b.source && std::ranges::equal(a.more_sources(), b.more_sources()));
}

// Whether identity, VIPs and ports are the same; other addresses of its endpoints are no change of
// a service.
bool same_service(const ServiceRecord& a, const ServiceRecord& b) {
  return a.answer == b.answer && a.provider == b.provider && a.alias() == b.alias() &&
         same_ports(a, b) && same_parts(a, b) &&
         (b.answer != AnswerKind::Vips || same_vips(a, b)) && a.source == b.source;
}

}  // namespace

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

std::optional<ServiceEvent> difference(std::string_view host, std::string_view ns,
                                       const Ref<const ServiceRecord>& before,
                                       const Ref<const ServiceRecord>& after) {
  const bool was = before && !before->placeholder;
  const bool is = after && !after->placeholder;
  if (!was && !is) return std::nullopt;
  if (was && is && same_service(*before, *after)) return std::nullopt;
  ServiceEvent event;
  event.event = !was ? Event::Add : !is ? Event::Delete : Event::Update;
  event.host = host;
  event.ns = ns;
  if (was) event.before = before;
  if (is) event.after = after;
  return event;
}

void Controller::notify(const std::vector<ServiceEvent>& events, const Snapshot& snapshot) const {
  for (const auto& event : events)
    for (const auto& handler : handlers_) handler(event, snapshot);
}

}  // namespace meshdns::registry
