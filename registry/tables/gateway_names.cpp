// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/gateway_names.hpp"

#include <algorithm>

#include "registry/base/each_once.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::registry {
namespace {

bool has_wildcard(std::string_view host) { return host.starts_with("*."); }

// REQUIRES: `wildcard` is one.
bool covers(std::string_view wildcard, std::string_view host) {
  const std::string_view suffix = wildcard.substr(2);
  return has_wildcard(host) ? is_at_or_below(host.substr(2), suffix) : is_below(host, suffix);
}

bool admits(const GatewayListener& listener, const GatewayRoute& route, const Gateway& gateway,
            const Labels* labels) {
  if (std::ranges::find(listener.kinds, route.kind) == listener.kinds.end()) return false;
  switch (listener.from) {
    case RouteNamespaces::All:
      return true;
    case RouteNamespaces::Same:
      return route.meta.ns == gateway.meta.ns;
    case RouteNamespaces::Selector:
      return labels != nullptr && selects(listener.namespaces, *labels);
    case RouteNamespaces::None:
      return false;
  }
  return false;
}

bool is_meant(const GatewayListener& listener, const GatewayRef& parent) {
  return (parent.section.empty() || parent.section == listener.name) &&
         (parent.port == 0 || parent.port == listener.port);
}

std::vector<std::string> hostnames_of(const GatewayRoute& route) {
  std::vector<std::string> hosts = route.hostnames;
  hosts.insert(hosts.end(), route.dns.hostnames.begin(), route.dns.hostnames.end());
  // Without names of its own, a route has those of the listeners.
  if (route.hostnames.empty()) hosts.emplace_back();
  return hosts;
}

}  // namespace

void GatewayAnswer::add(const GatewayAnswer& other) {
  if (other.rank > rank) {
    const std::uint32_t own_ttl = ttl;
    *this = other;
    ttl = own_ttl;
    return;
  }
  if (other.rank < rank || !alias.empty() || !other.alias.empty() || other.addresses.empty())
    return;
  if (addresses == other.addresses) return;
  addresses.insert(addresses.end(), other.addresses.begin(), other.addresses.end());
  sort_each_once(addresses);
  via += "; " + other.via;
}

std::optional<GatewayAnswer> answer_of_cluster_ips(const KubeService& service) {
  if (service.headless || service.cluster_ips.empty()) return std::nullopt;
  GatewayAnswer answer;
  answer.rank = GatewayAnswer::Rank::InCluster;
  answer.addresses = service.cluster_ips;
  sort_each_once(answer.addresses);
  answer.via = "ClusterIP of Service " + service.meta.ns + "/" + service.meta.name;
  return answer;
}

GatewayAnswer answer_of_service(const KubeService& service, const MeshSettings& settings) {
  if (auto answer = answer_of_cluster_ips(service)) return *std::move(answer);
  GatewayAnswer answer;
  if (service.headless)
    answer.alias = service_host(service.meta.name, service.meta.ns, settings.cluster_domain);
  else if (service.type == ServiceType::ExternalName)
    answer.alias = service.external_name;
  if (answer.alias.empty()) return answer;
  answer.rank = GatewayAnswer::Rank::InCluster;
  answer.via = "alias of Service " + service.meta.ns + "/" + service.meta.name;
  return answer;
}

GatewayAnswer answer_of_texts(const std::vector<std::string>& texts, std::string_view origin) {
  GatewayAnswer answer;
  answer.via = origin;
  for (const std::string& text : texts)
    if (const auto ip = IpAddress::parse(text)) answer.addresses.push_back(*ip);
  sort_each_once(answer.addresses);
  if (!answer.addresses.empty()) {
    answer.rank = GatewayAnswer::Rank::Status;
  } else if (!texts.empty()) {
    answer.rank = GatewayAnswer::Rank::Alias;
    answer.alias = texts.front();
  }
  return answer;
}

GatewayAnswer answer_of_gateway_itself(const Gateway& gateway, const MeshSettings& settings) {
  const std::string name = gateway.meta.ns + "/" + gateway.meta.name;
  // Istio: the Service of a gateway that is not deployed automatically.
  for (const std::string& host : gateway.spec_hosts)
    if (is_below(host, settings.cluster_domain)) {
      GatewayAnswer answer = answer_of_texts({host}, "spec.addresses of Gateway " + name);
      answer.rank = GatewayAnswer::Rank::InCluster;
      return answer;
    }
  if (!gateway.dns.targets.empty())
    return answer_of_texts(gateway.dns.targets, "annotation target of Gateway " + name);
  return answer_of_texts(gateway.addresses, "status.addresses of Gateway " + name);
}

std::optional<std::string> common_hostname(std::string_view listener, std::string_view route) {
  if (listener.empty()) return std::string(route);
  if (route.empty() || listener == route) return std::string(listener);
  if (has_wildcard(listener) && covers(listener, route)) return std::string(route);
  if (has_wildcard(route) && covers(route, listener)) return std::string(listener);
  return std::nullopt;
}

std::vector<std::string> hosts_at_gateway(const GatewayRoute& route, const GatewayRef& parent,
                                          const Gateway& gateway, const Labels* labels) {
  const std::vector<std::string> hostnames = hostnames_of(route);
  std::vector<std::string> hosts;
  for (const GatewayListener& listener : gateway.listeners) {
    if (!is_meant(listener, parent) || !admits(listener, route, gateway, labels)) continue;
    for (const std::string& hostname : hostnames)
      if (auto host = common_hostname(listener.hostname, hostname); host && !host->empty())
        hosts.push_back(*std::move(host));
  }
  return hosts;
}

bool is_in_gateway_domains(std::string_view host, const GatewayNameSettings& settings) {
  const std::string_view name = has_wildcard(host) ? host.substr(2) : host;
  return settings.domains.empty() ||
         std::ranges::any_of(settings.domains,
                             [&](const std::string& d) { return is_at_or_below(name, d); });
}

}  // namespace meshdns::registry
