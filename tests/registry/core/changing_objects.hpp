// SPDX-License-Identifier: Apache-2.0
// The objects of worlds that change, each in some forms, and all that their clients are answered.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {

struct ObjectForms {
  std::string head;                // kind, metadata: {name, namespace
  std::vector<std::string> forms;  // the rest of the metadata, and what follows
  std::string cluster = "east";
};

// Forty addresses: as many endpoints have an index.
inline std::string many_endpoints(std::string_view prefix, std::string_view more = "") {
  std::string text = "endpoints: [";
  for (int i = 1; i <= 40; ++i)
    text += "{addresses: [" + std::string(prefix) + std::to_string(i) +
            "], targetRef: {kind: Pod, name: p" + std::to_string(i) + "}" + std::string(more) +
            "},";
  return text + "]";
}

inline std::vector<ObjectForms> changing_objects() {
  const std::string slice = "EndpointSlice, metadata: {name: ";
  const std::string http = ", ports: [{name: http, port: 80}]}";
  std::vector<ObjectForms> objects = {
      {"Namespace, metadata: {name: shop",
       {"}", ", labels: {tier: low}}", ", labels: {istio.io/traffic-distribution: PreferSameZone}}",
        ", annotations: {networking.istio.io/traffic-distribution: PreferSameZone}}"}},
      {"Namespace, metadata: {name: bank", {"}", ", labels: {tier: low}}"}},
      {"Namespace, metadata: {name: istio-system",
       {"}", ", labels: {topology.istio.io/network: net-1}}",
        ", labels: {topology.istio.io/network: net-2}}"}},
      {"Node, metadata: {name: node-1",
       {", labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: z1}}",
        ", labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: z2}}"}},
      {"Node, metadata: {name: node-1",
       {", labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: z2}}"},
       ""},
      {"Node, metadata: {name: node-2",
       {", labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: z1}}",
        ", labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: z2}}"}},
      {"Service, metadata: {name: db, namespace: shop",
       {"}, spec: {clusterIP: None" + http, "}, spec: {clusterIP: 10.96.0.1" + http,
        "}, spec: {clusterIP: None, trafficDistribution: PreferSameZone" + http,
        "}, spec: {type: ExternalName, externalName: api.example.org}"}},
      {"Service, metadata: {name: db, namespace: shop",
       {"}, spec: {clusterIP: None" + http, "}, spec: {clusterIP: 10.97.0.1" + http},
       "west"},
      {"Service, metadata: {name: api, namespace: bank",
       {"}, spec: {clusterIP: 10.96.0.2" + http,
        ", annotations: {networking.istio.io/exportTo: \".\"}}, spec: {clusterIP: 10.96.0.2" +
            http}},
      {"Service, metadata: {name: gw, namespace: istio-system",
       {", labels: {topology.istio.io/network: net-2}}, spec: {type: LoadBalancer, clusterIP: "
        "10.96.0.9" +
            http.substr(0, http.size() - 1) +
            "}, status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}",
        ", labels: {topology.istio.io/network: net-2}}, spec: {type: LoadBalancer, clusterIP: "
        "10.96.0.9" +
            http.substr(0, http.size() - 1) +
            "}, status: {loadBalancer: {ingress: [{ip: 192.0.2.2}]}}",
        ", labels: {gateway.networking.k8s.io/gateway-name: web}}, spec: {clusterIP: "
        "10.96.0.9" +
            http}},
      {"Service, metadata: {name: web-istio, namespace: istio-system",
       {"}, spec: {clusterIP: 10.96.0.10" + http, "}, spec: {clusterIP: 10.96.0.11" + http}},
      {slice + "db-1, namespace: shop, labels: {kubernetes.io/service-name: db}",
       {"}, addressType: IPv4, ports: [{name: http, port: 80, protocol: TCP}], endpoints: "
        "[{addresses: [10.1.0.1], "
        "hostname: db-0, targetRef: {kind: Pod, name: p1}, nodeName: node-1}, {addresses: "
        "[10.1.0.2], conditions: "
        "{ready: false}, targetRef: {kind: Pod, name: p2}, nodeName: node-2}]",
        "}, addressType: IPv4, ports: [{name: http, port: 80, protocol: TCP}], endpoints: "
        "[{addresses: [10.1.0.1], "
        "targetRef: {kind: Pod, name: p1}, nodeName: node-1}, {addresses: [10.1.0.2], targetRef: "
        "{kind: Pod, name: "
        "p2}, nodeName: node-2}]",
        "}, addressType: IPv4, ports: [{name: sql, port: 81, protocol: TCP}], " +
            many_endpoints("10.1.0.", ", nodeName: node-1")}},
      {slice + "db-2, namespace: shop, labels: {kubernetes.io/service-name: db}",
       {"}, addressType: IPv6, ports: [{name: http, port: 80, protocol: TCP}], endpoints: "
        "[{addresses: "
        "[\"fd00::1\"], targetRef: {kind: Pod, name: p1}}]",
        "}, addressType: IPv4, ports: [{name: http, port: 80, protocol: TCP}], " +
            many_endpoints("10.2.0.")},
       "west"},
      {"ServiceExport, metadata: {name: db, namespace: shop", {"}"}},
      {"ServiceExport, metadata: {name: db, namespace: shop", {"}"}, "west"},
      {"ServiceExport, metadata: {name: api, namespace: bank", {"}"}},
      {"Pod, metadata: {name: p1, namespace: shop",
       {", labels: {app: x}}, spec: {nodeName: node-1}, status: {phase: Running, podIP: 10.1.0.1, "
        "podIPs: [{ip: "
        "10.1.0.1}, {ip: \"fd00::1\"}]}",
        ", labels: {app: y, topology.istio.io/network: net-2}}, spec: {nodeName: node-2}, status: "
        "{phase: Running, podIP: 10.1.0.1}",
        ", labels: {app: x}, deletionTimestamp: \"2026-01-01T00:00:00Z\"}, spec: {nodeName: "
        "node-1}, status: {phase: "
        "Running, podIP: 10.1.0.1}"}},
      {"Pod, metadata: {name: p2, namespace: shop",
       {", labels: {app: x, topology.istio.io/network: net-2}}, spec: {nodeName: node-2}, status: "
        "{phase: Running, podIP: 10.1.0.2, "
        "conditions: [{type: Ready, status: \"True\"}]}",
        ", labels: {app: x}}, spec: {nodeName: node-2, hostNetwork: true}, status: {phase: "
        "Running, podIP: 10.1.0.2}",
        "}, spec: {}, status: {phase: Succeeded, podIP: 10.1.0.2}"}},
      {"Pod, metadata: {name: q, namespace: bank",
       {"}, spec: {}, status: {phase: Running, podIP: 10.1.0.1}",
        ", deletionTimestamp: \"2026-01-01T00:00:00Z\"}, spec: {}, status: {phase: Running, podIP: "
        "10.1.0.1}"}},
      {"WorkloadEntry, metadata: {name: vm, namespace: shop",
       {", labels: {app: x}}, spec: {address: 10.3.0.1, network: net-2, locality: r/z1}",
        ", labels: {app: y}}, spec: {address: 10.3.0.1}",
        ", labels: {app: x}}, spec: {address: vm.example.org}"}},
      {"Sidecar, metadata: {name: own, namespace: bank",
       {"}, spec: {egress: [{hosts: [\"./*\"]}]}",
        "}, spec: {outboundTrafficPolicy: {mode: REGISTRY_ONLY}, egress: [{hosts: [\"shop/*\", "
        "\"istio-system/*\"]}]}",
        "}, spec: {egress: [{port: {number: 81, protocol: TCP, name: tcp}, hosts: [\"*/*\"]}]}"}},
      {"Sidecar, metadata: {name: default, namespace: istio-system",
       {"}, spec: {egress: [{hosts: [\"./*\", \"istio-system/*\"]}]}",
        "}, spec: {egress: [{hosts: [\"*/*\"]}]}"}},
      {"Sidecar, metadata: {name: x, namespace: shop",
       {"}, spec: {workloadSelector: {labels: {app: x}}, egress: [{hosts: [\"bank/*\"]}]}"}},
      {"ServiceEntry, metadata: {name: one, namespace: shop, creationTimestamp: "
       "\"2026-01-01T00:00:00Z\"",
       {"}, spec: {hosts: [api.example.org, db.bank], addresses: [10.5.0.1], resolution: STATIC, "
        "ports: [{number: 80, "
        "name: http, protocol: HTTP}]}",
        "}, spec: {hosts: [api.example.org], resolution: STATIC, ports: [{number: 81, name: sql, "
        "protocol: TCP}], "
        "workloadSelector: {labels: {app: x}}}",
        "}, spec: {hosts: [api.example.org], exportTo: [\".\"], resolution: STATIC}, status: "
        "{addresses: [{host: "
        "api.example.org, value: 240.240.0.1}, {host: api.example.org, value: 240.240.0.2}]}"}},
      {"ServiceEntry, metadata: {name: two, namespace: bank, creationTimestamp: "
       "\"2026-01-02T00:00:00Z\"",
       {"}, spec: {hosts: [api.example.org, \"*.example.org\"], addresses: [10.5.0.2], resolution: "
        "STATIC}",
        "}, spec: {hosts: [other.example.org, api.example.org], resolution: STATIC}, status: "
        "{addresses: [{value: 240.240.0.1}]}",
        "}, spec: {hosts: [db.shop.svc.cluster.local, db.shop], addresses: [10.5.0.3], exportTo: "
        "[\"*\"], resolution: STATIC}",
        "}, spec: {hosts: [api.example.org], exportTo: [shop, bank], resolution: STATIC, "
        "endpoints: [{address: "
        "10.6.0.1, network: net-1}, {address: 10.6.0.2, network: net-2, locality: r/z2}, {address: "
        "\"fd00::6\"}]}"}},
      {"ServiceEntry, metadata: {name: names, namespace: shop",
       {"}, spec: {hosts: [names.example.org], resolution: DNS, endpoints: [{address: "
        "a.example.net}, {address: "
        "b.example.net}]}",
        "}, spec: {hosts: [names.example.org], resolution: DNS_ROUND_ROBIN, endpoints: [{address: "
        "a.example.net}]}"}},
      {"ConfigMap, metadata: {name: istio, namespace: istio-system",
       {"}, data: {mesh: 'defaultServiceExportTo: [\".\"]'}",
        "}, data: {mesh: \"{}\", meshNetworks: 'networks: {net-2: {endpoints: [{fromRegistry: "
        "west}], gateways: "
        "[{address: 192.0.2.7, port: 15443}]}}'}"}},
      {"Gateway, metadata: {name: web, namespace: istio-system",
       {"}, spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP, "
        "hostname: "
        "\"*.gw.example.org\", allowedRoutes: {namespaces: {from: All}}}, {name: own, port: 81, "
        "protocol: HTTP, hostname: own.gw.example.org}]}",
        "}, spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP, "
        "allowedRoutes: "
        "{namespaces: {from: Selector, selector: {matchLabels: {tier: low}}}}}]}, status: "
        "{addresses: [{type: "
        "IPAddress, value: 192.0.2.5}]}"}},
      {"HTTPRoute, metadata: {name: route, namespace: shop",
       {"}, spec: {parentRefs: [{name: web, namespace: istio-system}], hostnames: "
        "[a.gw.example.org, api.example.org]}",
        "}, spec: {parentRefs: [{name: web, namespace: istio-system}], hostnames: "
        "[b.gw.example.org, com]}"}},
      {"Ingress, metadata: {name: in, namespace: bank",
       {"}, spec: {rules: [{host: in.example.com}]}, status: {loadBalancer: {ingress: [{ip: "
        "192.0.2.3}]}}",
        "}, spec: {rules: [{host: in.example.com}]}, status: {loadBalancer: {ingress: [{ip: "
        "192.0.2.4}]}}"}},
  };
  return objects;
}

