// SPDX-License-Identifier: Apache-2.0
// Hosts that a client may see in part: their objects differ in exportTo or ports.
#include <algorithm>
#include <map>
#include <utility>

#include "registry/base/counted.hpp"
#include "registry/derive/deriver.hpp"

namespace meshdns::registry {
namespace {

// The properties that visibility depends on.
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
  // Returns whether all who see a service of that reach see one of this reach.
  bool includes(const Reach& other) const {
    const bool exports =
        is_public || (!other.is_public && std::ranges::includes(namespaces, other.namespaces));
    return exports && std::ranges::includes(numbers, other.numbers);
  }
};

// Services that differ in nothing but their cluster IPs, which a record without parts keeps by
// cluster.
bool differ_in_addresses_only(const std::vector<const KubeService*>& services) {
  const KubeService& first = *services.front();
  return std::ranges::all_of(services, [&](const KubeService* service) {
    return service->type != ServiceType::ExternalName && !service->headless &&
           !service->cluster_ips.empty() && !service->meta.cluster.empty() &&
           service->ports == first.ports && service->export_to == first.export_to;
  });
}

// A Service that would leave its clients without an answer gives way to those of other clusters.
bool has_answer(const ServiceRecord& service) {
  return !service.placeholder && service.answer != AnswerKind::NoAddress &&
         service.answer != AnswerKind::NoReadyEndpoints;
}

}  // namespace

