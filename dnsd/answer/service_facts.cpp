// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/explanation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/counted.hpp"
#include "registry/base/did_you_mean.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

using registry::AnswerKind;
using registry::EndpointEntry;
using registry::EndpointList;
using registry::Match;
using registry::ServiceRecord;
using registry::View;

// A headless Service may have thousands.
constexpr std::size_t kMaxShown = 5;

std::string describe_match(const Match& match) {
  const std::string_view host = match.entry->host();
  if (match.how == Match::How::Below) return fmt::format("match: {} below {}", match.below, host);
  return fmt::format("match: {} {}", to_string(match.how), host);
}

// The first of `items`, and how many more of the `count` there are.
template <typename Items>
std::string list_of(const Items& items, std::size_t count) {
  const std::size_t shown = std::min(items.size(), kMaxShown);
  std::string text = fmt::format(
      "{}", fmt::join(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return count > shown ? text + fmt::format(" and {} more", count - shown) : text;
}

std::string describe_exports(const ServiceRecord& service) {
  if (service.is_public()) return "visible: exported to every namespace";
  std::vector<std::string_view> names;
  for (const auto& ns : service.exports->namespaces) names.push_back(ns->text());
  std::ranges::sort(names);
  return "visible: exported to " + list_of(names, names.size());
}

std::string_view describe_forwarded(const View& view, const ServiceRecord& service) {
  if (service.resolution == registry::Resolution::None)
    return "left to the upstream: no address, and resolution NONE does not look one up";
  if (!view.settings().endpoint_answers)
    return "left to the upstream: no address, and mesh.endpoint_answers is false";
  return "left to the upstream: neither an address nor a usable endpoint";
}

std::string_view describe_kind(const View& view, const ServiceRecord& service) {
  switch (service.answer) {
    case AnswerKind::Vips:
      return service.auto_allocated ? "allocated virtual addresses" : "virtual addresses";
    case AnswerKind::Endpoints:
      return "endpoint addresses";
    case AnswerKind::Alias:
      return "an alias";
    case AnswerKind::NoAddress:
      return has_unresolved_names(service) ? "none of its endpoint names has an address"
                                           : "no address yet";
    case AnswerKind::NoReadyEndpoints:
      return "no ready endpoints";
    case AnswerKind::Forward:
      return describe_forwarded(view, service);
    case AnswerKind::Pending:
      return "waiting for the first addresses of its endpoint names";
    case AnswerKind::Unresolvable:
      return "none of its endpoint names can be resolved";
  }
  return "";
}

std::string describe_addresses(const registry::AddressView& addresses) {
  std::vector<std::string> texts;
  for (const auto& octets : addresses.v4.first(std::min(addresses.v4.size(), kMaxShown)))
    texts.push_back(IpAddress::v4(octets).to_string());
  for (const auto& octets : addresses.v6.first(std::min(addresses.v6.size(), kMaxShown)))
    texts.push_back(IpAddress::v6(octets).to_string());
  return "addresses: " + list_of(texts, addresses.v4.size() + addresses.v6.size());
}

// Cluster IPs work without a proxy: each node translates them.
std::string_view describe_reach(const ServiceRecord& service) {
  return service.auto_allocated
             ? "note: only a proxy of the mesh can connect to an allocated address"
             : "note: a proxy of the mesh connects to an endpoint instead of a virtual address; a "
               "client without a proxy needs a route to it";
}

// ", node n1, zone a (same zone)".
std::string describe_place(const View& view, const registry::NearRule& rule,
                           const EndpointEntry& endpoint) {
  if (!rule.is_active()) return {};
  if (!endpoint.place) return ", place unknown";
  const registry::Place& place = endpoint.place->place;
  std::string text;
  if (place.node) text += fmt::format(", node {}", place.node->text());
  if (place.region) text += fmt::format(", region {}", place.region->text());
  if (place.zone) text += fmt::format(", zone {}", place.zone->text());
  if (rule.by_hinted_zones)
    for (const auto& zone : endpoint.place->hinted_zones)
      text += fmt::format(", hint for zone {}", zone->text());
  if (rule.by_hinted_nodes)
    for (const auto& node : endpoint.place->hinted_nodes)
      text += fmt::format(", hint for node {}", node->text());
  const registry::Nearness nearness = rule.nearness(endpoint.place.get(), view.client().place);
  return text + fmt::format(" ({})", to_string(nearness));
}

std::string describe_client_place(const registry::Place& place) {
  std::string text;
  const auto add = [&](std::string_view what, const registry::SymbolRef& part) {
    if (part) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, part->text());
  };
  add("node", place.node);
  add("region", place.region);
  add("zone", place.zone);
  add("subzone", place.subzone);
  return text.empty() ? "unknown, so none is near" : text;
}

// Why the order of the answer is what it is.
std::string describe_locality(const View& view, const registry::NearRule& rule) {
  const std::string_view choice =
      view.settings().locality == registry::LocalityChoice::Only ? "only" : "first";
  const std::string_view wish =
      rule.by_hinted_zones ? "hints of its EndpointSlices" : to_string(rule.distribution);
  return fmt::format("near endpoints {0} (mesh.locality: {0}; {1}); place of the client: {2}",
                     choice, wish, describe_client_place(view.client().place));
}

std::string describe_endpoint(const View& view, const registry::NearRule& rule,
                              const EndpointEntry& endpoint) {
  std::string text = fmt::format("endpoint: {} {}", endpoint.address.to_string(),
                                 endpoint.ready ? "ready" : "not ready");
  if (!endpoint.hostname.empty()) text += ", hostname " + endpoint.hostname;
  if (!endpoint.pod_name.empty()) text += ", pod " + endpoint.pod_name;
  if (endpoint.weight != 1) text += fmt::format(", weight {}", endpoint.weight);
  if (endpoint.network) text += fmt::format(", network {}", endpoint.network->text());
  if (endpoint.cluster) text += fmt::format(", cluster {}", endpoint.cluster->text());
  text += describe_place(view, rule, endpoint);
  if (view.reaches(endpoint)) return text;
  const auto gateways = view.gateways_to(endpoint);
  if (gateways.empty()) return text + " (not the client's network)";
  const std::string more =
      gateways.size() > 1 ? fmt::format(" and {} more", gateways.size() - 1) : "";
  return text + fmt::format(" (not the client's network; answered with gateway {}{})",
                            gateways.front().address.to_string(), more);
}

void add_endpoints(const View& view, const ServiceRecord& service,
                   std::vector<std::string>& facts) {
  const EndpointList* const endpoints = service.endpoints();
  if (endpoints == nullptr) return;
  if (endpoints->near.is_active() && service.answer == AnswerKind::Endpoints)
    facts.push_back(describe_locality(view, endpoints->near));
  const std::size_t shown = std::min(endpoints->entries.size(), kMaxShown);
  for (std::size_t i = 0; i < shown; ++i)
    facts.push_back(describe_endpoint(view, endpoints->near, endpoints->entries[i]));
  if (endpoints->entries.size() > shown)
    facts.push_back("and " + counted(endpoints->entries.size() - shown, "more endpoint"));
}

}  // namespace