inline Resource object_in_form(const ObjectForms& object, std::size_t form) {
  CollectingSink sink;
  ManifestOptions options;
  options.cluster = object.cluster;
  options.gateway_kinds = {Kind::Gateway, Kind::HttpRoute, Kind::Ingress, Kind::Service};
  const std::string text =
      "{apiVersion: " + api_version_of(object.head.substr(0, object.head.find(','))) +
      ", kind: " + object.head + object.forms[form] + "}";
  EXPECT_TRUE(read_manifest(text, options, sink)) << text;
  EXPECT_EQ(sink.resources.size(), 1U) << text;
  return std::move(sink.resources.at(0));
}

inline MeshSettings changing_settings(unsigned variant) {
  MeshSettings settings;
  settings.gateway_names.kinds = {Kind::Gateway, Kind::HttpRoute, Kind::Ingress, Kind::Service};
  settings.claims = variant % 2 == 0 ? Claims::Istio : Claims::Strict;
  settings.networks = variant % 3 == 0 ? NetworkChoice::Reachable : NetworkChoice::Gateways;
  settings.locality = variant % 4 == 0 ? LocalityChoice::Off : LocalityChoice::First;
  settings.clusters = variant % 5 == 0   ? ClusterChoice::Merge
                      : variant % 5 == 1 ? ClusterChoice::LocalOnly
                                         : ClusterChoice::LocalFirst;
  settings.pods = variant % 2 == 0 ? PodNames::Verified : PodNames::Insecure;
  settings.endpoint_pod_names = variant % 3 == 1;
  settings.reverse_zones = {"10.in-addr.arpa"};
  if (variant % 2 == 0)
    settings.service_entry_visibility.policies.push_back(
        {Visibility::Namespace, {LabelSelector{{{"tier", "low"}}, {}}}});
  return settings;
}

