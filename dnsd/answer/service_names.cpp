// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/service_names.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

using registry::EndpointEntry;
using registry::EndpointIndex;
using registry::EndpointList;
using registry::Provider;
using registry::ServicePort;
using registry::ServiceRecord;

constexpr std::size_t kMaxKinds = 1024;

// Istio's protocols (HTTP, GRPC, TLS, ...) all run over TCP.
std::string_view transport_of(const ServicePort& port) {
  if (equals_ignoring_case(port.protocol, "UDP")) return "udp";
  if (equals_ignoring_case(port.protocol, "SCTP")) return "sctp";
  return "tcp";
}

bool is_port(const ServicePort& port, std::string_view name, std::string_view protocol) {
  // The name first: of thousands of ports few have it.
  if (port.name.empty() || (!name.empty() && port.name != name)) return false;
  return transport_of(port) == protocol;
}

// A label with its underscore, and something behind it.
bool is_underscored(std::string_view label) { return label.size() > 1 && label[0] == '_'; }

std::span<const ServicePort> ports_of(const EndpointList& endpoints, std::size_t subset) {
  if (subset >= endpoints.ports.size() || !endpoints.ports[subset]) return {};
  return endpoints.ports[subset]->ports;
}

ServiceLabels read_two_labels(std::string_view below, std::size_t dot,
                              const ServiceRecord& service) {
  using Kind = ServiceLabels::Kind;
  const std::string_view first = below.substr(0, dot);
  const std::string_view second = below.substr(dot + 1);
  if (is_underscored(first) && is_underscored(second))
    return {.kind = Kind::Port, .port = first.substr(1), .protocol = second.substr(1)};
  const bool clusterset = service.provider == Provider::MultiCluster;
  if (clusterset && !first.starts_with('_') && !second.starts_with('_'))
    return {.kind = Kind::Endpoint, .endpoint = below};
  return {.kind = Kind::None};
}

// Addresses below ::/96 are written with a dotted end, "::0.1.0.2".  As a label that looks like
// another address, "::0:1:0:2", which is never written so.
std::optional<IpAddress> parse_dotted_end(std::string_view label) {
  if (!label.starts_with("--") || std::ranges::count(label, '-') != 5) return {};
  std::string text = "::";
  for (const char c : label.substr(2)) text += c == '-' ? '.' : c;
  const auto address = IpAddress::parse(text);
  return address && address->to_string() == text ? address : std::nullopt;
}

}  // namespace

ServiceLabels read_service_labels(std::string_view below, const ServiceRecord& service) {
  using Kind = ServiceLabels::Kind;
  if (below.empty()) return {.kind = Kind::Service};
  const std::size_t dot = below.find('.');
  if (dot == std::string_view::npos) {
    if (is_underscored(below)) return {.kind = Kind::Protocol, .protocol = below.substr(1)};
    return {.kind = Kind::Endpoint, .endpoint = below};
  }
  if (below.find('.', dot + 1) != std::string_view::npos) return {.kind = Kind::None};
  return read_two_labels(below, dot, service);
}

bool ServicePorts::are_per_endpoint() const {
  return service_.headless || (service_.provider != Provider::ServiceEntry &&
                               service_.answer == registry::AnswerKind::Endpoints);
}

std::span<const ServicePort> ServicePorts::ports() const {
  if (!service_.ports) return {};
  return service_.ports->ports;
}

std::span<const ServicePort> ServicePorts::ports_of(std::uint16_t subset) const {
  return dnsd::ports_of(*service_.endpoints(), subset);
}

bool ServicePorts::is_wanted(const ServicePort& port, const ServiceLabels& labels) {
  return labels.kind != ServiceLabels::Kind::Port || is_port(port, labels.port, labels.protocol);
}

