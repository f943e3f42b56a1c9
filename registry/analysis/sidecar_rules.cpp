// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "registry/analysis/rules.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::registry {
namespace {

// An egress host of a Sidecar, "NAMESPACE/NAME".
struct EgressName {
  std::string_view ns;  // "*" = any
  std::string_view host;
  bool is_any_host() const { return host == "*"; }
};

// nullopt for exclusions and "~/*", which import nothing.
std::optional<EgressName> egress_name(std::string_view text, std::string_view own) {
  const auto slash = text.find('/');
  if (text.starts_with('~') || slash == std::string_view::npos) return std::nullopt;
  const std::string_view ns = text.substr(0, slash);
  return EgressName{ns == "." ? own : ns, text.substr(slash + 1)};
}

enum class Import : std::uint8_t { Works, Hidden, Nothing };

struct Imported {
  Import import = Import::Nothing;
  bool has_port = false;                  // of those that it looks at, one has the port
  const ServiceRecord* hidden = nullptr;  // one that exportTo hides
};

bool has_port(const ServiceRecord& record, std::uint16_t port) {
  return record.ports && std::ranges::binary_search(record.ports->numbers, port);
}

Imported import_of_record(const MeshObjects& mesh, const EgressName& name, std::string_view own,
                          std::uint16_t port) {
  Imported result;
  const HostEntry* entry = mesh.find_exact(name.host);
  if (entry == nullptr) return result;
  for (const ServiceRecord* record : entry->records()) {
    if (record->placeholder || !record->ns) continue;
    if (name.ns != "*" && record->ns->text() != name.ns) continue;
    if (!MeshObjects::is_visible_in(*record, own)) {
      result.hidden = record;
      continue;
    }
    result.import = Import::Works;
    result.has_port |= has_port(*record, port);
  }
  if (result.import == Import::Nothing && result.hidden != nullptr) result.import = Import::Hidden;
  return result;
}

// "*.example.org": a host below the name, or that wildcard itself.
Imported import_of(const MeshObjects& mesh, const EgressName& name, std::string_view own,
                   std::uint16_t port) {
  const bool any_port =
      name.ns == "*" ? mesh.any_service_has_port(port) : mesh.ports_of(name.ns).contains(port);
  if (name.is_any_host()) return {Import::Works, any_port, nullptr};
  Imported result = import_of_record(mesh, name, own, port);
  if (result.import == Import::Works || !name.host.starts_with("*.")) return result;
  const NonTerminal* below = mesh.snapshot().find_non_terminal(name.host.substr(2));
  if (below == nullptr) return result;
  for (const ExportScope& scope : below->scopes)
    if (name.ns == "*" || scope.ns->text() == name.ns) return {Import::Works, any_port, nullptr};
  return result;
}

class SidecarJudge {
 public:
  SidecarJudge(const MeshObjects& mesh, Judged<Sidecar> judged, MeshFindings& out)
      : mesh_(mesh),
        judged_(judged),
        own_(judged.object.meta.ns),
        is_of_root_(own_ == mesh.settings().root_namespace),
        out_(out) {}

  void judge() {
    for (std::size_t i = 0; i < judged_.object.egress.size(); ++i) judge_listener(i);
  }

 private:
  void judge_listener(std::size_t index) {
    const EgressListener& listener = judged_.object.egress[index];
    const std::string field = list_element("spec.egress", index);
    bool imports_any = false;
    bool is_port_used = false;
    for (std::size_t i = 0; i < listener.hosts.size(); ++i) {
      const auto name = egress_name(listener.hosts[i], own_);
      // In the root namespace, "." is the client's.
      if (!name || (is_of_root_ && listener.hosts[i].starts_with("./"))) {
        is_port_used = true;
        continue;
      }
      const Imported imported =
          judge_host_of(listener.hosts[i], *name, list_element(field + ".hosts", i), listener.port);
      imports_any |= imported.import == Import::Works && mesh_.has_any_hosts() &&
                     (name->ns == "*" || mesh_.has_hosts(name->ns));
      is_port_used |= imported.has_port;
    }
    if (listener.port == 0 || listener.protocol == "HTTP_PROXY" || is_port_used || !imports_any)
      return;
    out_.add({FindingKind::PortWithoutUse, Weight::Warning, mesh_.place_of(judged_.stored),
              field + ".port",
              "none of the services that the hosts of this listener select has port " +
                  std::to_string(listener.port) +
                  ", so it imports nothing; use the port of a service"});
  }