inline ClientSettings changing_clients() {
  ClientIdentity daemon;
  daemon.ns = "bank";
  daemon.cluster = "east";
  daemon.node = "node-1";
  return {daemon, true, UnknownClient::Default, {"shop"}};
}

inline const char* const kChangingNames[] = {"api.example.org",
                                             "x.example.org",
                                             "other.example.org",
                                             "names.example.org",
                                             "db.shop.svc.cluster.local",
                                             "db-0.db.shop.svc.cluster.local",
                                             "p3.db.shop.svc.cluster.local",
                                             "10-1-0-2.db.shop.svc.cluster.local",
                                             "api.bank.svc.cluster.local",
                                             "db.shop.svc.clusterset.local",
                                             "api.bank.svc.clusterset.local",
                                             "db.bank",
                                             "db.shop",
                                             "db",
                                             "api",
                                             "a.gw.example.org",
                                             "b.gw.example.org",
                                             "own.gw.example.org",
                                             "com",
                                             "in.example.com",
                                             "gw.istio-system.svc.cluster.local",
                                             "_http._tcp.db.shop"};
inline const char* const kChangingAddresses[] = {
    "10.1.0.1",    "10.1.0.2", "10.1.0.3",  "10.2.0.3",  "10.3.0.1",  "10.5.0.1",
    "10.5.0.2",    "10.5.0.3", "10.96.0.1", "10.97.0.1", "10.96.0.2", "240.240.0.1",
    "240.240.0.2", "10.7.0.1", "fd00::1",   "192.0.2.9"};