std::string place_of(const registry::Snapshot& snapshot, const registry::StoredRef& source) {
  std::string text = source->label();
  if (!snapshot.origins) return text;
  const std::string_view origin = snapshot.origins->of(source->origin());
  if (origin.empty()) return text;
  text += " (" + std::string(origin);
  if (source->line() != 0) text += ":" + std::to_string(source->line());
  return text + ")";
}

std::vector<std::string> service_facts(const View& view, const Match& match) {
  const ServiceRecord& service = *match.service;
  std::vector<std::string> facts{describe_match(match)};
  std::size_t sources = 0;
  service.for_each_source([&](const registry::StoredRef& source) {
    if (++sources <= kMaxShown) facts.push_back("source: " + place_of(view.snapshot(), source));
  });
  if (sources > kMaxShown) facts.push_back("and " + counted(sources - kMaxShown, "more source"));
  facts.push_back(describe_exports(service));
  facts.push_back(fmt::format("{}, resolution {}: {}, TTL {}", to_string(service.provider),
                              to_string(service.resolution), describe_kind(view, service),
                              view.ttl(service)));
  const registry::AddressView addresses = view.addresses(service);
  if (!addresses.empty()) facts.push_back(describe_addresses(addresses));
  if (service.answer == AnswerKind::Vips && service.provider == registry::Provider::ServiceEntry)
    facts.emplace_back(describe_reach(service));
  if (!service.alias().empty()) facts.push_back(fmt::format("alias of {}.", service.alias()));
  if (service.details) {
    const auto& details = *service.details;
    if (!details.resolved_names.empty())
      facts.push_back(fmt::format("endpoint names: {} (/resolver has the state of each)",
                                  list_of(details.resolved_names, details.resolved_names.size())));
    for (std::size_t i = 0; i < std::min(details.notes.size(), kMaxShown); ++i)
      facts.push_back("note: " + details.notes[i]);
    if (details.notes.size() > kMaxShown)
      facts.push_back("and " + counted(details.notes.size() - kMaxShown, "more note"));
  }
  add_endpoints(view, service, facts);
  return facts;
}

