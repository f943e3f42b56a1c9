// SPDX-License-Identifier: Apache-2.0
#include "registry/analysis/analysis.hpp"

#include <algorithm>
#include <cassert>
#include <tuple>

#include "registry/analysis/rules.hpp"

namespace meshdns::registry {
namespace {

struct KindRow {
  FindingKind kind;
  std::string_view id;
  std::string_view title;
};

constexpr std::array<KindRow, kFindingKinds> kKindRows = {{
    {FindingKind::AddressesWithoutAnswer, "addresses-without-answer",
     "The addresses of an entry are prefixes, which DNS cannot answer."},
    {FindingKind::AliasInACircle, "alias-in-a-circle", "Aliases lead to each other."},
    {FindingKind::AliasToHiddenHost, "alias-to-hidden-host",
     "An alias leads to a host that exportTo hides from its namespace."},
    {FindingKind::AliasToNowhere, "alias-to-nowhere",
     "An alias or endpoint names a Service that does not exist."},
    {FindingKind::AliasWithoutPorts, "alias-without-ports",
     "A VirtualService routes to an alias without ports."},
    {FindingKind::DynamicDnsWithoutVip, "dynamic-dns-without-vip",
     "An entry with resolution DYNAMIC_DNS has no virtual address."},
    {FindingKind::ExportToUnknownNamespace, "export-to-unknown-namespace",
     "exportTo names a namespace that does not exist."},
    {FindingKind::HeadlessWithoutPorts, "headless-without-ports",
     "A headless Service has no ports."},
    {FindingKind::HiddenFromOwnNamespace, "hidden-from-own-namespace",
     "An object is not visible in its own namespace."},
    {FindingKind::HostBitsSet, "host-bits-set", "A prefix has bits behind its length."},
    {FindingKind::HostClaimedTwice, "host-claimed-twice", "Two namespaces claim one host."},
    {FindingKind::MixedExportTo, "mixed-export-to",
     "Entries of one host in one namespace have different exportTo."},
    {FindingKind::NearFailingName, "near-failing-name",
     "A name that fails often is one letter from a host."},
    {FindingKind::NetworkWithoutGateway, "network-without-gateway",
     "A network with endpoints has no gateway."},
    {FindingKind::PortWithoutUse, "port-without-use", "A port applies to no service."},
    {FindingKind::RouteToHiddenHost, "route-to-hidden-host",
     "A VirtualService routes to a host that exportTo hides."},
    {FindingKind::RouteToUnknownHost, "route-to-unknown-host",
     "A VirtualService routes to a host that no service has."},
    {FindingKind::SelectorOfExternalEntry, "selector-of-external-entry",
     "An entry selects workloads of the mesh and counts as outside of it."},
    {FindingKind::SelectorSelectsNobody, "selector-selects-nobody",
     "A selector selects no workload."},
    {FindingKind::ServiceNameSquatted, "service-name-squatted",
     "A ServiceEntry claims a name of another namespace's Service."},
    {FindingKind::SidecarHostHidden, "sidecar-host-hidden",
     "A Sidecar imports a host that exportTo hides from it."},
    {FindingKind::SidecarHostUnknown, "sidecar-host-unknown",
     "A Sidecar imports a host that does not exist."},
    {FindingKind::SidecarNamespaceUnknown, "sidecar-namespace-unknown",
     "A Sidecar imports hosts of a namespace that does not exist."},
    {FindingKind::SidecarsWithoutSelector, "sidecars-without-selector",
     "Two Sidecars of a namespace have no selector."},
    {FindingKind::SingleLabelHost, "single-label-host",
     "A host of one label is the short name of a Service, too."},
    {FindingKind::StaticWithoutEndpoints, "static-without-endpoints",
     "An entry with resolution STATIC has no endpoints."},
    {FindingKind::SubjectAltNamesMismatch, "subject-alt-names-mismatch",
     "No subjectAltName of an entry matches its hosts or endpoints."},
    {FindingKind::TcpPortOfTwoHosts, "tcp-port-of-two-hosts",
     "Two hosts without addresses have one TCP port."},
    {FindingKind::TooMuchWork, "too-much-work",
     "Queries for a host may need more work than one query may cause."},
    {FindingKind::VipOfTwoHosts, "vip-of-two-hosts", "Two hosts have one virtual address."},
}};

constexpr auto kAllKinds = [] {
  std::array<FindingKind, kFindingKinds> kinds{};
  for (std::size_t i = 0; i < kinds.size(); ++i) kinds[i] = kKindRows[i].kind;
  return kinds;
}();

const KindRow& row_of(FindingKind kind) {
  const KindRow& row = kKindRows.at(static_cast<std::size_t>(kind));
  assert(row.kind == kind);
  return row;
}

std::string with_line(const ObjectPlace& place) {
  return place.line == 0 ? place.path : place.path + ":" + std::to_string(place.line);
}

// Objects and hosts between two questions whether the analysis is interrupted.
constexpr std::size_t kStepsPerQuestion = 256;

class Run {
 public:
  Run(const Snapshot& snapshot, std::span<const std::string> denied,
      const std::function<bool()>& is_interrupted)
      : snapshot_(snapshot),
        is_interrupted_(is_interrupted),
        mesh_(snapshot),
        denied_(mesh_, denied) {}

