// SPDX-License-Identifier: Apache-2.0
#include "registry/model/entry_endpoints.hpp"

#include <tuple>
#include <utility>

namespace meshdns::registry {

bool has_endpoint_names(const ServiceEntry& entry) {
  return entry.resolution == Resolution::Dns || entry.resolution == Resolution::DnsRoundRobin;
}

void for_each_endpoint(const ServiceEntry& entry, std::string_view host,
                       const ForEachSelected& for_each_selected,
                       const std::function<void(const EntryEndpoint&)>& visit) {
  if (entry.workload_selector)
    for_each_selected(*entry.workload_selector, [&](const Resource& resource) {
      if (const auto* pod = std::get_if<Pod>(&resource)) {
        if (pod->running) visit({.pod = pod});
      } else if (const auto* workload = std::get_if<WorkloadEntry>(&resource)) {
        visit({.spec = &workload->spec, .workload = &workload->meta, .healthy = workload->healthy});
      }
    });
  for (const WorkloadSpec& spec : entry.endpoints) visit({.spec = &spec});
  const bool is_host = !entry.workload_selector && entry.endpoints.empty() &&
                       has_endpoint_names(entry) && !host.starts_with("*");
  if (is_host) visit({});
}

bool precedes_as_endpoint(const Resource& a, const Resource& b) {
  const auto order = [](const Resource& workload) {
    const ObjectMeta& meta = meta_of(workload);
    return std::tuple(kind_of(workload) != Kind::Pod, std::string_view(meta.name),
                      std::string_view(meta.cluster));
  };
  return order(a) < order(b);
}

std::optional<Reached> reached(const WorkloadSpec& spec, const ServiceEntry& entry,
                               std::string* why) {
  const auto not_at_all = [&](std::string reason) -> std::optional<Reached> {
    if (why != nullptr) *why = std::move(reason);
    return std::nullopt;
  };
  if (spec.address.empty())
    return not_at_all("endpoint of network " + spec.network + " ignored: it has no address");
  if (spec.address.starts_with("unix://")) return Reached::BySocket;
  if (const auto ip = IpAddress::parse(spec.address)) {
    if (!ip->is_unspecified()) return Reached::ByAddress;
    return not_at_all("endpoint " + spec.address + " ignored: it is no address of a host");
  }
  if (has_endpoint_names(entry)) return Reached::ByName;
  return not_at_all("endpoint " + spec.address + " ignored: a name needs resolution DNS");
}

bool CountedEntries::counts(const ServiceEntry& entry) {
  return entry.resolution != Resolution::DnsRoundRobin || !std::exchange(has_round_robin_, true);
}

}  // namespace meshdns::registry
