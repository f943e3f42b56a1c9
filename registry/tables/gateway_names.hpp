// SPDX-License-Identifier: Apache-2.0
// The names that objects give to gateways, and the addresses of a gateway
// (docs/semantics-kubernetes.md, "Names of gateways").  Pure functions of their arguments.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "registry/model/mesh_settings.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {

// The answer for the names of one object.
struct GatewayAnswer {
  // From worst to best.  Each takes the place of all that are worse.
  enum class Rank : std::uint8_t { None, Alias, Status, InCluster };
  Rank rank = Rank::None;
  std::vector<IpAddress> addresses;  // sorted, each once
  std::string alias;                 // instead of addresses
  std::uint32_t ttl = 0;             // of an annotation; 0 = that of `mesh.ttl.kubernetes`
  std::string via;                   // for explanations: "ClusterIP of Service infra/web-istio"

  // Takes the better of both; unites the addresses of equals.
  void add(const GatewayAnswer& other);
  friend bool operator==(const GatewayAnswer&, const GatewayAnswer&) = default;
};

// By host; "*.suffix" for a wildcard.
using GatewayNames = std::map<std::string, GatewayAnswer, std::less<>>;

// Answers with the cluster IPs of a Service; nullopt: it has none.
std::optional<GatewayAnswer> answer_of_cluster_ips(const KubeService& service);
// Answers for an annotated Service, which may also be headless or an alias.
GatewayAnswer answer_of_service(const KubeService& service, const MeshSettings& settings);
// Answers with the IP addresses among texts, else with the first host name.
GatewayAnswer answer_of_texts(const std::vector<std::string>& texts, std::string_view origin);
// Answers for a Gateway without a Service: the name of a Service in its spec, `target`, or its
// status.
GatewayAnswer answer_of_gateway_itself(const Gateway& gateway, const MeshSettings& settings);

// The names that a route has at the listeners of one of its parents.  `gateway`: the one that
// `parent` names; `labels`: those of the route's namespace, null when it is not known.
std::vector<std::string> hosts_at_gateway(const GatewayRoute& route, const GatewayRef& parent,
                                          const Gateway& gateway, const Labels* labels);

// The name that a listener and a route have in common (the Gateway API, "hostnames"); empty names
// stand for all.  nullopt: there is none.
std::optional<std::string> common_hostname(std::string_view listener, std::string_view route);

// Returns whether the name lies in `mesh.gateway_names.domains`.
bool is_in_gateway_domains(std::string_view host, const GatewayNameSettings& settings);

}  // namespace meshdns::registry
