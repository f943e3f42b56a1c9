// SPDX-License-Identifier: Apache-2.0
// Hosts that a client may see in part: their objects differ in exportTo or ports.
#include <algorithm>
#include <map>
#include <utility>

#include "registry/derive/deriver.hpp"

namespace meshdns::registry {
namespace {

// All that visibility depends on.
struct Reach {
  bool is_public = true;
  std::vector<const Symbol*> namespaces;
  std::vector<std::uint16_t> numbers;  // of the ports
  friend auto operator<=>(const Reach&, const Reach&) = default;

  Reach(const Ref<const ExportSet>& exports, const std::vector<ServicePort>& ports)
      : is_public(!exports), numbers(PortList(ports).numbers) {
    if (!exports) return;
    for (const SymbolRef& ns : exports->namespaces) namespaces.push_back(ns.get());
  }
  // Whether all who see a service of that reach see one of this reach.
  bool includes(const Reach& other) const {
    const bool exports =
        is_public || (!other.is_public && std::ranges::includes(namespaces, other.namespaces));
    return exports && std::ranges::includes(numbers, other.numbers);
  }
};

// A Service that answers nothing leaves its name to nobody.
bool is_usable(const KubeService& service) {
  return service.type != ServiceType::ExternalName ||
         (!service.external_name.empty() && !IpAddress::parse(service.external_name));
}

bool has_one_service(const Sources& sources) {
  std::size_t entries = 0;
  bool has_service = false;
  for (const auto& item : sources.items) {
    switch (item->stored()->kind()) {
      case Kind::ServiceEntry:
        ++entries;
        break;
      case Kind::Service:
        has_service = has_service || !std::get<KubeService>(item->resource()).is_manifest;
        break;
      case Kind::EndpointSlice:
      case Kind::Endpoints:
        break;
      default:
        return true;
    }
  }
  return entries == 0 || (entries == 1 && !has_service);
}

}  // namespace

Deriver::PartList Deriver::parts_of(const Sources& sources) const {
  if (has_one_service(sources) || refused_claim()) return {};
  PartList result;
  std::optional<Reach> of_service;
  auto services = sources.all<KubeService>();
  std::erase_if(services, [](const auto& service) { return service.first->is_manifest; });
  if (!services.empty()) {
    const KubeService& first = *services.front().first;
    if (!is_usable(first)) return {};
    of_service.emplace(exports_of(first.export_to, Visibility::Public), merged_ports(services));
    auto& positions = result.parts.emplace_back();
    for (std::size_t i = 0; i < sources.items.size(); ++i)
      if (sources.items[i]->stored()->kind() != Kind::ServiceEntry) positions.push_back(i);
  }
  const Visibility narrowed = entry_visibility();
  // Entries of DNS_ROUND_ROBIN are apart from others: of all that a client sees, only one counts.
  std::map<std::pair<Reach, bool>, std::size_t> part_of;
  for (std::size_t i = 0; i < sources.items.size(); ++i) {
    const auto* const entry = std::get_if<ServiceEntry>(&sources.items[i]->resource());
    if (entry == nullptr) continue;
    Reach reach(exports_of(entry->export_to, narrowed), entry->ports);
    // All who see the entry see the Service in its place.
    if (of_service && of_service->includes(reach)) continue;
    const bool is_round_robin = entry->resolution == Resolution::DnsRoundRobin;
    const auto [it, is_new] =
        part_of.try_emplace({std::move(reach), is_round_robin}, result.parts.size());
    if (is_new && result.parts.size() == ServiceParts::kMaxParts) {
      part_of.erase(it);
      ++result.left_out;
      continue;
    }
    if (is_new) result.parts.emplace_back();
    result.parts[it->second].push_back(i);
  }
  return result;
}

Ref<const ServiceRecord> Deriver::merge_parts(const Sources& sources, const PartList& parts) {
  std::vector<Ref<const ServiceRecord>> records;
  for (const auto& positions : parts.parts) {
    Sources own;
    for (const std::size_t i : positions) own.items.push_back(sources.items[i]);
    Deriver deriver(ns_, host_, context_);
    deriver.record_->partial = true;
    records.push_back(deriver.derive(own));
  }
  record_ = merge_services(records, settings_.endpoint_pod_names);
  record_->partial = false;
  record_->split = true;
  details() = *record_->details;
  if (parts.left_out != 0)
    details().notes.push_back(std::to_string(parts.left_out) +
                              " entries ignored: the host has too many entries with different "
                              "exportTo or ports");
  details().parts =
      Ref<const ServiceParts>(new ServiceParts(std::move(records), settings_.endpoint_pod_names));
  keep_sources(sources);
  return finish();
}

}  // namespace meshdns::registry
