// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>

#include "registry/analysis/rules.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::registry {
namespace {

// exportTo of a VirtualService as it works; Istio does not apply the default for services to it.
ExportTo clients_of(const ExportTo& declared, std::string_view ns, const MeshSettings& settings) {
  return declared.empty() ? ExportTo{"*"} : effective_exports(declared, ns, settings);
}

// The service that clients of some namespaces see under a host.
struct NamedService {
  enum class State : std::uint8_t { Unknown, Hidden, Seen };
  State state = State::Unknown;
  const ServiceRecord* record = nullptr;  // of one that is hidden, or an alias for all who see it
};

bool is_seen_by(const ServiceRecord& record, const ExportTo& clients) {
  if (record.is_public()) return true;
  if (exports_include(clients, "*")) return !record.exports->namespaces.empty();
  return std::ranges::any_of(
      clients, [&](const std::string& ns) { return MeshObjects::is_visible_in(record, ns); });
}

// Some client may get a part of the service that is no alias.
bool is_alias(const ServiceRecord& record) {
  if (record.parts() == nullptr) return !record.alias().empty();
  return std::ranges::none_of(record.parts()->all(),
                              [](const auto& part) { return part->alias().empty(); });
}

// A service has the host itself, not as a wildcard over it or as a short name: the clusters of
// proxies have the names of the services' hosts.
NamedService find_service_of(const MeshObjects& mesh, std::string_view host,
                             const ExportTo& clients) {
  using State = NamedService::State;
  const HostEntry* const entry = host.starts_with("*.")
                                     ? mesh.snapshot().find_wildcard(host.substr(2))
                                     : mesh.snapshot().find_host(host);
  NamedService found;
  if (entry == nullptr) return found;
  for (const ServiceRecord* record : entry->records()) {
    if (record->refused) return {State::Seen, nullptr};  // the mesh does not refuse the claim
    if (record->placeholder) continue;
    if (is_seen_by(*record, clients)) {
      if (!is_alias(*record)) return {State::Seen, nullptr};
      found = {State::Seen, record};
    } else if (found.record == nullptr) {
      found = {State::Hidden, record};
    }
  }
  return found;
}

// The reason why a host is no service's.
struct Absence {
  Weight weight = Weight::Warning;
  std::string why;
};

bool is_known_service(const MeshObjects& mesh, const std::string& host, std::string_view cluster) {
  const auto service = mesh.service_name_of(host);
  return mesh.find_exact(host) != nullptr ||
         (service && mesh.find_service(service->ns, service->name, cluster) != nullptr);
}

// nullopt: objects that were not read may have the Service, or it has no address yet.
std::optional<Absence> absence_of_service(const MeshObjects& mesh, const std::string& host,
                                          MeshObjects::ServiceName service,
                                          std::string_view cluster) {
  const std::string ns(service.ns);
  const std::string full = service_host(service.name, ns, mesh.settings().cluster_domain);
  if (is_known_service(mesh, full, cluster)) {
    if (host == full) return std::nullopt;
    return Absence{Weight::Warning, "it is below the Service " + full + ", and no host"};
  }
  const std::string guess = mesh.guess_of_namespace(ns);
  if (mesh.namespace_existence(ns) == Existence::Missing)
    return Absence{Weight::Warning, "there is no namespace " + in_quotes(ns) + guess};
  if (mesh.has_real_service(ns))
    return Absence{Weight::Warning, "the namespace " + ns + " has no Service " +
                                        in_quotes(std::string(service.name))};
  // The files of routes often have no Services.
  if (mesh.namespace_existence(ns) == Existence::Exists || guess.empty()) return std::nullopt;
  return Absence{Weight::Note,
                 "none of the objects that were read is in the namespace " + in_quotes(ns) + guess};
}

// nullopt: there may be such a service.  REQUIRES: none that is known has the host.
std::optional<Absence> absence_of(const MeshObjects& mesh, const std::string& host,
                                  std::string_view cluster) {
  const std::string& domain = mesh.settings().cluster_domain;
  if (const auto service = mesh.service_name_of(host))
    return absence_of_service(mesh, host, *service, cluster);
  if (!mesh.settings().namespaces.empty()) return std::nullopt;  // others may have it
  if (count_labels(host) == 2 || (count_labels(host) == 3 && host.ends_with(".svc"))) {
    const std::string full = host + (host.ends_with(".svc") ? "." : ".svc.") + domain;
    if (is_known_service(mesh, full, cluster))
      return Absence{Weight::Warning,
                     "only a name without a dot is short for a Service; write " + in_quotes(full)};
  }
  if (const HostEntry* const wildcard = mesh.find_host(host); wildcard != nullptr)
    return Absence{Weight::Warning, "only the wildcard " + std::string(wildcard->host()) +
                                        " covers it, and proxies route to hosts that a service "
                                        "has as they are"};
  if (is_at_or_below(host, domain) || !mesh.has(Kind::ServiceEntry)) return std::nullopt;
  return Absence{Weight::Note, "none of the objects that were read has this host"};
}

std::string_view list_of(RouteLayer layer) {
  return layer == RouteLayer::Http  ? "spec.http"
         : layer == RouteLayer::Tls ? "spec.tls"
                                    : "spec.tcp";
}

class RouteJudge {
 public:
  RouteJudge(const MeshObjects& mesh, Judged<VirtualService> judged, MeshFindings& out)
      : mesh_(mesh),
        judged_(judged),
        clients_(clients_of(judged.object.export_to, judged.object.meta.ns, mesh.settings())),
        out_(out) {
    // Clients of a gateway, and of the VirtualServices that delegate to this one, may be any.
    if (judged.object.hosts.empty()) clients_ = {"*"};
  }

