// SPDX-License-Identifier: Apache-2.0
#include "dnsd/mesh/configured_sources.hpp"

#include <algorithm>
#include <cstdlib>

#include "dnsd/config/enum_names.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/source/file_source.hpp"
#include "registry/source/istiod/istiod_source.hpp"
#include "registry/source/kubernetes/kubernetes_source.hpp"

namespace meshdns::dnsd {
namespace {

// More of them cost more than to follow the whole cluster.
constexpr std::size_t kMaxFollowedNamespaces = 16;

std::string node_name(const KubernetesSource& source) {
  if (!source.node_name.empty()) return source.node_name;
  const char* const from_environment = std::getenv("NODE_NAME");
  return from_environment == nullptr ? "" : from_environment;
}

// As Istio's agents write it: TYPE~ADDRESS~NAME.NAMESPACE~NAMESPACE.svc.DOMAIN.
std::string istiod_node_id(const Config& config, const IstiodNode& node) {
  return std::string(name_of(node.type)) + "~" + node.addresses.front().to_string() + "~" +
         node.name + "." + node.ns + "~" + node.ns + ".svc." + config.mesh.cluster_domain;
}

registry::IstiodSourceOptions istiod_options(const Config& config, const IstiodSource& source) {
  registry::IstiodSourceOptions options;
  options.name = source_name(source);
  options.addresses = source.addresses;
  options.server_name = source.server_name;
  options.ca_file = source.ca_file;
  options.token_file = source.token_file;
  options.cert_file = source.cert_file;
  options.key_file = source.key_file;
  if (source.api == IstiodApi::Workloads) options.api = registry::istiod::AdsApi::Workloads;
  options.cluster_domain = config.mesh.cluster_domain;
  if (source.transport == IstiodTransport::StateOfTheWorld)
    options.transport = registry::istiod::AdsTransport::StateOfTheWorld;
  const IstiodNode& node = source.node;
  options.node = {
      istiod_node_id(config, node), node.name,     node.ns,     node.cluster, node.network,
      joined(node.addresses),       node.revision, node.labels, node.metadata};
  return options;
}

}  // namespace

std::string source_name(const SourceConfig& source) {
  if (const auto* files = std::get_if<FilesSource>(&source)) return "files:" + files->path;
  if (const auto* table = std::get_if<NameTableSource>(&source)) return "name_table:" + table->path;
  if (const auto* istiod = std::get_if<IstiodSource>(&source))
    return "istiod:" + istiod->addresses.front();
  const auto& kubernetes = std::get<KubernetesSource>(source);
  if (!kubernetes.cluster.empty()) return "kubernetes:" + kubernetes.cluster;
  return "kubernetes:" + (kubernetes.kubeconfig.empty() ? "in-cluster" : kubernetes.kubeconfig);
}

std::vector<registry::SavedSource> saved_sources(const Config& config) {
  std::vector<registry::SavedSource> saved;
  for (const auto& source : config.sources) {
    registry::SavedSource& entry = saved.emplace_back();
    entry.name = source_name(source);
    if (const auto* files = std::get_if<FilesSource>(&source)) {
      entry.cluster = files->cluster;
      entry.network = files->network;
    } else if (const auto* kubernetes = std::get_if<KubernetesSource>(&source)) {
      entry.cluster = kubernetes->cluster;
      entry.network = kubernetes->network;
    } else if (const auto* istiod = std::get_if<IstiodSource>(&source)) {
      // The names are those of one workload.
      entry.cluster = istiod_node_id(config, istiod->node);
    }
  }
  return saved;
}

std::optional<registry::kubernetes::WatchNeeds> watch_needs(const Config& config,
                                                            const SourceConfig& source) {
  const auto* const kubernetes = std::get_if<KubernetesSource>(&source);
  if (kubernetes == nullptr) return {};
  registry::kubernetes::WatchNeeds needs;
  needs.namespaces = kubernetes->namespaces;
  if (needs.namespaces.empty() && config.mesh.namespaces.size() <= kMaxFollowedNamespaces) {
    needs.namespaces = config.mesh.namespaces;
    needs.namespaces_are_shared = config.sources.size() > 1;
  }
  needs.root_namespace = config.mesh.root_namespace;
  needs.istio_config_map = config.mesh.istio_config_map;
  needs.gateway_kinds = registry::gateway_kinds_to_read(config.mesh);
  needs.root_namespace_is_set =
      config.mesh.origins.root_namespace == registry::SettingOrigin::Configuration;
  needs.node_name = node_name(*kubernetes);
  needs.client_pods = config.client.by_source_address;
  needs.node_places = config.mesh.locality != registry::LocalityChoice::Off;
  needs.all_pods = config.mesh.pods == registry::PodNames::Verified;
  needs.all_slices =
      kubernetes->endpoints == EndpointScope::All || config.mesh.ignore_empty_service;
  return needs;
}

std::string own_node(const Config& config) {
  for (const auto& source : config.sources)
    if (const auto* kubernetes = std::get_if<KubernetesSource>(&source))
      return node_name(*kubernetes);
  return node_name({});
}

bool is_authority(const Config& config) {
  switch (config.mesh.authoritative) {
    case registry::Authoritative::Yes:
      return true;
    case registry::Authoritative::No:
      return false;
    case registry::Authoritative::Auto:
      break;
  }
  for (const auto& source : config.sources)
    if (const auto* kubernetes = std::get_if<KubernetesSource>(&source); kubernetes != nullptr)
      if (kubernetes->namespaces.empty() && config.mesh.namespaces.empty()) return true;
  return false;
}

std::unique_ptr<registry::Source> make_source(uv_loop_s* loop, const Config& config,
                                              const SourceConfig& source, RegistryFeed& feed,
                                              registry::ServerLookup& servers) {
  if (const auto* kubernetes = std::get_if<KubernetesSource>(&source))
    return registry::make_kubernetes_source(
        loop,
        {source_name(source), kubernetes->kubeconfig, kubernetes->cluster, kubernetes->network,
         *watch_needs(config, source), feed.origins_of(source_name(source)),
         kubernetes->path_timeout},
        servers, feed);
  if (const auto* istiod = std::get_if<IstiodSource>(&source))
    return registry::make_istiod_source(loop, istiod_options(config, *istiod), servers, feed);
  registry::FileSourceOptions options;
  options.name = source_name(source);
  options.restored = feed.restored_origins(options.name);
  if (const auto* files = std::get_if<FilesSource>(&source)) {
    options.path = files->path;
    options.manifest.cluster = files->cluster;
    options.manifest.network = files->network;
    options.manifest.gateway_kinds = registry::gateway_kinds_to_read(config.mesh);
    return registry::make_manifest_source(loop, std::move(options), feed);
  }
  options.path = std::get<NameTableSource>(source).path;
  return registry::make_name_table_source(loop, std::move(options), feed);
}

}  // namespace meshdns::dnsd
