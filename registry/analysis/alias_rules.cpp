// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "registry/analysis/rules.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::registry {
namespace {

// Longer chains of aliases are not answered as a whole, either.
constexpr std::size_t kMaxLinks = 16;

// The source of the service that answers for the name, and the name that it leads to.
struct Link {
  const StoredResource* stored = nullptr;
  std::string next;  // empty: the end of the chain
};

Link link_of(const MeshObjects& mesh, const std::string& name) {
  const HostEntry* host = mesh.find_host(name);
  if (host == nullptr) return {};
  for (const ServiceRecord* record : host->records()) {
    if (record->placeholder) continue;
    Link link{record->source.get(), std::string(record->alias())};
    if (link.next.empty() && record->resolved_names().size() == 1)
      link.next = record->resolved_names().front();
    // An entry that resolves its own host asks the upstream servers.
    if (link.next == name) link.next.clear();
    return link;
  }
  return {};
}

// The object of the last link before the chain comes back to a name; null: it has an end.
const StoredResource* circle_from(const MeshObjects& mesh, const std::string& first,
                                  std::string next) {
  std::vector<std::string> passed{first};
  const StoredResource* last = nullptr;
  while (passed.size() <= kMaxLinks) {
    if (std::ranges::find(passed, next) != passed.end()) return last;
    const Link link = link_of(mesh, next);
    if (link.stored == nullptr || link.next.empty()) return nullptr;
    last = link.stored;
    passed.push_back(std::exchange(next, link.next));
  }
  return nullptr;
}

// Names outside of the cluster domain are the upstream servers' to know.
void judge_target(const MeshObjects& mesh, const StoredResource& stored, std::string_view cluster,
                  const std::string& target, std::string field, MeshFindings& out) {
  const auto service = mesh.service_name_of(target);
  if (!service || mesh.find_host(target) != nullptr) return;
  if (mesh.find_service(service->ns, service->name, cluster) != nullptr) return;
  const Existence existence = mesh.namespace_existence(service->ns);
  const std::string ns(service->ns);
  std::string message = in_quotes(target) + " does not exist: ";
  bool is_certain = true;
  if (existence == Existence::Missing) {
    message += "there is no namespace " + in_quotes(ns) + mesh.guess_of_namespace(ns);
  } else if (mesh.has_real_service(ns) || mesh.has(Kind::EndpointSlice, ns)) {
    message += "the namespace " + ns + " has no Service " + in_quotes(std::string(service->name));
  } else {
    // Services are often no part of the files that have the aliases.
    is_certain = false;
    message = "none of the objects that were read is the Service " + in_quotes(target);
    if (existence == Existence::Unseen) message += mesh.guess_of_namespace(ns);
  }
  out.add({FindingKind::AliasToNowhere, is_certain ? Weight::Warning : Weight::Note,
           mesh.place_of(stored), std::move(field),
           message + "; correct the name, or create the Service"});
}

// The alias is for clients of its own namespace.  Names outside of the cluster domain that are
// hidden are the upstream servers' to know.
void judge_visibility(const MeshObjects& mesh, Judged<KubeService> alias, MeshFindings& out) {
  const std::string& target = alias.object.external_name;
  const std::string& own = alias.object.meta.ns;
  if (!is_below(target, mesh.settings().cluster_domain)) return;
  const HostEntry* const host = mesh.find_exact(target);
  if (host == nullptr) return;
  const ServiceRecord* hidden = nullptr;
  for (const ServiceRecord* record : host->records()) {
    if (record->placeholder) continue;
    if (MeshObjects::is_visible_in(*record, own)) return;
    if (hidden == nullptr) hidden = record;
  }
  if (!hidden->source) return;
  out.add({FindingKind::AliasToHiddenHost, mesh.has_clients(own) ? Weight::Warning : Weight::Note,
           mesh.place_of(alias.stored), "spec.externalName",
           "exportTo hides " + in_quotes(target) + " from clients of namespace " + own +
               ", to whom the alias leads nowhere; add " + in_quotes(own) + " to it",
           mesh.place_of(*hidden->source)});
}

}  // namespace

void judge_headless(const MeshObjects& mesh, Judged<KubeService> judged, MeshFindings& out) {
  const KubeService& service = judged.object;
  if (!service.headless || service.type == ServiceType::ExternalName || !service.ports.empty() ||
      !mesh.has_proxies())
    return;
  out.add({FindingKind::HeadlessWithoutPorts, Weight::Note, mesh.place_of(judged.stored),
           "spec.ports",
           "a headless Service without ports has answers here, but proxies of the mesh do not know "
           "it: its connections pass by their rules; specify its ports"});
}

void judge_alias(const MeshObjects& mesh, Judged<KubeService> judged, MeshFindings& out) {
  const KubeService& service = judged.object;
  if (service.type != ServiceType::ExternalName || service.external_name.empty()) return;
  const std::string host = to_lower(service.meta.name) + "." + service.meta.ns + ".svc." +
                           mesh.settings().cluster_domain;
  const std::string& target = service.external_name;
  judge_target(mesh, judged.stored, service.meta.cluster, target, "spec.externalName", out);
  judge_visibility(mesh, judged, out);
  if (target == host) {
    out.add({FindingKind::AliasInACircle, Weight::Error, mesh.place_of(judged.stored),
             "spec.externalName",
             in_quotes(target) + " is the Service itself, which therefore has no address; name the "
                                 "real target"});
    return;
  }
  const StoredResource* last = circle_from(mesh, host, target);
  if (last == nullptr) return;
  out.add({FindingKind::AliasInACircle, Weight::Error, mesh.place_of(judged.stored),
           "spec.externalName",
           in_quotes(target) +
               " leads in a circle, so the name has no address; let one of the aliases "
               "name the real target",
           mesh.place_of(*last)});
}

void judge_endpoint_names(const MeshObjects& mesh, Judged<ServiceEntry> judged, MeshFindings& out) {
  const ServiceEntry& entry = judged.object;
  if (entry.resolution != Resolution::Dns && entry.resolution != Resolution::DnsRoundRobin) return;
  for (std::size_t i = 0; i < entry.endpoints.size(); ++i) {
    const std::string& name = entry.endpoints[i].address;
    if (name.empty() || IpAddress::parse(name)) continue;
    const std::string field = list_element("spec.endpoints", i) + ".address";
    judge_target(mesh, judged.stored, entry.meta.cluster, name, field, out);
    if (entry.endpoints.size() != 1) continue;
    for (const auto& host : entry.hosts) {
      if (host == name) continue;
      const StoredResource* last = circle_from(mesh, host, name);
      if (last == nullptr) continue;
      out.add({FindingKind::AliasInACircle, Weight::Error, mesh.place_of(judged.stored), field,
               in_quotes(name) + " leads back to " + in_quotes(host) +
                   ", so the host has no address; name the real endpoint",
               mesh.place_of(*last)});
      break;
    }
  }
}

}  // namespace meshdns::registry
