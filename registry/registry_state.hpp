// SPDX-License-Identifier: Apache-2.0
// The state that the registry keeps between commits, and the effects of one commit.  Private to
// registry.cpp and registry_state.cpp.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "registry/controller.hpp"
#include "registry/derive/derive.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/registry.hpp"
#include "registry/tables/tables.hpp"

namespace meshdns::registry {

// The effects of one commit so far.
struct Registry::Change {
  explicit Change(bool with_records) : wants_records(with_records) {}

  HostMarks hosts;
  // The records that are derived of one host, until the next host.
  std::string host;
  std::vector<HostTable::Replacement> derived;
  std::vector<IpAddress> pod_addresses;  // of changed Pods, which endpoints may be
  const HostTable* replaced = nullptr;   // the hosts before a change of the settings
  const bool wants_records;
  Changes changes;
};

// The tables, and how a resource of each kind goes into them.
struct Registry::State : Tables {
  using Change = Registry::Change;
  State(MeshSettings from_configuration, const MeshConfig* config)
      : Tables(
            std::make_shared<const MeshSettings>(effective_settings(from_configuration, config))),
        configured(std::move(from_configuration)) {}

  bool is_served(const StoredResource& resource) const {
    const Kind kind = resource.kind();
    if (kind == Kind::Sidecar || kind == Kind::ConfigMap || kind == Kind::Node) return true;
    // Its labels have the network of its cluster.
    if (kind == Kind::Namespace)
      return is_served(resource.name()) || resource.name() == settings->root_namespace;
    return is_served(resource.ns());
  }
  bool is_served(std::string_view ns) const {
    const auto& served = settings->namespaces;
    return served.empty() || std::ranges::find(served, ns) != served.end();
  }
  // Returns whether what takes long is given up.  Asked of each object; asks every 5 ms or so.
  bool is_interrupted() {
    if (interrupted || !interrupt || ++steps % 1'024 != 0) return interrupted;
    return interrupted = interrupt();
  }
  bool is_strict() const { return settings->claims == Claims::Strict; }

  OriginTable::Exchange exchange_in(Change& change) {
    return [this, &change](const StoredRef& before, const StoredRef& after) {
      if (before && is_served(*before)) link(before, false, change);
      if (after && is_served(*after)) link(after, true, change);
    };
  }
  void link(const StoredRef& resource, bool add, Change& change);
  void link_service_entry(const ServiceEntry& entry, const StoredRef& stored, bool add,
                          Change& change);
  void link_workload(const Resource& workload, const StoredRef& stored, bool add, Change& change);
  std::string host_in_cluster_set(std::string_view host) const;
  void link_sidecar(const StoredRef& stored, bool add);
  void link_config_map(const StoredRef& stored, bool add);
  void link_namespace(const Namespace& object, bool add, Change& change);
  void link_node(const KubeNode& node, bool add);
  // Makes again what depends on the places of nodes, for those that have moved.
  void follow_nodes(Change& change);
  void note_pod_names(std::string_view ns);
  void link_hosts(const Resource& resource, const StoredRef& stored, bool add, Change& change);

  void rederive_marked(Change& change);
  void rederive(const HostKey& key, const SourceChange& sources, DeriveContext& context,
                Change& change);
  void replace_derived(Change& change);
  void put(const HostKey& key, const Ref<const ServiceRecord>& before,
           const Ref<const ServiceRecord>& after, Change& change);
  // Marks the hosts whose endpoints are in other networks, or whose gateways are others.
  void mark_networks(Change& change);
  void settle_gateways(Change& change);
  void update_clients(Change& change);
  void settle(Change& change);
  std::shared_ptr<const Snapshot> snapshot();

  // The MeshConfig that counts with the settings `of` a configuration; nullopt: none.
  std::optional<MeshConfig> mesh_config_for(const MeshSettings& of) const;
  // Returns whether ConfigMaps have changed since the last call, and the settings with them.
  bool take_settings_change();

  const MeshSettings configured;
  std::map<ResourceKey, StoredRef> config_maps;
  bool config_maps_changed = false;
  Snapshot facts;  // generation, serial and the state of the sources; without tables
  std::function<void(const Changes&)> before_publish;
  std::function<void(std::shared_ptr<const Snapshot>)> publish;
  std::function<bool()> interrupt;
  std::size_t steps = 0;
  bool interrupted = false;  // for good
};

}  // namespace meshdns::registry
