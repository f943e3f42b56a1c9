// SPDX-License-Identifier: Apache-2.0
#include "registry/derive/exported_services.hpp"

#include <algorithm>

namespace meshdns::registry {
namespace {

std::string service_of(const KubeService& service) {
  const ObjectMeta& meta = service.meta;
  return "Service " + (meta.cluster.empty() ? "" : meta.cluster + ":") + meta.ns + "/" + meta.name;
}

std::string port_text(const ServicePort& port) {
  const std::string name = port.name.empty() ? "" : port.name + " ";
  return name + std::to_string(port.number) + "/" + port.protocol;
}

std::string_view type_text(const KubeService& service) {
  return service.headless ? "headless" : "not headless";
}

// Ports of one name, or of one number and protocol, are one port of the name in the cluster set.
bool are_one_port(const ServicePort& a, const ServicePort& b) {
  return a.name == b.name || (a.number == b.number && a.protocol == b.protocol);
}

bool are_equal(const ServicePort& a, const ServicePort& b) {
  return a.name == b.name && a.number == b.number && a.protocol == b.protocol;
}

void add_ports(const KubeService& service, const KubeService& oldest, ExportedServices& result) {
  // A Service does not contradict itself.
  const std::size_t older = result.ports.size();
  for (const ServicePort& port : service.ports) {
    const auto end = result.ports.begin() + static_cast<std::ptrdiff_t>(older);
    const auto other = std::find_if(result.ports.begin(), end,
                                    [&](const ServicePort& p) { return are_one_port(p, port); });
    if (other == end)
      result.ports.push_back(port);
    else if (!are_equal(*other, port))
      result.conflicts.push_back("conflict: port " + port_text(port) + " of " +
                                 service_of(service) + " is left out; an older export, from " +
                                 service_of(oldest) + " on, has " + port_text(*other));
  }
}

}  // namespace

ExportedServices exported_services(const StoredObjects<ServiceExport>& exports,
                                   const StoredObjects<KubeService>& services) {
  ExportedServices result;
  for (const auto& [exported, stored] : exports)
    for (const auto& item : services) {
      const KubeService& service = *item.first;
      // The specification does not let an ExternalName be exported.
      if (service.meta.cluster != exported->meta.cluster ||
          service.type == ServiceType::ExternalName ||
          std::ranges::find(result.services, item) != result.services.end())
        continue;
      const KubeService& oldest =
          result.services.empty() ? service : *result.services.front().first;
      if (service.headless != oldest.headless) {
        result.conflicts.push_back("conflict: " + service_of(service) + " is left out: it is " +
                                   std::string(type_text(service)) +
                                   ", and that of the oldest ServiceExport, " + service_of(oldest) +
                                   ", is " + std::string(type_text(oldest)));
        continue;
      }
      add_ports(service, oldest, result);
      result.services.push_back(item);
    }
  return result;
}

}  // namespace meshdns::registry