  void judge() {
    if (exports_include(clients_, "~") && !exports_include(clients_, "*")) return;
    for (const TrafficRoute& route : judged_.object.routes) {
      if (!route.action.empty()) continue;
      for (std::size_t i = 0; i < route.targets.size(); ++i) {
        field_ = list_element(list_element(list_of(route.layer), route.position) + ".route", i) +
                 ".destination.host";
        judge_host(route.targets[i].host);
      }
    }
  }

 private:
  using State = NamedService::State;

  void judge_host(const std::string& declared) {
    if (declared.empty() || !judged_hosts_.insert(declared).second) return;
    const bool is_short = declared.find('.') == std::string::npos;
    const std::string host =
        is_short ? service_host(declared, judged_.object.meta.ns, mesh_.settings().cluster_domain)
                 : declared;
    const NamedService service = find_service_of(mesh_, host, clients_);
    if (service.state != State::Seen) return add_missing(service, host, {});
    if (service.record == nullptr) return;
    const std::string target(service.record->alias());
    const std::string alias = in_quotes(host) + " is an alias of " + in_quotes(target);
    judge_ports_of(host, *service.record);
    const NamedService next = find_service_of(mesh_, target, clients_);
    if (next.state != State::Seen) return add_missing(next, target, alias + ": ");
    if (next.record != nullptr)
      add(FindingKind::RouteToUnknownHost, Weight::Warning,
          alias +
              ", an alias, too, so the route fails: proxies follow one alone; name the real "
              "target",
          next.record);
  }

  // The ports of an alias count only where it is a service of its own.
  void judge_ports_of(const std::string& host, const ServiceRecord& alias) {
    if (!alias.source || alias.source->kind() != Kind::Service ||
        (alias.ports && !alias.ports->ports.empty()))
      return;
    out_.add({FindingKind::AliasWithoutPorts, Weight::Note, mesh_.place_of(*alias.source),
              "spec.ports",
              "a VirtualService routes to " + in_quotes(host) +
                  ", which has no ports: that fails before Istio 1.21, and with "
                  "ENABLE_EXTERNAL_NAME_ALIAS=false; specify the ports, or route to the target",
              mesh_.place_of(judged_.stored)});
  }

  void add_missing(const NamedService& service, const std::string& host, const std::string& link) {
    if (service.state == State::Hidden)
      return add(FindingKind::RouteToHiddenHost, Weight::Warning,
                 link + "exportTo hides the host " + in_quotes(host) +
                     " from all clients of the VirtualService, so the route fails; add their "
                     "namespaces to it",
                 service.record);
    if (const auto absence = absence_of(mesh_, host, judged_.object.meta.cluster))
      add(FindingKind::RouteToUnknownHost, absence->weight,
          link + "no service has the host " + in_quotes(host) +
              ", so the route fails: " + absence->why + "; correct the name, or create the service",
          nullptr);
  }

  void add(FindingKind kind, Weight weight, std::string message, const ServiceRecord* record) {
    out_.add({kind, weight, mesh_.place_of(judged_.stored), field_, std::move(message),
              record != nullptr && record->source ? std::optional(mesh_.place_of(*record->source))
                                                  : std::nullopt});
  }

  const MeshObjects& mesh_;
  const Judged<VirtualService> judged_;
  ExportTo clients_;
  MeshFindings& out_;
  std::set<std::string> judged_hosts_;
  std::string field_;  // of the destination that is judged
};

}  // namespace

void judge_routes(const MeshObjects& mesh, Judged<VirtualService> service, MeshFindings& out) {
  RouteJudge(mesh, service, out).judge();
}

}  // namespace meshdns::registry
