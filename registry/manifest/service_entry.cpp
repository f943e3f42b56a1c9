// SPDX-License-Identifier: Apache-2.0
// networking.istio.io ServiceEntry: its fields, and the rules that join them (Istio's
// ValidateServiceEntry and the CRD).
#include <algorithm>
#include <array>
#include <set>

#include "registry/base/host_name.hpp"
#include "registry/manifest/object.hpp"
#include "registry/manifest/validate.hpp"
#include "registry/model/labels.hpp"

namespace meshdns::registry {

namespace {

constexpr auto& kResolutions = words<"NONE STATIC DNS DNS_ROUND_ROBIN DYNAMIC_DNS">;
constexpr std::array<std::string_view, 2> kLocations = {"MESH_EXTERNAL", "MESH_INTERNAL"};

// The CRD's bounds.
constexpr std::size_t kMaxHosts = 256;
constexpr std::size_t kMaxEntryAddresses = 256;
constexpr std::size_t kMaxAddressText = 64;
constexpr std::size_t kMaxEntryEndpoints = 4096;
constexpr std::size_t kMaxEntryPorts = 256;
// Limit of addresses in the status: two for each host, and as many that are about to go.
constexpr std::size_t kMaxStatusAddresses = 4 * kMaxHosts;

constexpr std::string_view kAutoAllocateLabel = "networking.istio.io/enable-autoallocate-ip";
constexpr std::string_view kWaypointLabel = "istio.io/use-waypoint";

constexpr Message kEntryPort{kSnakeCase, words<"number protocol name targetPort">};

// An entry while it is read.  Every rule judges what it reads; the last ones judge combinations.
class EntryReading : public ServiceEntry {
 public:
  EntryReading(Object& object, const Field& spec) : object_(object), report_(object.report) {
    const Fields fields(report_, spec, kSpec);
    host_list_ = fields.get("hosts");
    address_list_ = fields.get("addresses");
    port_list_ = fields.get("ports");
    endpoint_list_ = fields.get("endpoints");
    const auto opt_out = object_.label(kAutoAllocateLabel);
    auto_allocate = !opt_out || !equals_ignoring_case(*opt_out, "false");
    read_fields(report_, fields, kSpec, *this);
    judge_resolution(fields);
    judge_ports_of_hosts();
  }
  ServiceEntry take() { return static_cast<ServiceEntry&&>(*this); }

 private:
  bool resolves_names() const {
    return resolution == Resolution::Dns || resolution == Resolution::DnsRoundRobin;
  }

  void read_selector(const Field& selector) {
    workload_selector = read_workload_selector(report_, selector);
    if (endpoint_list_ && (*endpoint_list_)->size() > 0)
      report_.error(*endpoint_list_, "cannot be given together with workloadSelector; remove one");
    if (resolution == Resolution::None)
      report_.warning(selector,
                      "has no effect on connections with resolution NONE, which go to their "
                      "original destination; it selects the addresses of answers");
  }

  void read_hosts(const Field& list) {
    if (list->is_sequence() && list->size() == 0) return report_.error(list, std::string(kNoHost));
    if (is_too_long(report_, list, kMaxHosts, "Istio")) return;
    for_each_string(report_, list,
                    [&](const Field& at, std::string_view host) { read_host(at, host); });
  }

  void read_host(const Field& at, std::string_view host) {
    if (host == "*")
      return report_.error(at,
                           R"("*" would match every name; write a domain, as in "*.example.org")");
    if (auto reason = why_no_wildcard_domain(host))
      return report_.error(at, in_quotes(host) + " " + *reason);
    const bool is_wildcard = host.starts_with('*');
    if (is_partial_wildcard(host) && resolution != Resolution::DynamicDns)
      report_.warning(at, in_quotes(host) + R"( has a partial wildcard and matches no query; )"
                                            R"(use a whole label, as in "*.example.org")");
    if (resolution == Resolution::DynamicDns && !is_wildcard)
      report_.error(at, in_quotes(host) + " has no wildcard; resolution DYNAMIC_DNS needs one");
    const bool needs_name = resolves_names() && (!endpoint_list_ || (*endpoint_list_)->size() == 0);
    if (needs_name && is_wildcard)
      report_.error(at, in_quotes(host) + " has a wildcard, but resolution " +
                            std::string(to_string(resolution)) +
                            " without endpoints resolves the host itself");
    std::string canonical = canonical_host(host);
    if (std::ranges::find(hosts, canonical) == hosts.end()) hosts.push_back(std::move(canonical));
  }

