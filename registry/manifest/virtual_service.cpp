// SPDX-License-Identifier: Apache-2.0
// networking.istio.io VirtualService, as far as explanations of connections name it.  It changes no
// answer, so nothing in its spec is refused: what cannot be read is left out, with a warning.
#include <algorithm>
#include <array>
#include <limits>

#include "registry/base/host_name.hpp"
#include "registry/manifest/object.hpp"

namespace meshdns::registry {

namespace {

constexpr std::string_view kMesh = "mesh";
// Conditions of one match that are told in words.
constexpr std::size_t kMaxConditions = 16;

struct LayerField {
  std::string_view name;
  RouteLayer layer;
};
constexpr std::array kLayers = {LayerField{"http", RouteLayer::Http},
                                LayerField{"tls", RouteLayer::Tls},
                                LayerField{"tcp", RouteLayer::Tcp}};

// Conditions of an HTTP match that a connection alone cannot meet; those with a StringMatch.
constexpr auto& kTextConditions = words<"uri scheme method authority">;
constexpr std::array<std::string_view, 2> kKeyedConditions = {"headers", "queryParams"};

void append(std::string& list, std::string_view text) {
  if (!list.empty()) list += ", ";
  list += text;
}

// `uri prefix "/v2"`; "header end-user" where the presence suffices.
std::string describe_condition(std::string_view what, const Node& condition) {
  for (const std::string_view type : {"exact", "prefix", "regex"})
    if (const Node* const value = condition.find(type); value != nullptr && value->is_scalar())
      return std::string(what) + " " + std::string(type) + " " + in_quotes(value->value());
  return std::string(what);
}

class VirtualServiceReader {
 public:
  VirtualServiceReader(Report& report, const Field& spec) : report_(report), spec_(spec) {}

  VirtualService read() {
    for_each_of(report_, spec_, "hosts", [&](const Field& at) {
      const std::string host = canonical_host(at->value());
      if (host.empty()) return warn(at, "is not a host; it is left out");
      service_.hosts.push_back(host);
    });
    for_each_of(report_, spec_, "exportTo", [&](const Field& at) {
      if (!at->value().empty()) service_.export_to.push_back(to_lower(at->value()));
    });
    for (const LayerField& layer : kLayers) read_layer(layer);
    // One for gateways alone routes no host of the mesh, whatever its matches name.
    if (!names_mesh(spec_.node()).value_or(true)) service_.hosts.clear();
    return std::move(service_);
  }

 private:
  void warn(const Field& at, std::string message) { report_.warning(at, std::move(message)); }

  // Whether `gateways` has "mesh"; nullopt when there are none.
  static std::optional<bool> names_mesh(const Node& object) {
    const Node* const gateways = object.find("gateways");
    if (gateways == nullptr || !gateways->is_sequence() || gateways->size() == 0)
      return std::nullopt;
    return std::ranges::any_of(*gateways, [](const Node& name) { return name.value() == kMesh; });
  }

  void read_layer(const LayerField& layer) {
    std::uint32_t position = 0;
    for_each_of(report_, spec_, layer.name, [&](const Field& at) {
      TrafficRoute route;
      route.layer = layer.layer;
      route.position = position++;
      if (!at->is_mapping()) return warn(at, "is not a mapping; the route is left out");
      if (!read_matches(at, route)) return;
      read_targets(at, route);
      service_.routes.push_back(std::move(route));
    });
  }

  // Returns whether the route is for the mesh.
  bool read_matches(const Field& at, TrafficRoute& route) {
    route.name = member_text(at.node(), "name");
    bool has_any = false;
    for_each_of(report_, at, "match", [&](const Field& match) {
      has_any = true;
      if (names_mesh(match.node()).value_or(true)) route.matches.push_back(read_match(match));
    });
    return !has_any || !route.matches.empty();
  }

  RouteMatch read_match(const Field& at) {
    RouteMatch match;
    match.port = member_port(at.node(), "port");
    match.source_namespace = member_text(at.node(), "sourceNamespace");
    if (const Node* const labels = at->find("sourceLabels")) {
      for (const Node& label : *labels)
        match.source_labels.emplace_back(label.key(), label.value());
      std::ranges::sort(match.source_labels);
    }
    for_each_of(report_, at, "sniHosts", [&](const Field& host) {
      match.sni_hosts.push_back(canonical_host(host->value()));
    });
    for_each_of(report_, at, "destinationSubnets", [&](const Field& subnet) {
      const auto prefix = IpPrefix::parse(subnet->value());
      if (!prefix) return warn(subnet, in_quotes(subnet->value()) + " is not an address range");
      match.subnets.push_back(*prefix);
    });
    match.request = conditions_of(at.node());
    return match;
  }

  // The conditions that only a request can show.
  static std::string conditions_of(const Node& match) {
    std::string text;
    std::size_t count = 0;
    const auto add = [&](const std::string& condition) {
      if (++count <= kMaxConditions) append(text, condition);
      if (count == kMaxConditions + 1) append(text, "and more");
    };
    for (const std::string_view name : kTextConditions)
      if (const Node* const value = match.find(name)) add(describe_condition(name, *value));
    for (const std::string_view name : kKeyedConditions)
      if (const Node* const values = match.find(name))
        for (const Node& value : *values)
          add(describe_condition(std::string(name == "headers" ? "header " : "query parameter ") +
                                     printable(value.key(), kMaxHostLength),
                                 value));
    if (const Node* const headers = match.find("withoutHeaders"))
      for (const Node& value : *headers)
        add("not " + describe_condition("header " + printable(value.key(), kMaxHostLength), value));
    return text;
  }

  void read_targets(const Field& at, TrafficRoute& route) {
    for (const std::string_view action : {"redirect", "directResponse"})
      if (at->find(action) != nullptr) route.action = action;
    if (const Node* const other = at->find("delegate")) {
      const std::string_view ns = member_text(*other, "namespace");
      route.action = "delegate VirtualService ";
      route.action += ns.empty() ? std::string_view("(own namespace)") : ns;
      route.action += "/";
      route.action += member_text(*other, "name");
    }
    for_each_of(report_, at, "route", [&](const Field& field) {
      const Node* const destination = field->find("destination");
      if (destination == nullptr) return warn(field, "has no destination; it is left out");
      RouteTarget target;
      target.host = canonical_host(member_text(*destination, "host"));
      target.subset = member_text(*destination, "subset");
      if (const Node* const port = destination->find("port"))
        target.port = member_port(*port, "number");
      const Node* const weight = field->find("weight");
      target.weight = static_cast<std::uint32_t>(
          std::clamp<std::int64_t>(weight == nullptr ? 0 : weight->as_integer().value_or(0), 0,
                                   std::numeric_limits<std::uint32_t>::max()));
      route.targets.push_back(std::move(target));
    });
  }

  Report& report_;
  const Field& spec_;
  VirtualService service_;
};

}  // namespace

Resource read_virtual_service(Object& object) {
  VirtualService service;
  if (const Node* const spec = object.root->find("spec"); spec != nullptr && spec->is_mapping())
    service = VirtualServiceReader(object.report, Field(object.root, *spec)).read();
  else
    object.report.warning(object.root, "has no spec; no connection is explained by it");
  service.meta = std::move(object.meta);
  return service;
}

}  // namespace meshdns::registry