  Imported judge_host_of(const std::string& text, const EgressName& name, std::string field,
                         std::uint16_t port) {
    if (name.ns != "*" && !judge_namespace(name, field)) return {};
    const Imported imported = import_of(mesh_, name, own_, port);
    if (imported.import == Import::Hidden) {
      out_.add({FindingKind::SidecarHostHidden, Weight::Warning, mesh_.place_of(judged_.stored),
                std::move(field),
                in_quotes(text) + " imports nothing: exportTo hides the host from namespace " +
                    std::string(own_) + "; add the namespace to exportTo, or remove the host here",
                imported.hidden->source ? std::optional(mesh_.place_of(*imported.hidden->source))
                                        : std::nullopt});
    } else if (imported.import == Import::Nothing && !is_unready_service(name)) {
      out_.add({FindingKind::SidecarHostUnknown, is_sure(name) ? Weight::Warning : Weight::Note,
                mesh_.place_of(judged_.stored), std::move(field),
                in_quotes(text) + " imports nothing: " +
                    (name.ns == "*" ? std::string("no namespace")
                                    : "namespace " + std::string(name.ns)) +
                    " has no such host; correct it, or remove it"});
    }
    return imported;
  }

  // Returns whether the namespace may exist.
  bool judge_namespace(const EgressName& name, const std::string& field) {
    const Existence existence = mesh_.namespace_existence(name.ns);
    if (existence == Existence::Exists) return true;
    const std::string ns(name.ns);
    const std::string guess = mesh_.guess_of_namespace(ns);
    out_.add({FindingKind::SidecarNamespaceUnknown,
              existence == Existence::Missing ? Weight::Warning : Weight::Note,
              mesh_.place_of(judged_.stored), field,
              (existence == Existence::Missing
                   ? "there is no namespace " + in_quotes(ns)
                   : "none of the objects that were read is in the namespace " + in_quotes(ns)) +
                  guess + "; the host imports nothing"});
    return false;
  }

  // A Service that has no address yet, or that comes from a file without one.
  bool is_unready_service(const EgressName& name) const {
    const auto service = mesh_.service_name_of(name.host);
    return service &&
           mesh_.find_service(service->ns, service->name, judged_.object.meta.cluster) != nullptr;
  }

  // Returns whether the objects that would have the host are among those that were read.
  bool is_sure(const EgressName& name) const {
    if (is_at_or_below(name.host.starts_with("*.") ? name.host.substr(2) : name.host,
                       mesh_.settings().cluster_domain))
      return name.ns == "*" ? mesh_.has(Kind::Service) : mesh_.has_real_service(name.ns);
    return name.ns == "*"
               ? mesh_.has(Kind::ServiceEntry)
               : mesh_.has(Kind::ServiceEntry, name.ns) || mesh_.has(Kind::NameTableEntry, name.ns);
  }

  const MeshObjects& mesh_;
  const Judged<Sidecar> judged_;
  const std::string_view own_;
  const bool is_of_root_;
  MeshFindings& out_;
};

}  // namespace

void judge_sidecar_hosts(const MeshObjects& mesh, Judged<Sidecar> sidecar, MeshFindings& out) {
  SidecarJudge(mesh, sidecar, out).judge();
}

void NamespaceSidecars::add(Judged<Sidecar> judged) {
  const Sidecar& sidecar = judged.object;
  // An empty selector selects all workloads, and comes before a Sidecar without one.
  if (sidecar.workload_selector) return;
  found_[{sidecar.meta.cluster, sidecar.meta.ns}].push_back({&judged.stored, sidecar.meta});
}

void NamespaceSidecars::judge(const MeshObjects& mesh, MeshFindings& out) const {
  for (const auto& [where, sidecars] : found_) {
    if (sidecars.size() < 2) continue;
    const Found& oldest = *std::ranges::min_element(
        sidecars, [](const Found& a, const Found& b) { return is_older(a.meta, b.meta); });
    for (const Found& found : sidecars) {
      if (found.stored == oldest.stored) continue;
      out.add({FindingKind::SidecarsWithoutSelector, Weight::Warning, mesh.place_of(*found.stored),
               "spec.workloadSelector",
               "has no effect: another Sidecar of the namespace has no selector, either, and comes "
               "first by age and name; merge them, or give one a selector",
               mesh.place_of(*oldest.stored)});
    }
  }
}

}  // namespace meshdns::registry