std::string identity_of(const registry::Client& client) {
  if (!client.ns) return client.identity.description + ", of no namespace (public services only)";
  return fmt::format("{}, namespace {}", client.identity.description, client.ns->text());
}

std::string outbound_policy_of(const registry::Snapshot& snapshot, const registry::Client& client) {
  if (client.scope && client.scope->outbound_policy())
    return place_of(snapshot, client.scope->source());
  const registry::MeshSettings& settings = *snapshot.settings;
  return "the mesh (" + describe_origin(settings, settings.origins.outbound_policy) + ")";
}

std::string unknown_namespace(const registry::Snapshot& snapshot, std::string_view ns) {
  if (snapshot.find_namespace(ns) != nullptr) return {};
  std::set<std::string_view> known{snapshot.settings->root_namespace};
  snapshot.resources.for_each([&](const registry::StoredResource& stored) {
    const bool is_itself = stored.kind() == registry::Kind::Namespace;
    known.insert(is_itself ? stored.name() : stored.ns());
  });
  if (known.contains(ns)) return {};
  return "no object of the registry is in namespace " + in_quotes(ns) +
         did_you_mean(ns, std::vector(known.begin(), known.end()));
}

namespace {

std::string describe_identity(const registry::Snapshot& snapshot, const registry::Client& client) {
  if (!snapshot.by_source_address)
    return identity_of(client) + " (every client's: client.by_source_address is false)";
  if (!client.ns)
    return "unknown client: no Pod or WorkloadEntry has this address; sees public services "
           "only (client.unknown)";
  return identity_of(client) + " (by its address)";
}

}  // namespace

std::vector<std::string> describe_client(const registry::Snapshot& snapshot,
                                         const registry::Client& client, std::string_view address,
                                         Audience audience) {
  const auto& identity = client.identity;
  std::vector<std::string> facts;
  facts.push_back(fmt::format("address: {}", address));
  facts.push_back("identity: " + describe_identity(snapshot, client));
  if (!identity.labels.empty()) {
    std::vector<std::string> labels;
    for (const auto& [key, value] : identity.labels)
      labels.push_back(fmt::format("{}={}", key, value));
    facts.push_back(fmt::format("labels: {}", fmt::join(labels, ", ")));
  }
  if (!identity.network.empty())
    facts.push_back(fmt::format("network: {}{}", identity.network,
                                client.network ? "" : " (mesh.networks is off)"));
  if (client.cluster) facts.push_back(fmt::format("cluster: {}", client.cluster->text()));
  facts.push_back(
      client.scope ? fmt::format("view: narrowed by {}", place_of(snapshot, client.scope->source()))
                   : "view: all that is exported to it; no Sidecar applies");
  if (client.is_registry_only)
    facts.push_back("outbound traffic: REGISTRY_ONLY, by " + outbound_policy_of(snapshot, client));
  facts.push_back(fmt::format("search: {}", fmt::join(client.search, " ")));
  facts.push_back(
      fmt::format("families:{}{}", identity.ipv4 ? " IPv4" : "", identity.ipv6 ? " IPv6" : ""));
  // The number of hosts and the number of changes would tell of hidden hosts.
  const std::string counts = audience == Audience::Operator
                                 ? fmt::format("generation {}, {}, ", snapshot.generation,
                                               counted(snapshot.hosts.size(), "host"))
                                 : "";
  facts.push_back(
      fmt::format("registry: {}serial {}{}", counts, snapshot.serial,
                  snapshot.sources.from_state_dir ? ", from the state of an earlier run" : ""));
  if (!snapshot.sources.synced) facts.emplace_back(kNotSynced);
  if (std::string source = awaited_source(snapshot);
      audience == Audience::Operator && !source.empty())
    facts.push_back(std::move(source));
  return facts;
}

std::string awaited_source(const registry::Snapshot& snapshot) {
  return snapshot.sources.awaited_source.empty()
             ? std::string()
             : "registry: waits for " + snapshot.sources.awaited_source;
}

}  // namespace meshdns::dnsd
