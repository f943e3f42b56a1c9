// SPDX-License-Identifier: Apache-2.0
#include "registry/analysis/mesh_finding.hpp"

#include <cassert>

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
    {FindingKind::AliasToNowhere, "alias-to-nowhere",
     "An alias or endpoint names a Service that does not exist."},
    {FindingKind::DynamicDnsWithoutVip, "dynamic-dns-without-vip",
     "An entry with resolution DYNAMIC_DNS has no virtual address."},
    {FindingKind::ExportToUnknownNamespace, "export-to-unknown-namespace",
     "exportTo names a namespace that does not exist."},
    {FindingKind::HiddenFromOwnNamespace, "hidden-from-own-namespace",
     "An object is not visible in its own namespace."},
    {FindingKind::HostBitsSet, "host-bits-set", "A prefix has bits behind its length."},
    {FindingKind::HostClaimedTwice, "host-claimed-twice", "Two namespaces claim one host."},
    {FindingKind::MixedExportTo, "mixed-export-to",
     "Entries of one host in one namespace have different exportTo."},
    {FindingKind::NetworkWithoutGateway, "network-without-gateway",
     "A network with endpoints has no gateway."},
    {FindingKind::PortWithoutUse, "port-without-use", "A port applies to no service."},
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

}  // namespace

std::string_view id_of(FindingKind kind) { return row_of(kind).id; }
std::string_view title_of(FindingKind kind) { return row_of(kind).title; }
std::span<const FindingKind> finding_kinds() { return kAllKinds; }

std::string_view to_string(Weight weight) {
  switch (weight) {
    case Weight::Note:
      return "note";
    case Weight::Warning:
      return "warning";
    case Weight::Error:
      return "error";
  }
  return "";
}

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

}  // namespace meshdns::registry
