// SPDX-License-Identifier: Apache-2.0
// gateway.networking.k8s.io Gateway, HTTPRoute, TLSRoute and GRPCRoute, and networking.k8s.io
// Ingress, as far as they give names to addresses.
#include <algorithm>
#include <array>

#include "registry/base/host_name.hpp"
#include "registry/manifest/dns_annotations.hpp"
#include "registry/model/labels.hpp"

namespace meshdns::registry {
namespace {

constexpr std::string_view kGatewayGroup = "gateway.networking.k8s.io";
// The API's own limits.
constexpr std::size_t kMaxListeners = 64;
constexpr std::size_t kMaxParents = 32;
constexpr std::size_t kMaxAddresses = 16;
// Istio's class of Gateways that nothing is deployed for.
constexpr std::string_view kRemoteClass = "istio-remote";
// The class of an Ingress before spec.ingressClassName; controllers still honour it.
constexpr std::string_view kOldClass = "kubernetes.io/ingress.class";

// A requirement that cannot be read selects nothing: it must not let more routes in than it says.
LabelRequirement requirement_of(const Node& node) {
  using Operator = LabelRequirement::Operator;
  constexpr std::array<std::pair<std::string_view, Operator>, 4> kOperators = {
      {{"In", Operator::In},
       {"NotIn", Operator::NotIn},
       {"Exists", Operator::Exists},
       {"DoesNotExist", Operator::DoesNotExist}}};
  LabelRequirement requirement;
  requirement.key = member_text(node, "key");
  requirement.op = Operator::In;
  const std::string_view word = member_text(node, "operator");
  for (const auto& [name, op] : kOperators)
    if (word == name) requirement.op = op;
  if (const Node* const values = node.find("values"); values != nullptr && values->is_sequence())
    for (const Node& value : *values) requirement.values.emplace_back(value.value());
  return requirement;
}

LabelSelector selector_of(const Node* node) {
  LabelSelector selector;
  if (node == nullptr || !node->is_mapping()) {
    // The API asks for a selector; without one nobody is selected.
    selector.match_expressions.push_back({"", LabelRequirement::Operator::In, {}});
    return selector;
  }
  selector.match_labels = member_labels(*node, "matchLabels");
  if (const Node* const all = node->find("matchExpressions"); all != nullptr && all->is_sequence())
    for (const Node& each : *all) selector.match_expressions.push_back(requirement_of(each));
  return selector;
}

std::vector<Kind> kinds_of_protocol(std::string_view protocol) {
  if (protocol == "HTTP" || protocol == "HTTPS") return {Kind::HttpRoute, Kind::GrpcRoute};
  if (protocol == "TLS") return {Kind::TlsRoute};
  return {};
}

std::vector<Kind> allowed_kinds(const Node& listener) {
  std::vector<Kind> usual = kinds_of_protocol(member_text(listener, "protocol"));
  const Node* const allowed = find_below(listener, {"allowedRoutes", "kinds"});
  if (allowed == nullptr || !allowed->is_sequence() || allowed->size() == 0) return usual;
  std::vector<Kind> kinds;
  for (const Node& each : *allowed) {
    const std::string_view group = member_text(each, "group");
    if (!group.empty() && group != kGatewayGroup) continue;
    for (const Kind kind : usual)
      if (to_string(kind) == member_text(each, "kind")) kinds.push_back(kind);
  }
  return kinds;
}

RouteNamespaces namespaces_of(const Node* from) {
  if (from == nullptr || from->is_null() || from->value() == "Same") return RouteNamespaces::Same;
  if (from->value() == "All") return RouteNamespaces::All;
  return from->value() == "Selector" ? RouteNamespaces::Selector : RouteNamespaces::None;
}

GatewayListener read_listener(Report& report, const Field& at) {
  GatewayListener listener;
  listener.name = member_text(at.node(), "name");
  listener.port = member_port(at.node(), "port");
  listener.kinds = allowed_kinds(at.node());
  listener.from = namespaces_of(find_below(at.node(), {"allowedRoutes", "namespaces", "from"}));
  if (listener.from == RouteNamespaces::Selector)
    listener.namespaces =
        selector_of(find_below(at.node(), {"allowedRoutes", "namespaces", "selector"}));
  std::vector<std::string> names;
  if (const Node* const host = at->find("hostname"); host != nullptr && !host->is_null()) {
    add_gateway_name(report, Field(at, *host), names);
    // A name that is none must not stand for all names.
    if (names.empty() && !host->value().empty()) listener.from = RouteNamespaces::None;
  }
  if (!names.empty()) listener.hostname = std::move(names.front());
  return listener;
}

// Calls `visit` for the elements of a list in the spec, which may be absent.
template <typename Visit>
void for_each_in_spec(Object& object, std::string_view name, const Visit& visit) {
  if (const Node* const spec = object.root->find("spec"))
    for_each_of(object.report, Field(object.root, *spec), name, visit);
}

void read_listeners(Object& object, Gateway& gateway) {
  for_each_in_spec(object, "listeners", [&](const Field& at) {
    if (gateway.listeners.size() < kMaxListeners)
      gateway.listeners.push_back(read_listener(object.report, at));
  });
}

bool is_gateway_ref(const Node& ref) {
  const Node* const group = ref.find("group");
  const Node* const kind = ref.find("kind");
  return (group == nullptr || group->is_null() || group->value() == kGatewayGroup) &&
         (kind == nullptr || kind->is_null() || kind->value() == "Gateway");
}

GatewayRef ref_of_gateway(const Node& node, std::string_view own_namespace) {
  GatewayRef ref;
  const std::string_view ns = member_text(node, "namespace");
  ref.ns = ns.empty() ? own_namespace : ns;
  ref.name = member_text(node, "name");
  ref.section = member_text(node, "sectionName");
  ref.port = member_port(node, "port");
  return ref;
}

// A parent may have the statuses of several controllers, of which only its own knows it.
void drop_refused_parents(Object& object, std::vector<GatewayRef>& parents) {
  const Node* const statuses = find_below(object.root.node(), {"status", "parents"});
  if (statuses == nullptr || !statuses->is_sequence()) return;
  std::erase_if(parents, [&](const GatewayRef& parent) {
    bool is_refused = false;
    for (const Node& status : *statuses) {
      const Node* const ref = status.find("parentRef");
      if (ref == nullptr || !is_gateway_ref(*ref)) continue;
      if (ref_of_gateway(*ref, object.meta.ns) != parent) continue;
      if (find_condition(&status, "Accepted", "False") == nullptr) return false;
      is_refused = true;
    }
    return is_refused;
  });
}

Resource read_route(Object& object, Kind kind) {
  GatewayRoute route;
  route.kind = kind;
  for_each_in_spec(object, "hostnames",
                   [&](const Field& at) { add_gateway_name(object.report, at, route.hostnames); });
  bool has_hostnames = false;
  for_each_in_spec(object, "hostnames", [&](const Field&) { has_hostnames = true; });
  // Without a name that can be read, a route must not take those of its listeners.
  if (!has_hostnames || !route.hostnames.empty())
    for_each_in_spec(object, "parentRefs", [&](const Field& at) {
      if (is_gateway_ref(at.node()) && route.parents.size() < kMaxParents)
        route.parents.push_back(ref_of_gateway(at.node(), object.meta.ns));
    });
  drop_refused_parents(object, route.parents);
  route.dns = read_dns_annotations(object).value_or(DnsAnnotations());
  route.meta = std::move(object.meta);
  return route;
}

// As in Istio, the gateway of a network that another cluster has.
void read_remote_addresses(Object& object, Gateway& gateway) {
  const std::string_view network = network_label(object.meta.labels);
  if (gateway.class_name != kRemoteClass || network.empty()) return;
  for_each_in_spec(object, "addresses", [&](const Field& at) {
    const std::string_view type = member_text(at.node(), "type");
    const auto ip = IpAddress::parse(member_text(at.node(), "value"));
    if ((type.empty() || type == "IPAddress") && ip && !ip->is_unspecified()) {
      if (gateway.remote_addresses.size() < kMaxAddresses) gateway.remote_addresses.push_back(*ip);
    } else {
      object.report.warning(at,
                            "is no IP address: only these can be answered as gateways of network " +
                                in_quotes(std::string(network)) + ", and this one is left out");
    }
  });
}

}  // namespace

Resource read_gateway(Object& object) {
  Gateway gateway;
  if (const Node* const name = find_below(object.root.node(), {"spec", "gatewayClassName"}))
    gateway.class_name = name->value();
  read_listeners(object, gateway);
  std::vector<std::string> own;
  add_status_addresses(find_below(object.root.node(), {"spec", "addresses"}), {"value"}, own);
  std::ranges::copy_if(own, std::back_inserter(gateway.spec_hosts),
                       [](const std::string& text) { return !IpAddress::parse(text); });
  add_status_addresses(find_below(object.root.node(), {"status", "addresses"}), {"value"},
                       gateway.addresses);
  read_remote_addresses(object, gateway);
  gateway.dns = read_dns_annotations(object).value_or(DnsAnnotations());
  gateway.meta = std::move(object.meta);
  return gateway;
}

Resource read_http_route(Object& object) { return read_route(object, Kind::HttpRoute); }
Resource read_tls_route(Object& object) { return read_route(object, Kind::TlsRoute); }
Resource read_grpc_route(Object& object) { return read_route(object, Kind::GrpcRoute); }

Resource read_ingress(Object& object) {
  const Node& root = object.root.node();
  Ingress ingress;
  if (const auto name = object.annotation(kOldClass)) ingress.class_name = *name;
  if (const Node* const name = find_below(root, {"spec", "ingressClassName"}))
    ingress.class_name = name->value();
  // The hosts of spec.tls are those of certificates.
  if (const Node* const rules = find_below(root, {"spec", "rules"});
      rules != nullptr && rules->is_sequence())
    for_each_in_spec(object, "rules", [&](const Field& at) {
      if (const Node* const host = at->find("host"))
        add_gateway_name(object.report, Field(at, *host), ingress.hosts);
    });
  add_status_addresses(find_below(root, {"status", "loadBalancer", "ingress"}), {"ip", "hostname"},
                       ingress.addresses);
  ingress.dns = read_dns_annotations(object).value_or(DnsAnnotations());
  ingress.meta = std::move(object.meta);
  return ingress;
}

}  // namespace meshdns::registry
