// SPDX-License-Identifier: Apache-2.0
// The networks of endpoints and clients whose own objects do not name one, and the need to tell
// networks apart.  A mesh that names one network only is answered as one that names none.
//
// Control thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "registry/model/mesh_settings.hpp"
#include "registry/snapshot/network_gateways.hpp"
#include "registry/snapshot/symbol.hpp"

namespace meshdns::registry {

class NetworkTable {
 public:
  // REQUIRES: both outlive the table.
  NetworkTable(const MeshSettings& settings, SymbolTable& symbols);

  // A resource is added or removed.
  void link(const Resource& resource, bool add);
  // A client or an object is in that network, or is no longer; empty: in none.
  void count(std::string_view network, bool add);
  // Returns whether the mesh named several networks and now names fewer than two: clients of all
  // networks get the same endpoints from the next take_changes() on.
  bool forget_ended();

  // The changes since the last call.
  struct Changes {
    bool choice = false;    // gateways(): services with endpoints in networks are others
    bool defaults = false;  // default_of(): all services with endpoints, and all clients are others
    std::vector<IpAddress> addresses;  // of Pods: services with endpoints there are others
  };
  Changes take_changes();

  // The network of endpoints and workloads of the cluster, if neither their objects nor their
  // source name one: that of the label of its root namespace, else that of MeshNetworks.  Null:
  // none.
  SymbolRef default_of(std::string_view cluster, const IpAddress& address) const;
  // The network that the label of the Pod with that name and address names; null: none.
  SymbolRef of_pod(std::string_view cluster, std::string_view ns, std::string_view name,
                   const IpAddress& address) const;
  // Null: clients of all networks get the same endpoints.
  const Ref<const NetworkGateways>& gateways() const { return gateways_; }

 private:
  // A Service or Gateway that may be a gateway to a network.
  struct GatewayObject {
    std::string network;  // that of its label
    std::vector<IpAddress> addresses;
  };
  using ClusterNetworks = std::map<std::string, SymbolRef, std::less<>>;
  struct PodChange {
    SymbolRef before;
    IpAddress address;
  };

  void link_pod(const Pod& pod, bool add);
  void link_root_namespace(const Namespace& object, bool add);
  void link_service(const KubeService& service, bool add);
  // `name`: the host of a Service, or a text that is no host.
  void link_gateway(const ObjectMeta& meta, std::string name,
                    const std::vector<IpAddress>& addresses, bool add);
  void count_networks(const Resource& resource, bool add);
  std::vector<NetworkGateways::Gateway> find_gateways() const;

  const MeshSettings& settings_;
  SymbolTable& symbols_;
  std::map<std::string, std::size_t, std::less<>> named_;  // number of those that are in each
  bool several_ = false;  // named_ has several, or had since the last forget_ended()
  ClusterNetworks of_clusters_;
  ClusterNetworks of_clusters_before_;                 // at the last take_changes()
  std::unordered_map<std::uint64_t, SymbolRef> pods_;  // by a hash of name and address
  std::unordered_map<std::uint64_t, PodChange> changed_pods_;
  std::map<std::pair<std::string, std::string>, GatewayObject>
      gateway_objects_;  // by cluster, name
  Ref<const NetworkGateways> gateways_;
};

}  // namespace meshdns::registry
