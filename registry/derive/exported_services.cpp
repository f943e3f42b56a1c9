// SPDX-License-Identifier: Apache-2.0
#include "registry/derive/deriver.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>

namespace meshdns::registry {
namespace {

// Limit of conflicts that are reported for one name.
constexpr std::size_t kMaxConflicts = 20;

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

bool are_equal(const ServicePort& a, const ServicePort& b) {
  return a.name == b.name && a.number == b.number && a.protocol == b.protocol;
}

// The ports of the Services so far.  Ports of one name, or of one number and protocol, are one port
// of the name in the cluster set.
class UnitedPorts {
 public:
  explicit UnitedPorts(ExportedServices& result) : result_(result) {}

  void add(const KubeService& service, const KubeService& oldest) {
    // A Service does not contradict itself.
    const std::size_t older = result_.ports.size();
    for (const ServicePort& port : service.ports) {
      const ServicePort* const other = find(port);
      if (other == nullptr)
        result_.ports.push_back(port);
      else if (!are_equal(*other, port) && result_.conflicts.size() < kMaxConflicts)
        result_.conflicts.push_back("conflict: port " + port_text(port) + " of " +
                                    service_of(service) + " is left out; an older export, from " +
                                    service_of(oldest) + " on, has " + port_text(*other));
    }
    for (std::size_t i = older; i < result_.ports.size(); ++i) {
      const ServicePort& port = result_.ports[i];
      by_name_.try_emplace(port.name, i);
      by_number_.try_emplace({port.number, port.protocol}, i);
    }
  }

 private:
  // The older one of the port's name, or else of its number.
  const ServicePort* find(const ServicePort& port) const {
    if (const auto found = by_name_.find(port.name); found != by_name_.end())
      return &result_.ports[found->second];
    const auto found = by_number_.find({port.number, port.protocol});
    return found == by_number_.end() ? nullptr : &result_.ports[found->second];
  }

  ExportedServices& result_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::map<std::pair<std::uint16_t, std::string>, std::size_t> by_number_;
};

}  // namespace

ExportedServices exported_services(const Stored<ServiceExport>& exports,
                                   const Stored<KubeService>& services) {
  ExportedServices result;
  UnitedPorts ports(result);
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
      ports.add(service, oldest);
      result.services.push_back(item);
    }
  return result;
}

}  // namespace meshdns::registry