// Large lists know which ports their ready endpoints have, in which networks.  A list with very
// many of these pairs is taken to have the port: NODATA denies less than NXDOMAIN.
template <typename Matches>
bool ServicePorts::has_endpoint_port(const Matches& matches) const {
  const EndpointList* const endpoints = service_.endpoints();
  if (endpoints == nullptr) return false;
  const auto has_port = [&](std::size_t subset) {
    return std::ranges::any_of(dnsd::ports_of(*endpoints, subset), matches);
  };
  if (!endpoints->index.is_made())
    return std::ranges::any_of(endpoints->entries, [&](const EndpointEntry& entry) {
      return entry.ready && view_.reaches(entry) && has_port(entry.subset);
    });
  std::size_t looks = 0;
  std::optional<std::uint16_t> without;  // a subset that is known not to have it
  for (const EndpointIndex::Kind& kind : endpoints->index.kinds()) {
    if (++looks > kMaxKinds) return true;
    if (kind.subset == without || !view_.reaches(kind.network)) continue;
    if (has_port(kind.subset)) return true;
    without = kind.subset;
  }
  return false;
}

bool ServicePorts::has(std::string_view name, std::string_view protocol) const {
  const auto matches = [&](const ServicePort& port) { return is_port(port, name, protocol); };
  return are_per_endpoint() ? has_endpoint_port(matches) : std::ranges::any_of(ports(), matches);
}

bool ServicePorts::has_targets(const ServiceLabels& labels) const {
  const auto matches = [&](const ServicePort& port) { return is_wanted(port, labels); };
  if (labels.kind == ServiceLabels::Kind::Endpoint) {
    bool found = false;
    for_each_endpoint_named(view_, service_, labels, [&](const EndpointEntry& entry) {
      found = !ports_of(entry.subset).empty();
      return !found;
    });
    return found;
  }
  return are_per_endpoint() ? has_endpoint_port(matches) : std::ranges::any_of(ports(), matches);
}

bool are_all_reached(const registry::View& view, const EndpointIndex& endpoints) {
  const auto kinds = endpoints.kinds();
  return kinds.size() <= kMaxKinds &&
         std::ranges::all_of(kinds, [&](const auto& kind) { return view.reaches(kind.network); });
}

bool is_endpoint_named(const EndpointEntry& endpoint, std::string_view label,
                       const std::optional<IpAddress>& address, bool pod_names) {
  if (!endpoint.hostname.empty()) return endpoint.hostname == label;
  const bool by_pod = pod_names && !endpoint.pod_name.empty() && endpoint.pod_name.size() < 64;
  if (by_pod) return endpoint.pod_name == label;
  // An IPv6 address has many spellings, and only one is the endpoint's name.
  return address && endpoint.address == *address &&
         EndpointList::label_of(endpoint, pod_names) == label;
}

std::optional<IpAddress> parse_dashed_address(std::string_view label) {
  std::array<char, 64> text;
  if (label.size() > 45 || label.find_first_of(".:") != std::string_view::npos) return {};
  if (const auto address = parse_dotted_end(label)) return address;
  const bool v4 = std::ranges::count(label, '-') == 3 && label.find("--") == std::string_view::npos;
  std::ranges::transform(label, text.begin(), [&](char c) {
    return c != '-' ? c : v4 ? '.' : ':';
  });
  const auto address = IpAddress::parse({text.data(), label.size()});
  // "--ffff-a00-1" would be an IPv4 address in disguise.
  if (address && address->is_v4() != v4) return {};
  return address;
}

bool has_cluster(const registry::View& view, const ServiceRecord& service, std::string_view label) {
  constexpr std::size_t kMost = 1024;
  const EndpointList* const endpoints = service.endpoints();
  if (service.provider != Provider::MultiCluster || endpoints == nullptr) return false;
  const std::span entries(endpoints->entries);
  if (entries.size() > kMost)
    return entries.front().cluster && label.find('.') == std::string_view::npos;
  return std::ranges::any_of(entries, [&](const EndpointEntry& entry) {
    return entry.ready && entry.cluster &&
           (view.reaches(entry) || !view.gateways_to(entry).empty()) &&
           equals_ignoring_case(entry.cluster->text(), label);
  });
}

}  // namespace meshdns::dnsd