  void read_addresses(const Field& list) {
    if (is_too_long(report_, list, kMaxEntryAddresses, "Istio")) return;
    for_each_string(report_, list, [&](const Field& at, std::string_view text) {
      const auto prefix =
          text.size() <= kMaxAddressText ? IpPrefix::parse(text) : std::optional<IpPrefix>();
      if (!prefix)
        return report_.error(at, in_quotes(text) + " is neither an IP address nor a CIDR");
      addresses.push_back(*prefix);
      if (text.find('/') == std::string_view::npos) return;
      if (resolution == Resolution::None || resolution == Resolution::Static) return;
      report_.error(at, in_quotes(text) + " is a CIDR; only resolution NONE and STATIC allow it");
    });
  }

  void read_ports(const Field& list) {
    if (is_too_long(report_, list, kMaxEntryPorts, "Istio")) return;
    for_each_element(report_, list, [&](const Field& at) {
      if (at->is_null()) return report_.error(at, "an element of the list is null");
      read_port_entry(at);
    });
  }

  void read_port_entry(const Field& at) {
    const Fields fields(report_, at, kEntryPort);
    if (!at->is_mapping()) return;
    ServicePort port;
    if (const auto number = fields.get("number")) {
      port.number = read_port(report_, *number).value_or(0);
      if (port.number != 0 && !numbers_.insert(port.number).second)
        report_.error(*number, "port " + std::to_string(port.number) + " is given twice");
    } else {
      report_.error(at, at.path("number"), "missing; specify 1..65535");
    }
    if (const auto name = fields.get("name")) {
      const std::string_view text = read_string_or_empty(report_, name);
      if ((*name)->as_string()) check_port_name(report_, *name, text);
      if (!text.empty() && !names_.emplace(text).second)
        report_.error(*name, in_quotes(text) + " is given twice; port names must be unique");
      port.name = to_lower(text);
    } else {
      report_.error(at, at.path("name"), "missing; every port needs a name");
    }
    const auto protocol = fields.get("protocol");
    port.protocol = read_istio_protocol(report_, protocol);
    if (const auto target = fields.get("targetPort"); target && (*target)->as_integer() != 0)
      port.target_port = read_port(report_, *target).value_or(0);
    judge_protocol(protocol ? *protocol : at, port);
    ports.push_back(std::move(port));
  }

  void judge_protocol(const Field& at, const ServicePort& port) {
    const bool is_allocatable = resolution != Resolution::None && auto_allocate;
    const bool is_plain = port.protocol.empty() || at->value() == "TCP";
    if ((!address_list_ || (*address_list_)->size() == 0) && !is_allocatable && is_plain)
      report_.warning(at,
                      "a TCP port without spec.addresses takes all connections to that port, "
                      "whatever their address; specify addresses");
    if (resolution != Resolution::DynamicDns) return;
    constexpr std::array<std::string_view, 4> allowed = {"HTTP", "HTTP2", "GRPC", "TLS"};
    if (std::ranges::find(allowed, port.protocol) == allowed.end())
      report_.error(at, "resolution DYNAMIC_DNS allows only HTTP, HTTP2, GRPC and TLS");
  }

  void read_endpoints(const Field& list) {
    if (is_too_long(report_, list, kMaxEntryEndpoints, "Istio")) return;
    for_each_element(report_, list, [&](const Field& at) {
      if (at->is_null()) return report_.error(at, "an element of the list is null");
      WorkloadSpec spec = read_workload_spec(report_, at);
      if (spec.network.empty()) spec.network = network_label(spec.labels);
      if (at->is_mapping()) judge_endpoint(at, spec);
      endpoints.push_back(std::move(spec));
    });
  }