bool Deriver::has_one_service(const Sources& sources) const {
  std::size_t entries = 0;
  bool has_service = false;
  bool has_claim = false;
  for (const auto& item : sources.items) {
    if (is_gateway_claim(*item->stored())) {
      has_claim = true;
      continue;
    }
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
  return entries == 0 || (entries == 1 && !has_service && !has_claim);
}

bool Deriver::differs_by_cluster(const Sources& sources) const {
  std::vector<const KubeService*> services;
  bool has_entries = false;
  bool has_endpoints = false;
  for (const auto& item : sources.items) {
    if (is_gateway_claim(*item->stored())) continue;
    switch (item->stored()->kind()) {
      case Kind::Service:
        if (const auto& service = std::get<KubeService>(item->resource()); !service.is_manifest)
          services.push_back(&service);
        break;
      case Kind::ServiceEntry:
        has_entries = true;
        break;
      case Kind::EndpointSlice:
      case Kind::Endpoints:
        has_endpoints = true;
        break;
      default:
        return false;
    }
  }
  if (services.empty()) return false;
  // An entry may take the place of a Service that clients of other clusters do not see.
  const bool is_local_only = settings_.clusters == ClusterChoice::LocalOnly;
  if (is_local_only && has_entries &&
      std::ranges::any_of(services, [](const auto* s) { return !s->meta.cluster.empty(); }))
    return true;
  const std::string& cluster = services.front()->meta.cluster;
  if (std::ranges::all_of(services, [&](const auto* s) { return s->meta.cluster == cluster; }))
    return false;
  return has_endpoints || settings_.ignore_empty_service || !differ_in_addresses_only(services);
}

// Adds a part that unites all clusters, and one for each cluster that has a Service.
void Deriver::add_cluster_parts(const Sources& sources, PartList& result) {
  std::map<std::string_view, std::vector<std::size_t>> of_cluster;
  for (const auto& item : sources.items)
    if (const auto* service = std::get_if<KubeService>(&item->resource());
        service != nullptr && !service->is_manifest)
      of_cluster[item->stored()->cluster()];
  for (std::size_t i = 0; i < sources.items.size(); ++i) {
    const StoredResource& stored = *sources.items[i]->stored();
    if (stored.kind() == Kind::ServiceEntry) continue;
    if (const auto it = of_cluster.find(stored.cluster()); it != of_cluster.end())
      it->second.push_back(i);
  }
  for (auto& [cluster, positions] : of_cluster) {
    if (result.clusters.size() == kMaxClusters) {
      ++result.clusters_left_out;
      continue;
    }
    result.clusters.emplace_back(cluster);
    result.parts.push_back(std::move(positions));
  }
}

// The last part is for clients that see none of the others.
void Deriver::add_gateway_part(const Sources& sources, PartList& result) const {
  std::vector<std::size_t> claims;
  for (std::size_t i = 0; i < sources.items.size(); ++i)
    if (is_gateway_claim(*sources.items[i]->stored())) claims.push_back(i);
  if (!claims.empty() && result.parts.size() < ServiceParts::kMaxParts)
    result.parts.push_back(std::move(claims));
}

Deriver::PartList Deriver::parts_of(const Sources& sources) const {
  const bool by_cluster = differs_by_cluster(sources);
  if ((!by_cluster && has_one_service(sources)) || refused_claim()) return {};
  PartList result;
  std::vector<Reach> of_services;
  auto services = services_of(sources);
  std::erase_if(services, [](const auto& service) { return service.first->is_manifest; });
  if (!services.empty()) {
    const auto united = answering(services);
    const KubeService& first = *united.front().first;
    if (!is_usable(first)) return {};
    of_services.emplace_back(exports_of(first.export_to, Visibility::Public), merged_ports(united));
    auto& positions = result.parts.emplace_back();
    for (std::size_t i = 0; i < sources.items.size(); ++i)
      if (sources.items[i]->stored()->kind() != Kind::ServiceEntry) positions.push_back(i);
    if (by_cluster) {
      add_cluster_parts(sources, result);
      for (const auto& [service, stored] : services)
        of_services.emplace_back(exports_of(service->export_to, Visibility::Public),
                                 service->ports);
    }
  }
  const bool may_lack_service = by_cluster && settings_.clusters == ClusterChoice::LocalOnly;
  const Visibility narrowed = entry_visibility();
  // Entries of DNS_ROUND_ROBIN are apart from others: of all that a client sees, only one counts.
  std::map<std::pair<Reach, bool>, std::size_t> part_of;
  for (std::size_t i = 0; i < sources.items.size(); ++i) {
    const auto* const entry = std::get_if<ServiceEntry>(&sources.items[i]->resource());
    if (entry == nullptr) continue;
    Reach reach(exports_of(entry->export_to, narrowed), entry->ports);
    // All who see the entry see the Service in its place.
    if (!of_services.empty() && !may_lack_service &&
        std::ranges::all_of(of_services, [&](const Reach& r) { return r.includes(reach); }))
      continue;
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
  add_gateway_part(sources, result);
  return result;
}

Ref<const ServiceRecord> Deriver::merge_parts(const Sources& sources, const PartList& parts) {
  std::vector<Ref<const ServiceRecord>> records;
  std::vector<SymbolRef> clusters;
  for (std::size_t part = 0; part < parts.parts.size(); ++part) {
    Sources own;
    for (const std::size_t i : parts.parts[part]) own.items.push_back(sources.items[i]);
    Deriver deriver(ns_, host_, context_);
    deriver.record_->partial = true;
    Ref<const ServiceRecord> record = deriver.derive(own);
    if (part != 0 && part <= parts.clusters.size()) {
      if (settings_.clusters != ClusterChoice::LocalOnly && !has_answer(*record)) continue;
      clusters.push_back(tables_.symbols.intern(parts.clusters[part - 1]));
    }
    records.push_back(std::move(record));
  }
  if (records.size() == 1) return derive(sources);
  const Ref<const NetworkGateways>& gateways = context_.lists.gateways();
  record_ = merge_services(records, settings_.endpoint_pod_names, gateways.get());
  record_->partial = false;
  record_->split = true;
  details() = *record_->details;
  if (parts.left_out != 0)
    details().notes.push_back(counted(parts.left_out, "entry") +
                              " ignored: the host has too many entries with different "
                              "exportTo or ports");
  if (parts.clusters_left_out != 0)
    details().notes.push_back(counted(parts.clusters_left_out, "cluster") + " ignored: more than " +
                              std::to_string(kMaxClusters) +
                              " have the Service; their clients get the Services of all");
  // The Service of all clusters may be an alias; some cluster's may have endpoints all the same.
  for (std::size_t i = 1; i <= clusters.size() && !details().endpoints; ++i)
    if (records[i]->endpoints() != nullptr) details().endpoints = records[i]->details->endpoints;
  details().parts = Ref<const ServiceParts>(new ServiceParts(
      std::move(records), settings_.endpoint_pod_names, gateways, std::move(clusters)));
  keep_sources(sources);
  return finish();
}

}  // namespace meshdns::registry
