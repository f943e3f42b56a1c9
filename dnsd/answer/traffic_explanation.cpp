// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/explanation.hpp"

#include <fmt/format.h>

#include "dnsd/answer/json_members.hpp"

namespace meshdns::dnsd {
namespace {

std::string describe(const registry::Connection& connection) {
  const std::string ip = connection.address.to_string();
  std::string text = connection.address.is_v4() ? fmt::format("{}:{}", ip, connection.port)
                                                : fmt::format("[{}]:{}", ip, connection.port);
  if (!connection.server_name.empty()) text += ", server name " + connection.server_name;
  if (!connection.http_host.empty()) text += ", Host " + connection.http_host;
  return text;
}

std::vector<std::string> sources_of(const registry::View& view,
                                    const registry::ServiceRecord& service) {
  std::vector<std::string> sources;
  service.for_each_source([&](const registry::StoredRef& source) {
    sources.push_back(place_of(view.snapshot(), source));
  });
  return sources;
}

}  // namespace

std::vector<std::string> traffic_lines(const registry::View& view,
                                       const registry::Connection& connection,
                                       const registry::TrafficMatch& match) {
  std::vector<std::string> lines{"connection: " + describe(connection),
                                 "client: " + identity_of(view.client())};
  using Rule = registry::TrafficMatch::Rule;
  if (match.rule == Rule::Dropped) {
    lines.push_back("dropped: REGISTRY_ONLY: no service matches, and outboundTrafficPolicy of " +
                    outbound_policy_of(view.snapshot(), view.client()) + " lets nothing else pass");
  } else if (match.service == nullptr) {
    lines.push_back("passthrough: no service matches; it goes to the address itself");
  } else {
    lines.push_back(fmt::format("service: {} port {} {} {}, by {}", match.host, match.port.number,
                                match.port.protocol, match.port.name, to_string(match.rule)));
    for (const std::string& source : sources_of(view, *match.service))
      lines.push_back("source: " + source);
    for (const std::string& endpoint : match.endpoints) lines.push_back("endpoint: " + endpoint);
  }
  for (const registry::RouteMatched& route : match.routes)
    lines.push_back("virtual service: " + place_of(view.snapshot(), route.virtual_service) + ", " +
                    route.text);
  for (const std::string& note : match.notes) lines.push_back("note: " + note);
  return lines;
}

std::string traffic_json(const registry::View& view, const registry::Connection& connection,
                         const registry::TrafficMatch& match) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  put(json, "connection", describe(connection));
  put(json, "client", identity_of(view.client()));
  put(json, "rule", std::string(to_string(match.rule)));
  if (match.rule == registry::TrafficMatch::Rule::Dropped)
    put(json, "registry_only_by", outbound_policy_of(view.snapshot(), view.client()));
  if (match.service != nullptr) {
    put(json, "host", match.host);
    json.Key("port");
    json.Uint(match.port.number);
    put(json, "port_name", match.port.name);
    put(json, "protocol", match.port.protocol);
    put(json, "sources", sources_of(view, *match.service));
    put(json, "endpoints", match.endpoints);
  }
  json.Key("virtual_services");
  json.StartArray();
  for (const registry::RouteMatched& route : match.routes) {
    json.StartObject();
    put(json, "source", place_of(view.snapshot(), route.virtual_service));
    put(json, "route", route.text);
    json.EndObject();
  }
  json.EndArray();
  put(json, "notes", match.notes);
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace meshdns::dnsd