  void read_exports(const Field& at) { export_to = read_export_to(report_, at, object_.meta.ns); }

  void judge_endpoint(const Field& at, const WorkloadSpec& spec) {
    if (resolution == Resolution::Static) {
      check_workload_address(report_, at, false);
      check_unix_ports(report_, at);
      if (spec.address.starts_with(kUnixPrefix) && names_.size() != 1)
        report_.error(at, at.path("address"),
                      "a unix socket needs an entry with exactly one port, this one has " +
                          std::to_string(names_.size()));
    } else if (resolves_names()) {
      judge_endpoint_to_resolve(at);
    } else {
      return;
    }
    judge_endpoint_ports(at);
  }

  void judge_endpoint_to_resolve(const Field& at) {
    const Node* const node = at->find("address");
    const std::string_view text =
        node == nullptr ? std::string_view() : node->as_string().value_or(std::string_view());
    if (node != nullptr && !node->is_null() && !node->as_string()) return;  // reported as a type
    if (IpAddress::parse(text)) return;
    if (node != nullptr && text.starts_with(kUnixPrefix))
      return report_.error(Field(at, *node), in_quotes(text) + " is a Unix socket; resolution " +
                                                 std::string(to_string(resolution)) +
                                                 " cannot resolve it; use STATIC");
    if (auto reason = why_no_fqdn(text)) {
      std::string message = in_quotes(text);
      message += " is neither an IP address nor a host name: it ";
      report_.error(node == nullptr ? at : Field(at, *node), at.path("address"), message + *reason);
    }
  }

  void judge_endpoint_ports(const Field& at) {
    const Node* const given = at->find("ports");
    if (given == nullptr || !given->is_mapping()) return;
    if (port_list_ && (*port_list_)->size() > kMaxEntryPorts) return;  // reported already
    const Field field(at, *given);
    for (const Node& port : *given)
      if (is_label(port.key()) && !names_.contains(port.key()))
        report_.error(Field(field, port), in_quotes(port.key()) + " is not a port in spec.ports");
  }

  void judge_resolution(const Fields& fields) {
    const auto given = [](const std::optional<Field>& list) { return list && (*list)->size() > 0; };
    switch (resolution) {
      case Resolution::None:
        if (given(endpoint_list_))
          report_.error(
              *endpoint_list_,
              "resolution NONE (the default) has no endpoints; set resolution STATIC or DNS");
        return;
      case Resolution::DnsRoundRobin:
        if (endpoint_list_ && (*endpoint_list_)->size() > 1)
          report_.error(*endpoint_list_, "resolution DNS_ROUND_ROBIN takes one endpoint at most");
        return;
      case Resolution::DynamicDns:
        judge_dynamic_dns(fields.get("location"), given(address_list_), given(endpoint_list_));
        return;
      case Resolution::Static:
      case Resolution::Dns:
        return;
    }
  }

  void judge_dynamic_dns(const std::optional<Field>& place, bool has_addresses,
                         bool has_endpoints) {
    if (has_addresses) report_.error(*address_list_, "resolution DYNAMIC_DNS takes no addresses");
    if (has_endpoints) report_.error(*endpoint_list_, "resolution DYNAMIC_DNS takes no endpoints");
    const auto waypoint = object_.label(kWaypointLabel);
    const bool uses_waypoint =
        waypoint && !waypoint->empty() && !equals_ignoring_case(*waypoint, "none");
    if (location == Location::MeshInternal && uses_waypoint)
      report_.error(*place,
                    "MESH_INTERNAL with resolution DYNAMIC_DNS does not go with a waypoint (label "
                    "istio.io/use-waypoint)");
  }

