// SPDX-License-Identifier: Apache-2.0
// The one table of the claims that objects may make about names and addresses.
//
// Everything that a namespace can write into its own objects and that concerns more than its own
// names is a row here.  The code that reads objects asks ruling_of() and decides nothing itself.
// docs/security.md shows the same table; a test compares the two.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "registry/model/mesh_settings.hpp"

namespace meshdns::registry {

enum class Claim : std::uint8_t {
  // A ServiceEntry, or a host of an istiod name table that stands for one, about a name.
  OutsideName,
  TopLevelName,
  ClusterName,
  ReservedName,
  OthersShortName,
  // A ServiceEntry about an address.
  ServiceAddress,
  VipRange,
  ReverseOfClusterAddress,
  ReverseForOthers,
  OthersWorkload,
  // Objects of a Service's namespace.
  OwnService,
  ReverseOfOthersAddress,
  ReverseOfOutsideAddress,
  HiddenAliasTarget,
  // A name that an object gives to a gateway (`mesh.gateway_names`).
  GatewayName,
  GatewayNameOfEntry,
  GatewayNameOfAll,
  GatewayShortName,
  // A WorkloadEntry that identifies the client of an address.
  Identity,
  IdentityUnlisted,
  IdentityOfPod,
  IdentityOfNode,
};

enum class Ruling : std::uint8_t {
  Allowed,
  Yields,   // a conflicting Service that the client sees wins
  Refused,  // the claim has no effect
};
std::string_view to_string(Ruling ruling);  // "allowed", "yields", "refused"

struct ClaimRule {
  Claim claim;
  std::string_view object;  // "ServiceEntry"
  std::string_view about;   // "name of one label, or wildcard over one"
  Ruling istio;             // mesh.claims: istio
  Ruling strict;            // mesh.claims: strict
  bool root_is_exempt;      // the root namespace may, in every mode
  std::string_view reason;  // of a refusal, for findings and explanations; "" = it needs none
};

// In the order of Claim.
std::span<const ClaimRule> claim_rules();
const ClaimRule& rule_of(Claim claim);
// The ruling when an object of `ns` makes that claim.
Ruling ruling_of(Claim claim, std::string_view ns, const MeshSettings& settings);

}  // namespace meshdns::registry
