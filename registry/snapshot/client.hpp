// SPDX-License-Identifier: Apache-2.0
// A client: its identity and dependent settings.  Computed when a Pod, WorkloadEntry, Sidecar or
// the configuration changes, never per query.  Immutable; any thread.
#pragma once

#include <string>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/snapshot/endpoint_place.hpp"
#include "registry/snapshot/sidecar_scope.hpp"
#include "registry/snapshot/symbol.hpp"

namespace meshdns::registry {

// The identity of a client, before its settings are derived.
struct ClientIdentity {
  std::string ns = "default";
  Labels labels;
  std::string network;
  std::string cluster;
  std::string node;                 // of Kubernetes
  Locality locality;                // empty: the node's
  std::vector<std::string> search;  // canonical; empty = the namespace's three
  bool ipv4 = true;
  bool ipv6 = true;
  // Sidecar resources narrow the view of sidecars only, not of gateways, waypoints and ztunnels.
  bool narrowed_by_sidecars = true;
  std::string description = "client.default";  // "Pod shop/web-1"
  std::string workload;  // the name that its object or owner gives; its labels may give another
  friend bool operator==(const ClientIdentity&, const ClientIdentity&) = default;
};

// The part of the identity of clients that the configuration gives.
struct ClientSettings {
  ClientIdentity default_identity;
  bool by_source_address = false;
  UnknownClient unknown = UnknownClient::Public;
  // Namespaces whose WorkloadEntries identify clients; "*" = all, empty = none.
  std::vector<std::string> workload_entry_namespaces = {};
  // Canonical; the kubelet appends those of its node to the search list of each Pod.
  std::vector<std::string> node_search = {};
};

struct Client final : RefCounted {
  ClientIdentity identity;
  SymbolRef ns;  // null for the public client
  // "orders": the canonical name of its labels, else ClientIdentity::workload, else its node;
  // empty: nothing tells.
  std::string workload;
  SymbolRef network;  // null: the client reaches endpoints of all networks
  SymbolRef cluster;
  Place place;
  Ref<const SidecarScope> scope;  // null = no Sidecar restricts it
  // Its proxy drops traffic to what the client does not see: outboundTrafficPolicy of the Sidecar,
  // or else of the mesh.
  bool is_registry_only = false;
  std::vector<std::string> search;  // effective, canonical, without duplicates
};

// The client behind one source address.
struct ClientEntry final : RefCounted {
  IpAddress address;
  Ref<const Client> client;  // null: the address is shared and identifies no client
  std::string why;           // how that was decided, for operators
};

}  // namespace meshdns::registry
