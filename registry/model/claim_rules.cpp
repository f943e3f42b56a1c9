// SPDX-License-Identifier: Apache-2.0
#include "registry/model/claim_rules.hpp"

#include <array>
#include <cassert>

#include "registry/base/enum_text.hpp"

namespace meshdns::registry {
namespace {

constexpr Ruling kAllowed = Ruling::Allowed;
constexpr Ruling kYields = Ruling::Yields;
constexpr Ruling kRefused = Ruling::Refused;

constexpr std::string_view kNamesGateway = "Gateway, route, Ingress, annotated Service";

constexpr std::array kRules = {
    ClaimRule{Claim::OutsideName, "ServiceEntry", "a name outside the cluster", kAllowed, kAllowed,
              true, ""},
    ClaimRule{Claim::TopLevelName, "ServiceEntry",
              "a name of one label, or a wildcard over one (`*.com`)", kAllowed, kRefused, true,
              "a name of one label, or a wildcard over one, belongs to everyone"},
    ClaimRule{Claim::ClusterName, "ServiceEntry",
              "a name in the cluster domain, in `clusterset.local` or in the domain of another "
              "cluster, or a wildcard over one of them",
              kAllowed, kRefused, true, "the name belongs to the cluster"},
    ClaimRule{Claim::ReservedName, "ServiceEntry",
              "`localhost`, `in-addr.arpa`, `ip6.arpa` and names below", kAllowed, kRefused, true,
              "the name is reserved"},
    ClaimRule{Claim::OthersShortName, "ServiceEntry",
              "the short name of another namespace's Service (`db.bank`, `db.bank.svc`), and names "
              "below",
              kYields, kRefused, true, "the name is a short name of another namespace's Services"},
    ClaimRule{Claim::ServiceAddress, "ServiceEntry",
              "traffic to an address of a Service or Pod (`explain --connect`)", kYields, kRefused,
              false, "the address belongs to a Service or Pod"},
    ClaimRule{Claim::VipRange, "ServiceEntry",
              "an address of the range of persistent VIPs in `spec.addresses`", kAllowed, kRefused,
              true, "the address belongs to the range of persistent VIPs"},
    ClaimRule{Claim::ReverseOfClusterAddress, "ServiceEntry",
              "the reverse name of an address of a Service or Pod", kAllowed, kRefused, false, ""},
    ClaimRule{Claim::ReverseForOthers, "ServiceEntry",
              "the reverse name of another address, for clients of other namespaces", kAllowed,
              kRefused, true, ""},
    ClaimRule{Claim::OthersWorkload, "ServiceEntry",
              "WorkloadEntries and Pods of other namespaces as its endpoints", kRefused, kRefused,
              false, ""},
    ClaimRule{Claim::OwnService, "Service, EndpointSlice, ServiceImport",
              "the names of the Service of that name in its own namespace", kAllowed, kAllowed,
              false, ""},
    ClaimRule{Claim::ReverseOfOthersAddress, "Service, EndpointSlice, ServiceImport",
              "the reverse name of a Pod's or Service's address of another namespace", kAllowed,
              kRefused, false, ""},
    ClaimRule{Claim::ReverseOfOutsideAddress, "Service, EndpointSlice",
              "the reverse name of an address that no known Pod has, by an endpoint without a Pod, "
              "for clients of other namespaces",
              kAllowed, kRefused, true, ""},
    ClaimRule{Claim::HiddenAliasTarget, "Service",
              "an alias (`externalName`) to a name that is hidden from the client", kRefused,
              kRefused, false, ""},
    ClaimRule{Claim::GatewayName, kNamesGateway, "a name outside the cluster", kAllowed, kAllowed,
              false, ""},
    ClaimRule{Claim::GatewayNameOfEntry, kNamesGateway,
              "the name of a ServiceEntry or Service that the client sees", kYields, kYields, false,
              ""},
    ClaimRule{Claim::GatewayNameOfAll, kNamesGateway,
              "a name of one label, in the cluster domain, in `clusterset.local` or in the domain "
              "of another cluster, a reserved name, or a wildcard over one of them",
              kRefused, kRefused, false, "such names are never those of gateways"},
    ClaimRule{Claim::GatewayShortName, kNamesGateway,
              "the short name of another namespace's Service, and names below", kYields, kRefused,
              true, "the name is a short name of another namespace's Services"},
    ClaimRule{Claim::Identity, "WorkloadEntry",
              "the identity of a client, in a namespace of `client.workload_entry_namespaces`",
              kAllowed, kAllowed, false, ""},
    ClaimRule{Claim::IdentityUnlisted, "WorkloadEntry",
              "the identity of a client, in another namespace", kRefused, kRefused, false, ""},
    ClaimRule{Claim::IdentityOfPod, "WorkloadEntry",
              "the identity of a client at the address of a Pod", kRefused, kRefused, false, ""},
    ClaimRule{Claim::IdentityOfNode, "WorkloadEntry",
              "the identity of a client at the address of a node", kRefused, kRefused, false, ""},
};

}  // namespace

std::string_view to_string(Ruling ruling) {
  return enum_text<Ruling::Refused>(ruling, {"allowed", "yields", "refused"});
}

std::span<const ClaimRule> claim_rules() { return kRules; }

const ClaimRule& rule_of(Claim claim) {
  const auto& rule = kRules.at(static_cast<std::size_t>(claim));
  assert(rule.claim == claim);
  return rule;
}

Ruling ruling_of(Claim claim, std::string_view ns, const MeshSettings& settings) {
  const ClaimRule& rule = rule_of(claim);
  if (settings.claims == Claims::Istio) return rule.istio;
  return rule.root_is_exempt && ns == settings.root_namespace ? rule.istio : rule.strict;
}

}  // namespace meshdns::registry
