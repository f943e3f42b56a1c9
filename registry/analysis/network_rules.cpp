// SPDX-License-Identifier: Apache-2.0

#include "registry/analysis/rules.hpp"
#include "registry/model/labels.hpp"

namespace meshdns::registry {

void NetworkEndpoints::add(const MeshObjects& mesh, const HostEntry& host) {
  if (mesh.settings().networks != NetworkChoice::Gateways) return;
  for (const ServiceRecord* record : host.records()) {
    const EndpointList* const endpoints = record->endpoints();
    if (endpoints == nullptr || record->answer != AnswerKind::Endpoints) continue;
    const auto note = [&](const Symbol* network) {
      if (network == nullptr) return;
      const auto [it, is_new] = found_.try_emplace(network, Found{host.host(), record->source});
      if (!is_new && host.host() < it->second.host) it->second = {host.host(), record->source};
    };
    if (endpoints->index.is_made())
      for (const EndpointIndex::Kind& kind : endpoints->index.kinds()) note(kind.network);
    else
      for (const EndpointEntry& entry : endpoints->entries)
        if (entry.ready) note(entry.network.get());
  }
}

void NetworkEndpoints::add(Judged<KubeService> service) {
  const std::string_view network = network_label(service.object.meta.labels);
  if (!network.empty() && service.object.external_addresses.empty())
    without_address_.try_emplace(std::string(network), &service.stored);
}

void NetworkEndpoints::judge(const MeshObjects& mesh, MeshFindings& out) const {
  const NetworkGateways* const gateways = mesh.snapshot().gateways.get();
  if (gateways == nullptr) return;
  for (const auto& [network, found] : found_) {
    if (!gateways->to(network, nullptr).empty()) continue;
    const std::string name(network->text());
    std::string effect = "clients of other networks get no address of ";
    effect.append(found.host).append(" and other names with endpoints there");
    if (const auto service = without_address_.find(name); service != without_address_.end())
      out.add({FindingKind::NetworkWithoutGateway, Weight::Warning, mesh.place_of(*service->second),
               "metadata.labels",
               std::string("it is the gateway of network ")
                   .append(name)
                   .append(" and has no external IP address: ")
                   .append(effect)
                   .append("; give it one, or name one in meshNetworks")});
    else
      out.add(
          {FindingKind::NetworkWithoutGateway,
           Weight::Note,
           mesh.place_of(*found.source),
           {},
           std::string("network ")
               .append(name)
               .append(" of its endpoints has no gateway: ")
               .append(effect)
               .append("; label the Service of the gateway topology.istio.io/network, or name it "
                       "in meshNetworks")});
  }
}

}  // namespace meshdns::registry