  AnalysisReport report() {
    snapshot_.resources.for_each([&](const StoredResource& stored) {
      if (goes_on()) judge_object(stored);
    });
    snapshot_.resources.for_each([&](const StoredResource& stored) {
      if (goes_on()) judge_workload(stored);
    });
    const auto judge = [&](const HostEntry& host) {
      if (!goes_on()) return;
      judge_host(mesh_, host, findings_);
      denied_.judge(mesh_, host, findings_);
      networks_.add(mesh_, host);
    };
    snapshot_.hosts.for_each(judge);
    snapshot_.wildcards.for_each(judge);
    if (goes_on()) {
      selectors_.judge(mesh_, findings_);
      sidecars_.judge(mesh_, findings_);
      addresses_.judge(mesh_, findings_);
      tcp_ports_.judge(mesh_, findings_);
      networks_.judge(mesh_, findings_);
      if (!single_labels_.empty()) single_labels_.judge(mesh_, findings_);
    }
    auto& list = findings_.list();
    const auto order = [](const MeshFinding& f) {
      return std::tie(f.place, f.kind, f.field, f.message);
    };
    std::ranges::sort(
        list, [&](const MeshFinding& a, const MeshFinding& b) { return order(a) < order(b); });
    return {std::move(list), findings_.counts()};
  }

 private:
  bool goes_on() {
    if (!is_over_ && ++steps_ % kStepsPerQuestion == 0) is_over_ = is_interrupted_();
    return !is_over_;
  }

  void judge_object(const StoredResource& stored) {
    const Kind kind = stored.kind();
    if (kind != Kind::ServiceEntry && kind != Kind::Service && kind != Kind::Sidecar &&
        kind != Kind::VirtualService)
      return;
    const Resource resource = stored.decode();
    if (const auto* entry = std::get_if<ServiceEntry>(&resource)) judge({stored, *entry});
    if (const auto* service = std::get_if<KubeService>(&resource)) judge({stored, *service});
    if (const auto* sidecar = std::get_if<Sidecar>(&resource)) judge({stored, *sidecar});
    if (const auto* service = std::get_if<VirtualService>(&resource)) judge({stored, *service});
  }

  void judge(Judged<ServiceEntry> entry) {
    judge_entry(mesh_, entry, findings_);
    judge_exports(mesh_, entry.stored, entry.object.export_to, "spec.exportTo", findings_);
    judge_endpoint_names(mesh_, entry, findings_);
    judge_short_names(mesh_, entry, findings_);
    addresses_.add(entry);
    tcp_ports_.add(mesh_, entry);
    single_labels_.add(entry);
    selectors_.add(entry);
  }

  void judge(Judged<KubeService> service) {
    judge_alias(mesh_, service, findings_);
    judge_headless(mesh_, service, findings_);
    judge_exports(mesh_, service.stored, service.object.export_to,
                  "annotation networking.istio.io/exportTo", findings_);
    addresses_.add(service);
    networks_.add(service);
  }

  void judge(Judged<Sidecar> sidecar) {
    judge_sidecar_hosts(mesh_, sidecar, findings_);
    sidecars_.add(sidecar);
    selectors_.add(sidecar);
  }

  void judge(Judged<VirtualService> service) {
    judge_routes(mesh_, service, findings_);
    judge_export_names(mesh_, service.stored, service.object.export_to, "spec.exportTo", findings_);
  }

  void judge_workload(const StoredResource& stored) {
    const Kind kind = stored.kind();
    if (kind != Kind::WorkloadEntry && kind != Kind::Pod) return;
    if (!selectors_.is_asked(stored.ns())) return;
    selectors_.add_workload(mesh_, stored, stored.decode(), findings_);
  }

  const Snapshot& snapshot_;
  const std::function<bool()>& is_interrupted_;
  const MeshObjects mesh_;
  const DeniedNames denied_;
  MeshFindings findings_;
  NamespaceSidecars sidecars_;
  AddressBook addresses_;
  TcpPorts tcp_ports_;
  NetworkEndpoints networks_;
  SingleLabelHosts single_labels_;
  Selectors selectors_;
  std::size_t steps_ = 0;
  bool is_over_ = false;
};

}  // namespace

std::string_view id_of(FindingKind kind) { return row_of(kind).id; }
std::string_view title_of(FindingKind kind) { return row_of(kind).title; }
std::span<const FindingKind> finding_kinds() { return kAllKinds; }

std::string ObjectPlace::to_string() const {
  std::string text = kind + " " + object;
  if (!path.empty()) text += " (" + with_line(*this) + ")";
  return text;
}

std::string MeshFinding::to_string() const {
  std::string out;
  if (!place.path.empty()) out += with_line(place) + ": ";
  out += std::string(registry::to_string(weight)) + ": " + place.kind + " " + place.object + ": ";
  if (!field.empty()) out += field + ": ";
  out += message;
  if (other) out += "; see " + other->to_string();
  return out + " [" + std::string(id_of(kind)) + "]";
}

AnalysisReport analyse(const Snapshot& snapshot, std::span<const std::string> denied,
                       const std::function<bool()>& is_interrupted) {
  return Run(snapshot, denied, is_interrupted).report();
}

}  // namespace meshdns::registry
