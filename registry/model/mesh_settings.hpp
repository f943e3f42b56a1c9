// SPDX-License-Identifier: Apache-2.0
// The settings under `mesh:` of the configuration that decide what the registry derives from its
// resources.  Plain values; a change of any of them re-derives everything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/model/labels.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {

// The zone of multi-cluster services, which the specification fixes.
inline constexpr std::string_view kClusterSetDomain = "clusterset.local";

enum class AutoAllocate : std::uint8_t { Off, Hash, Persistent };
enum class PodNames : std::uint8_t { Disabled, Insecure, Verified };
enum class SearchShortcut : std::uint8_t { Off, Known, All };
enum class Authoritative : std::uint8_t { Auto, Yes, No };
enum class Claims : std::uint8_t { Istio, Strict };
// The view of a client that no object of the mesh identifies: public names, none, or that of
// `client.default`.
enum class UnknownClient : std::uint8_t { Public, Refuse, Default };
// The clusters whose Services answer a client whose cluster is known (docs/kubernetes.md).
enum class ClusterChoice : std::uint8_t { LocalFirst, Merge, LocalOnly };

// Whether services that wish it are answered with near endpoints (docs/kubernetes.md).
enum class LocalityChoice : std::uint8_t { Off, First, Only };

// The endpoints of other networks than the client's (docs/networks.md).
enum class NetworkChoice : std::uint8_t {
  Off,        // are answered like all others
  Reachable,  // are not answered
  Gateways,   // give way to the gateways of their network, if it has any
};

struct TtlSettings {  // seconds
  std::uint32_t vip = 30;
  std::uint32_t endpoint = 5;
  std::uint32_t kubernetes = 5;
  std::uint32_t negative = 5;
  friend bool operator==(const TtlSettings&, const TtlSettings&) = default;
};

// The origin of a setting that MeshConfig has, too.
enum class SettingOrigin : std::uint8_t { Default, Configuration, MeshConfig };
struct SettingOrigins {
  SettingOrigin root_namespace = SettingOrigin::Default;
  SettingOrigin default_export_to = SettingOrigin::Default;
  SettingOrigin service_entry_visibility = SettingOrigin::Default;
  SettingOrigin outbound_policy = SettingOrigin::Default;
  friend bool operator==(const SettingOrigins&, const SettingOrigins&) = default;
};

// The names of gateways (docs/semantics-kubernetes.md, "Names of gateways").
struct GatewayNameSettings {
  // The objects that give names: Gateway, HttpRoute, TlsRoute, GrpcRoute, Ingress, Service (with
  // annotations of external-dns).  Empty = off.
  std::vector<Kind> kinds;
  std::vector<std::string> domains;  // canonical; names elsewhere are not taken; empty = all
  Labels services;  // class of Gateways or Ingresses -> NAMESPACE/NAME of the Service in front
  bool has(Kind kind) const { return std::ranges::find(kinds, kind) != kinds.end(); }
  friend bool operator==(const GatewayNameSettings&, const GatewayNameSettings&) = default;
};

// The answers to clients whose proxies drop traffic to what they do not see, for names that no
// object that they see has (mesh.registry_only).
enum class RegistryOnlyMode : std::uint8_t {
  Explain,  // those of all others; explanations name the policy
  Audit,    // likewise, and the names are counted and listed
  Answer,   // the names are refused
};
enum class RegistryOnlyRcode : std::uint8_t { NxDomain, Refused };
struct RegistryOnlySettings {
  RegistryOnlyMode mode = RegistryOnlyMode::Explain;
  RegistryOnlyRcode rcode = RegistryOnlyRcode::NxDomain;
  std::vector<std::string> namespaces;  // of clients; empty = all
  friend bool operator==(const RegistryOnlySettings&, const RegistryOnlySettings&) = default;
};

struct MeshSettings {
  std::string cluster_domain = "cluster.local";  // canonical
  std::string root_namespace = "istio-system";
  bool endpoint_answers = true;
  AutoAllocate auto_allocate = AutoAllocate::Off;
  IpPrefix vip_cidr_v4 = *IpPrefix::parse("240.240.0.0/16");
  IpPrefix vip_cidr_v6 = *IpPrefix::parse("2001:2::/48");
  // Most persistent VIPs that one namespace holds; 0 = no limit.
  std::uint32_t vip_namespace_quota = 16384;
  ExportTo default_export_to = {"*"};
  ServiceEntryVisibility service_entry_visibility;
  OutboundPolicy outbound_policy = OutboundPolicy::AllowAny;  // of Sidecars that have none
  RegistryOnlySettings registry_only;
  TtlSettings ttl;
  Authoritative authoritative = Authoritative::Auto;
  bool cluster_set_authoritative = false;  // for clusterset.local
  std::vector<std::string> reverse_zones;  // canonical zone names ("10.in-addr.arpa")
  std::vector<std::string> fallthrough;    // canonical zone names
  std::vector<std::string> namespaces;     // empty = all
  PodNames pods = PodNames::Insecure;
  bool endpoint_pod_names = false;
  bool ignore_empty_service = false;
  SearchShortcut search_shortcut = SearchShortcut::Known;
  Claims claims = Claims::Istio;
  ClusterChoice clusters = ClusterChoice::LocalFirst;
  LocalityChoice locality = LocalityChoice::Off;
  // For services whose objects and namespaces have no setting.
  TrafficDistribution traffic_distribution = TrafficDistribution::Unset;
  NetworkChoice networks = NetworkChoice::Reachable;
  MeshNetworks mesh_networks;  // MeshConfig's ConfigMap alone sets them
  // NAMESPACE/NAME of the ConfigMap with Istio's MeshConfig; empty = none.
  std::string istio_config_map = "istio-system/istio";
  GatewayNameSettings gateway_names;
  SettingOrigins origins;
  friend bool operator==(const MeshSettings&, const MeshSettings&) = default;
};

// Returns the settings of the mesh that are in force: those of the configuration, then those of
// Istio's MeshConfig, then the defaults.  `config`: the MeshConfig; null: none.
MeshSettings effective_settings(MeshSettings configured, const MeshConfig* config);

// The kinds to read for ManifestOptions::gateway_kinds: a route needs its Gateway, and Gateways may
// be those of networks.
std::vector<Kind> gateway_kinds_to_read(const MeshSettings& settings);

// Returns whether `ns` and `name` are those of MeshSettings::istio_config_map.
bool is_istio_config_map(const MeshSettings& settings, std::string_view ns, std::string_view name);

// For messages: "default", "the configuration" or "ConfigMap istio-system/istio".
std::string describe_origin(const MeshSettings& settings, SettingOrigin origin);

}  // namespace meshdns::registry