  // Only the Host header of HTTP and the SNI of TLS distinguish several hosts at one address.
  void judge_ports_of_hosts() {
    if (!host_list_ || (*host_list_)->size() < 2 || resolution == Resolution::None) return;
    if (!port_list_ || !(*port_list_)->is_sequence()) return;
    std::size_t index = 0;
    for (const Node& node : port_list_->node()) {
      const Field at(*port_list_, node, index++);
      const Node* const protocol = node.find("protocol");
      const std::string_view text = protocol == nullptr ? std::string_view() : protocol->value();
      const ProtocolClass kind = protocol_class(text);
      if (kind == ProtocolClass::Unknown || !node.is_mapping()) continue;  // reported already
      if (kind != ProtocolClass::Http && kind != ProtocolClass::Tls) {
        report_.error(protocol == nullptr ? at : Field(at, *protocol), at.path("protocol"),
                      "several hosts cannot share a port that is neither HTTP nor TLS; split the "
                      "entry");
        break;
      }
    }
    if (!resolves_names() || !address_list_ || (*address_list_)->size() == 0) return;
    const bool has_tcp = std::ranges::any_of(
        ports, [](const ServicePort& port) { return is_tcp_family(port.protocol); });
    if (has_tcp)
      report_.warning(*host_list_,
                      "several hosts behind the same addresses share a port of the TCP "
                      "family; the first host takes its connections");
  }

  static constexpr std::string_view kNoHost = "needs at least one host";
  // In the order of the rules: the resolution decides what else there may be.
  static constexpr Message kSpec{
      kSnakeCase,
      FieldRule{"resolution", enum_of<kResolutions, &ServiceEntry::resolution>},
      FieldRule{"location", enum_of<kLocations, &ServiceEntry::location>},
      FieldRule{"workloadSelector", &EntryReading::read_selector},
      FieldRule{"hosts", &EntryReading::read_hosts, kNoHost},
      FieldRule{"addresses", &EntryReading::read_addresses},
      FieldRule{"ports", &EntryReading::read_ports},
      FieldRule{"endpoints", &EntryReading::read_endpoints},
      FieldRule{"exportTo", &EntryReading::read_exports},
      FieldRule{"subjectAltNames", &ServiceEntry::subject_alt_names}};

  Object& object_;
  Report& report_;
  std::optional<Field> host_list_;
  std::optional<Field> address_list_;
  std::optional<Field> port_list_;
  std::optional<Field> endpoint_list_;
  std::set<std::string, std::less<>> names_;  // of ports, as written
  std::set<std::uint16_t> numbers_;
};

// Reads the addresses that istiod allocated.  Users do not edit them: errors are only warnings.
void read_status(Object& object, const std::optional<Field>& status, ServiceEntry& entry) {
  if (!status || !(*status)->is_mapping()) return;
  const Node* const list = (*status)->find("addresses");
  if (list == nullptr || !list->is_sequence()) return;
  const Field addresses(*status, *list);
  if (list->size() > kMaxStatusAddresses)
    object.report.warning(addresses, "has " + std::to_string(list->size()) +
                                         " elements; those after the first " +
                                         std::to_string(kMaxStatusAddresses) + " are ignored");
  std::size_t index = 0;
  for (const Node& node : *list) {
    if (index == kMaxStatusAddresses) return;
    const Field at(addresses, node, index++);
    const Node* const value = node.find("value");
    const Node* const host = node.find("host");
    const auto ip = value == nullptr ? std::nullopt : IpAddress::parse(value->value());
    if (ip)
      entry.status_addresses.push_back(
          {host == nullptr ? std::string() : canonical_host(host->value()), *ip});
    else
      object.report.add(Severity::Warning, at.line(), at.path("value"),
                        "is not an IP address; it is ignored");
  }
}

}  // namespace

Resource read_service_entry(Object& object) {
  const Fields fields(object.report, object.root, kObject);
  check_istio_annotations(object);
  ServiceEntry entry;
  if (const auto spec = read_spec(object, fields, "missing; specify at least one host"))
    entry = EntryReading(object, *spec).take();
  read_status(object, fields.get("status"), entry);
  entry.traffic_distribution = read_traffic_distribution(object);
  entry.meta = std::move(object.meta);
  return entry;
}

}  // namespace meshdns::registry
