// SPDX-License-Identifier: Apache-2.0
// Looks for mistakes that show only when several objects of the mesh are compared, or when an
// object is compared with the answers that it leads to.  Each kind has a stable id, and a section
// with its remedy in docs/reference/findings.md.  The rules use the same snapshot as the answers
// do, so that both agree on who sees what.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/finding.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {

enum class FindingKind : std::uint8_t {
  AddressesWithoutAnswer,
  AliasInACircle,
  AliasToHiddenHost,
  AliasToNowhere,
  AliasWithoutPorts,
  DynamicDnsWithoutVip,
  ExportToUnknownNamespace,
  HeadlessWithoutPorts,
  HiddenFromOwnNamespace,
  HostBitsSet,
  HostClaimedTwice,
  MixedExportTo,
  NearFailingName,
  NetworkWithoutGateway,
  PortWithoutUse,
  RouteToHiddenHost,
  RouteToUnknownHost,
  SelectorOfExternalEntry,
  SelectorSelectsNobody,
  ServiceNameSquatted,
  SidecarHostHidden,
  SidecarHostUnknown,
  SidecarNamespaceUnknown,
  SidecarsWithoutSelector,
  SingleLabelHost,
  StaticWithoutEndpoints,
  SubjectAltNamesMismatch,
  TcpPortOfTwoHosts,
  TooMuchWork,
  VipOfTwoHosts,
};
inline constexpr std::size_t kFindingKinds = 30;

// Never changes for a kind: "host-claimed-twice".
std::string_view id_of(FindingKind kind);
// One sentence: "Two namespaces claim one host."
std::string_view title_of(FindingKind kind);
// In the order of their ids.
std::span<const FindingKind> finding_kinds();

// Note: it may be intended, or an object that was not read explains it.  Warning: some answer is
// not the one that the author expects.  Error: a name is never answered.
using Weight = Severity;

struct ObjectPlace {
  std::string path;               // file, or the name of a source's collection
  std::uint32_t line = 0;         // 1-based; 0 = unknown
  std::string kind;               // "ServiceEntry"
  std::string object;             // "namespace/name"
  std::string to_string() const;  // "ServiceEntry shop/api (shop.yaml:14)"
  friend auto operator<=>(const ObjectPlace&, const ObjectPlace&) = default;
};

struct MeshFinding {
  FindingKind kind = FindingKind::HostClaimedTwice;
  Weight weight = Weight::Warning;
  ObjectPlace place;
  std::string field;                      // "spec.hosts[1]"
  std::string message;                    // with the remedy
  std::optional<ObjectPlace> other = {};  // the object that it is compared with

  // `PATH:LINE: warning: KIND NAMESPACE/NAME: FIELD: message; see KIND NAMESPACE/NAME (PATH:LINE)
  // [id]`; parts that are empty are left out.
  std::string to_string() const;
};

using FindingCounts = std::array<std::size_t, kFindingKinds>;

struct AnalysisReport {
  // By place; at most MeshFindings::kMaxOfKind of each kind.
  std::vector<MeshFinding> findings;
  FindingCounts counts{};  // all that there are, by kind
};

// Any thread.  `denied`: names that are asked often and do not exist, lower case, no final dot.
// `is_interrupted` is asked now and then; once it returns true, the analysis ends soon with what it
// has.  Decodes each object at most twice and keeps few of them: 100,000 ServiceEntries take some
// megabytes for the time of the call.
AnalysisReport analyse(
    const Snapshot& snapshot, std::span<const std::string> denied = {},
    const std::function<bool()>& is_interrupted = [] { return false; });

}  // namespace meshdns::registry
