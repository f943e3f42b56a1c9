// SPDX-License-Identifier: Apache-2.0
// The names of enumerators in the configuration; one table each, for reading and for printing.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "dnsd/config/config.hpp"

namespace meshdns::dnsd {

template <typename E>
struct EnumNames;  // static constexpr std::pair<E, std::string_view> table[]

#define MESHDNS_ENUM_NAMES(E, ...)                                           \
  template <>                                                                \
  struct EnumNames<E> {                                                      \
    using enum E;                                                            \
    static constexpr std::pair<E, std::string_view> table[] = {__VA_ARGS__}; \
  }

MESHDNS_ENUM_NAMES(ChaosAccess, {Loopback, "loopback"}, {Allowed, "allowed"}, {Off, "off"});
MESHDNS_ENUM_NAMES(CookieMode, {Off, "off"}, {Auto, "auto"}, {On, "on"});
MESHDNS_ENUM_NAMES(KernelAnswersMode, {Off, "off"}, {Auto, "auto"}, {On, "on"});
MESHDNS_ENUM_NAMES(LogLevel, {Trace, "trace"}, {Debug, "debug"}, {Info, "info"}, {Warn, "warn"},
                   {Error, "error"}, {Off, "off"});
MESHDNS_ENUM_NAMES(LogFormat, {Text, "text"}, {Json, "json"});
MESHDNS_ENUM_NAMES(QueryLogClass, {Off, "off"}, {All, "all"}, {Errors, "errors"},
                   {Denial, "denial"});
MESHDNS_ENUM_NAMES(DependencyRecord, {Off, "off"}, {Mesh, "mesh"}, {All, "all"});
MESHDNS_ENUM_NAMES(EndpointScope, {Headless, "headless"}, {All, "all"});
MESHDNS_ENUM_NAMES(IstiodApi, {Names, "names"}, {Workloads, "workloads"});
MESHDNS_ENUM_NAMES(IstiodTransport, {Delta, "delta"}, {StateOfTheWorld, "state_of_the_world"});
MESHDNS_ENUM_NAMES(IstiodNodeType, {Sidecar, "sidecar"}, {Router, "router"}, {Waypoint, "waypoint"},
                   {Ztunnel, "ztunnel"});
MESHDNS_ENUM_NAMES(IpFamily, {IPv4, "IPv4"}, {IPv6, "IPv6"});
MESHDNS_ENUM_NAMES(LocallyServed, {Answer, "answer"}, {Forward, "forward"});
MESHDNS_ENUM_NAMES(UpstreamCookieMode, {Auto, "auto"}, {Off, "off"});
MESHDNS_ENUM_NAMES(UpstreamPolicy, {Fastest, "fastest"}, {Sequential, "sequential"},
                   {RoundRobin, "round_robin"}, {Random, "random"}, {Parallel, "parallel"});
MESHDNS_ENUM_NAMES(registry::UnknownClient, {Public, "public"}, {Refuse, "refuse"},
                   {Default, "default"});
MESHDNS_ENUM_NAMES(registry::AutoAllocate, {Off, "off"}, {Hash, "hash"},
                   {Persistent, "persistent"});
MESHDNS_ENUM_NAMES(registry::PodNames, {Disabled, "disabled"}, {Insecure, "insecure"},
                   {Verified, "verified"});
MESHDNS_ENUM_NAMES(registry::SearchShortcut, {Off, "off"}, {Known, "known"}, {All, "all"});
MESHDNS_ENUM_NAMES(registry::Authoritative, {Auto, "auto"}, {Yes, "true"}, {No, "false"});
MESHDNS_ENUM_NAMES(registry::Claims, {Istio, "istio"}, {Strict, "strict"});
MESHDNS_ENUM_NAMES(registry::ClusterChoice, {LocalFirst, "local-first"}, {Merge, "merge"},
                   {LocalOnly, "local-only"});
MESHDNS_ENUM_NAMES(registry::LocalityChoice, {Off, "off"}, {First, "first"}, {Only, "only"});
MESHDNS_ENUM_NAMES(registry::TrafficDistribution, {Unset, "none"}, {SameZone, "PreferSameZone"},
                   {SameNode, "PreferSameNode"});
MESHDNS_ENUM_NAMES(registry::NetworkChoice, {Off, "off"}, {Reachable, "reachable"},
                   {Gateways, "gateways"});
MESHDNS_ENUM_NAMES(registry::Kind, {Gateway, "Gateway"}, {HttpRoute, "HTTPRoute"},
                   {TlsRoute, "TLSRoute"}, {GrpcRoute, "GRPCRoute"}, {Ingress, "Ingress"},
                   {Service, "Service"});
MESHDNS_ENUM_NAMES(registry::Visibility, {Public, "PUBLIC"}, {Namespace, "NAMESPACE"},
                   {None, "NONE"});
MESHDNS_ENUM_NAMES(registry::OutboundPolicy, {RegistryOnly, "REGISTRY_ONLY"},
                   {AllowAny, "ALLOW_ANY"});
MESHDNS_ENUM_NAMES(registry::RegistryOnlyMode, {Explain, "explain"}, {Audit, "audit"},
                   {Answer, "answer"});
MESHDNS_ENUM_NAMES(registry::RegistryOnlyRcode, {NxDomain, "nxdomain"}, {Refused, "refused"});
MESHDNS_ENUM_NAMES(registry::LabelRequirement::Operator, {In, "In"}, {NotIn, "NotIn"},
                   {Exists, "Exists"}, {DoesNotExist, "DoesNotExist"});

#undef MESHDNS_ENUM_NAMES

template <typename E>
constexpr std::string_view name_of(E value) {
  const auto* entry =
      std::ranges::find(EnumNames<E>::table, value, &std::pair<E, std::string_view>::first);
  return entry == std::end(EnumNames<E>::table) ? std::string_view() : entry->second;
}

template <typename E>
constexpr std::optional<E> value_of(std::string_view name) {
  const auto* entry =
      std::ranges::find(EnumNames<E>::table, name, &std::pair<E, std::string_view>::second);
  if (entry == std::end(EnumNames<E>::table)) return std::nullopt;
  return entry->first;
}

}  // namespace meshdns::dnsd
