// SPDX-License-Identifier: Apache-2.0
// The tables that the registry keeps between commits.
#pragma once

#include <memory>
#include <utility>

#include "registry/model/mesh_settings.hpp"
#include "registry/snapshot/service_record.hpp"
#include "registry/snapshot/symbol.hpp"
#include "registry/tables/client_table.hpp"
#include "registry/tables/decoded_resources.hpp"
#include "registry/tables/endpoint_name_table.hpp"
#include "registry/tables/gateway_table.hpp"
#include "registry/tables/host_table.hpp"
#include "registry/tables/namespace_table.hpp"
#include "registry/tables/network_table.hpp"
#include "registry/tables/non_terminal_table.hpp"
#include "registry/tables/origin_table.hpp"
#include "registry/tables/reverse_table.hpp"
#include "registry/tables/status_address_table.hpp"
#include "registry/tables/vip_table.hpp"
#include "registry/tables/workload_table.hpp"

namespace meshdns::registry {

// Some refer to others, so it does not move.
// Control thread.
struct Tables {
  explicit Tables(std::shared_ptr<const MeshSettings> effective) : settings(std::move(effective)) {}
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  const std::shared_ptr<const MeshSettings> settings;  // with those of MeshConfig
  SymbolTable symbols;
  PortTable ports;
  OriginTable origins;
  HostTable hosts;
  MemberTable members{hosts, *settings};
  ReverseTable reverse;
  NonTerminalTable non_terminals;
  NamespaceTable namespaces;
  NodeTable nodes;
  WorkloadTable workloads;
  ServiceSelectors service_selectors{settings->cluster_domain};
  NetworkTable networks{*settings, symbols};
  ClientTable clients{*settings, symbols, workloads, nodes, networks};
  ClaimantTable claimants;  // only with claims: strict
  EndpointNameTable endpoint_names;
  VipTable vips{*settings};
  DecodedResources decoded;
  Selections selections{workloads, decoded};
  Selections selections_of_services{service_selectors.workloads(), decoded};
  StatusAddressTable status_addresses{decoded};
  GatewayTable gateways{*settings, origins, namespaces};
};

}  // namespace meshdns::registry