// Returns a line for each answer that a client gets.
inline std::vector<std::string> all_answers(const Registry& registry) {
  const auto& snapshot = registry.current();
  std::vector<std::string> lines;
  const auto ask_as = [&](const std::string& who, const Client& client) {
    const View view(*snapshot, client);
    std::string head = who + " (" + client.identity.description + " " +
                       (client.network ? std::string(client.network->text()) : "") + " " +
                       (client.place.zone ? std::string(client.place.zone->text()) : "") +
                       (client.is_registry_only ? " REGISTRY_ONLY" : "") + ") ";
    for (const char* const name : kChangingNames) {
      const Match match = view.lookup(name);
      std::string line = head + name + ": " + TestRegistry::describe(view, match);
      std::set<std::string> endpoints;
      if (match && match.service->endpoints() != nullptr)
        for (const EndpointEntry& entry : match.service->endpoints()->entries)
          endpoints.insert(entry.address.to_string() + (entry.ready ? "" : "!") +
                           (view.reaches(entry) ? "" : " unreached"));
      for (const std::string& endpoint : endpoints) line += " " + endpoint;
      if (match && match.service->ports)
        for (const auto number : match.service->ports->numbers)
          line += " :" + std::to_string(number);
      lines.push_back(std::move(line));
    }
    for (const char* const address : kChangingAddresses) {
      std::string line = head + address + ":";
      for (const auto& name : view.reverse(*IpAddress::parse(address))) line += " " + name.name;
      lines.push_back(std::move(line));
    }
    for (const char* const name :
         {"shop.svc.cluster.local", "bank.svc.cluster.local", "0.96.10.in-addr.arpa"})
      lines.push_back(head + name + (view.is_empty_non_terminal(name) ? " exists" : " does not"));
    for (const char* const address : {"10.1.0.1", "10.1.0.2"})
      lines.push_back(
          head + address +
          (view.pod_exists(*IpAddress::parse(address), "shop") ? " is a Pod" : " is none"));
  };
  if (snapshot->sources.policies_unknown) lines.emplace_back("the policies are unknown");
  ask_as("default", *snapshot->default_client);
  for (const char* const address : {"10.1.0.1", "10.1.0.2", "10.3.0.1"})
    if (const Client* const client = snapshot->client_at(*IpAddress::parse(address)))
      ask_as(address, *client);
    else
      lines.push_back(std::string(address) + " is nobody");
  return lines;
}

}  // namespace meshdns::registry
