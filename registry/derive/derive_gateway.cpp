// SPDX-License-Identifier: Apache-2.0
// Records of names that objects give to gateways.
#include <map>
#include <string_view>

#include "registry/base/host_name.hpp"
#include "registry/derive/deriver.hpp"
#include "registry/tables/gateway_names.hpp"

namespace meshdns::registry {

bool Deriver::is_gateway_claim(const StoredResource& source) const {
  // A Service also has a name of its own, in the cluster domain, where gateways have none.
  if (source.kind() == Kind::Service) return !is_below(host_, settings_.cluster_domain);
  return is_gateway_kind(source.kind());
}

std::vector<DecodedRef> Deriver::gateway_claims(const Sources& sources) const {
  std::vector<DecodedRef> claims;
  for (const auto& item : sources.items)
    if (is_gateway_claim(*item->stored())) claims.push_back(item);
  return claims;
}

bool Deriver::is_refused_gateway_name() {
  const Claim claim = gateway_claim_of(host_, ns_->text(), settings_, tables_.claimants.owners());
  if (ruling_of(claim, ns_->text(), settings_) != Ruling::Refused) return false;
  record_->placeholder = true;
  record_->refused = true;
  details().notes.push_back("refused: " + std::string(rule_of(claim).reason));
  return true;
}

// The oldest object with an address counts, in each cluster.
void Deriver::from_gateways(const std::vector<DecodedRef>& claims) {
  record_->provider = Provider::Gateway;
  record_->ttl_class = TtlClass::Kubernetes;
  record_->resolution = Resolution::Static;
  record_->creation_time = meta_of(claims.front()->resource()).creation_time;
  record_->can_shadow = can_be_short_name(host_, settings_) || tables_.members.is_member(host_);
  if (is_refused_gateway_name()) return;
  std::map<std::string_view, const GatewayAnswer*> of_cluster;
  const GatewayAnswer* chosen = nullptr;
  std::string_view missing;
  for (const auto& claim : claims) {
    const GatewayAnswer* const answer = tables_.gateways.find(*claim->stored(), host_);
    if (answer == nullptr) continue;
    if (answer->rank == GatewayAnswer::Rank::None || answer->alias == host_) {
      missing = answer->via;
      continue;
    }
    of_cluster.try_emplace(claim->stored()->cluster(), answer);
    if (chosen != nullptr) continue;
    chosen = answer;
    answering_claim_ = claim->stored();
    record_->creation_time = meta_of(claim->resource()).creation_time;
  }
  if (chosen == nullptr) {
    record_->placeholder = true;
    details().notes.push_back("no address: there is neither a Service with a ClusterIP nor " +
                              std::string(missing));
    return;
  }
  details().notes.push_back("address: " + chosen->via);
  if (chosen->ttl != 0) {
    record_->ttl_class = TtlClass::Own;
    details().ttl = chosen->ttl;
  }
  if (!chosen->alias.empty()) {
    record_->answer = AnswerKind::Alias;
    details().alias = chosen->alias;
    return;
  }
  record_->answer = AnswerKind::Vips;
  std::vector<ClusterAddresses> addresses;
  for (const auto& [cluster, answer] : of_cluster)
    addresses.emplace_back(cluster, &answer->addresses);
  set_addresses(take_addresses(addresses));
}

}  // namespace meshdns::registry
