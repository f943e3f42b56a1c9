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

constexpr Message kEntrySpec{kSnakeCase,
                             words<"hosts addresses ports location resolution endpoints "
                                   "workloadSelector exportTo subjectAltNames">};
constexpr Message kEntryPort{kSnakeCase, words<"number protocol name targetPort">};

// Reads one entry.  Every function judges what it reads; the last ones judge combinations.
class ServiceEntryReader {
 public:
  ServiceEntryReader(Object& object, const Field& spec)
      : object_(object),
        report_(object.report),
        spec_(spec),
        fields_(object.report, spec, kEntrySpec),
        hosts_(fields_.get("hosts")),
        addresses_(fields_.get("addresses")),
        ports_(fields_.get("ports")),
        endpoints_(fields_.get("endpoints")) {}

  ServiceEntry read() {
    read_modes();
    read_selector();
    read_hosts();
    read_addresses();
    read_ports();
    read_endpoints();
    entry_.export_to = read_export_to(report_, fields_.get("exportTo"), object_.meta.ns);
    for_each_string(report_, fields_.get("subjectAltNames"),
                    [&](const Field&, auto name) { entry_.subject_alt_names.emplace_back(name); });
    judge_resolution();
    judge_ports_of_hosts();
    return std::move(entry_);
  }

 private:
  bool resolves_names() const {
    return entry_.resolution == Resolution::Dns || entry_.resolution == Resolution::DnsRoundRobin;
  }

  void read_modes() {
    if (const auto resolution = fields_.get("resolution"))
      entry_.resolution =
          static_cast<Resolution>(read_choice(report_, *resolution, kResolutions).value_or(0));
    if (const auto location = fields_.get("location"))
      entry_.location =
          static_cast<Location>(read_choice(report_, *location, kLocations).value_or(0));
    const auto opt_out = object_.label(kAutoAllocateLabel);
    entry_.auto_allocate = !opt_out || !equals_ignoring_case(*opt_out, "false");
  }

  void read_selector() {
    const auto selector = fields_.get("workloadSelector");
    if (!selector) return;
    entry_.workload_selector = read_workload_selector(report_, selector);
    if (endpoints_ && (*endpoints_)->size() > 0)
      report_.error(*endpoints_, "cannot be given together with workloadSelector; remove one");
    if (entry_.resolution == Resolution::None)
      report_.warning(*selector,
                      "has no effect on connections with resolution NONE, which go to their "
                      "original destination; it selects the addresses of answers");
  }

  void read_hosts() {
    if (!hosts_ || ((*hosts_)->is_sequence() && (*hosts_)->size() == 0)) {
      const Field& at = hosts_ ? *hosts_ : spec_;
      return report_.error(at, spec_.path("hosts"), "needs at least one host");
    }
    if (is_too_long(report_, hosts_, kMaxHosts, "Istio")) return;
    for_each_string(report_, hosts_,
                    [&](const Field& at, std::string_view host) { read_host(at, host); });
  }

  void read_host(const Field& at, std::string_view host) {
    if (host == "*")
      return report_.error(at,
                           R"("*" would match every name; write a domain, as in "*.example.org")");
    if (auto reason = why_no_wildcard_domain(host))
      return report_.error(at, in_quotes(host) + " " + *reason);
    const bool is_wildcard = host.starts_with('*');
    if (is_partial_wildcard(host) && entry_.resolution != Resolution::DynamicDns)
      report_.warning(at, in_quotes(host) + R"( has a partial wildcard and matches no query; )"
                                            R"(use a whole label, as in "*.example.org")");
    if (entry_.resolution == Resolution::DynamicDns && !is_wildcard)
      report_.error(at, in_quotes(host) + " has no wildcard; resolution DYNAMIC_DNS needs one");
    const bool needs_name = resolves_names() && (!endpoints_ || (*endpoints_)->size() == 0);
    if (needs_name && is_wildcard)
      report_.error(at, in_quotes(host) + " has a wildcard, but resolution " +
                            std::string(to_string(entry_.resolution)) +
                            " without endpoints resolves the host itself");
    std::string canonical = canonical_host(host);
    if (std::ranges::find(entry_.hosts, canonical) == entry_.hosts.end())
      entry_.hosts.push_back(std::move(canonical));
  }

  void read_addresses() {
    if (is_too_long(report_, addresses_, kMaxEntryAddresses, "Istio")) return;
    for_each_string(report_, addresses_, [&](const Field& at, std::string_view text) {
      const auto prefix =
          text.size() <= kMaxAddressText ? IpPrefix::parse(text) : std::optional<IpPrefix>();
      if (!prefix)
        return report_.error(at, in_quotes(text) + " is neither an IP address nor a CIDR");
      entry_.addresses.push_back(*prefix);
      if (text.find('/') == std::string_view::npos) return;
      if (entry_.resolution == Resolution::None || entry_.resolution == Resolution::Static) return;
      report_.error(at, in_quotes(text) + " is a CIDR; only resolution NONE and STATIC allow it");
    });
  }

  void read_ports() {
    if (is_too_long(report_, ports_, kMaxEntryPorts, "Istio")) return;
    for_each_element(report_, ports_, [&](const Field& at) {
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
    entry_.ports.push_back(std::move(port));
  }

  void judge_protocol(const Field& at, const ServicePort& port) {
    const bool is_allocatable = entry_.resolution != Resolution::None && entry_.auto_allocate;
    const bool is_plain = port.protocol.empty() || at->value() == "TCP";
    if ((!addresses_ || (*addresses_)->size() == 0) && !is_allocatable && is_plain)
      report_.warning(at,
                      "a TCP port without spec.addresses takes all connections to that port, "
                      "whatever their address; specify addresses");
    if (entry_.resolution != Resolution::DynamicDns) return;
    constexpr std::array<std::string_view, 4> allowed = {"HTTP", "HTTP2", "GRPC", "TLS"};
    if (std::ranges::find(allowed, port.protocol) == allowed.end())
      report_.error(at, "resolution DYNAMIC_DNS allows only HTTP, HTTP2, GRPC and TLS");
  }

  void read_endpoints() {
    if (is_too_long(report_, endpoints_, kMaxEntryEndpoints, "Istio")) return;
    for_each_element(report_, endpoints_, [&](const Field& at) {
      if (at->is_null()) return report_.error(at, "an element of the list is null");
      WorkloadSpec spec = read_workload_spec(report_, at);
      if (spec.network.empty()) spec.network = network_label(spec.labels);
      if (at->is_mapping()) judge_endpoint(at, spec);
      entry_.endpoints.push_back(std::move(spec));
    });
  }

  void judge_endpoint(const Field& at, const WorkloadSpec& spec) {
    if (entry_.resolution == Resolution::Static) {
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
    if (text.starts_with(kUnixPrefix))
      return report_.error(Field(at, *node), in_quotes(text) + " is a Unix socket; resolution " +
                                                 std::string(to_string(entry_.resolution)) +
                                                 " cannot resolve it; use STATIC");
    if (auto reason = why_no_fqdn(text)) {
      std::string message = in_quotes(text);
      message += " is neither an IP address nor a host name: it ";
      report_.error(node == nullptr ? at : Field(at, *node), at.path("address"), message + *reason);
    }
  }

  void judge_endpoint_ports(const Field& at) {
    const Node* const ports = at->find("ports");
    if (ports == nullptr || !ports->is_mapping()) return;
    if (ports_ && (*ports_)->size() > kMaxEntryPorts) return;  // reported already
    const Field field(at, *ports);
    for (const Node& port : *ports)
      if (is_label(port.key()) && !names_.contains(port.key()))
        report_.error(Field(field, port), in_quotes(port.key()) + " is not a port in spec.ports");
  }

  void judge_resolution() {
    const auto given = [](const std::optional<Field>& list) { return list && (*list)->size() > 0; };
    switch (entry_.resolution) {
      case Resolution::None:
        if (given(endpoints_))
          report_.error(
              *endpoints_,
              "resolution NONE (the default) has no endpoints; set resolution STATIC or DNS");
        return;
      case Resolution::DnsRoundRobin:
        if (endpoints_ && (*endpoints_)->size() > 1)
          report_.error(*endpoints_, "resolution DNS_ROUND_ROBIN takes one endpoint at most");
        return;
      case Resolution::DynamicDns:
        judge_dynamic_dns(given(addresses_), given(endpoints_));
        return;
      case Resolution::Static:
      case Resolution::Dns:
        return;
    }
  }

  void judge_dynamic_dns(bool has_addresses, bool has_endpoints) {
    if (has_addresses) report_.error(*addresses_, "resolution DYNAMIC_DNS takes no addresses");
    if (has_endpoints) report_.error(*endpoints_, "resolution DYNAMIC_DNS takes no endpoints");
    const auto waypoint = object_.label(kWaypointLabel);
    const bool uses_waypoint =
        waypoint && !waypoint->empty() && !equals_ignoring_case(*waypoint, "none");
    if (entry_.location == Location::MeshInternal && uses_waypoint)
      report_.error(*fields_.get("location"),
                    "MESH_INTERNAL with resolution DYNAMIC_DNS does not go with a waypoint (label "
                    "istio.io/use-waypoint)");
  }

  // Only the Host header of HTTP and the SNI of TLS distinguish several hosts at one address.
  void judge_ports_of_hosts() {
    if (!hosts_ || (*hosts_)->size() < 2 || entry_.resolution == Resolution::None) return;
    if (!ports_ || !(*ports_)->is_sequence()) return;
    std::size_t index = 0;
    for (const Node& node : ports_->node()) {
      const Field at(*ports_, node, index++);
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
    if (!resolves_names() || !addresses_ || (*addresses_)->size() == 0) return;
    const bool has_tcp = std::ranges::any_of(
        entry_.ports, [](const ServicePort& port) { return is_tcp_family(port.protocol); });
    if (has_tcp)
      report_.warning(*hosts_,
                      "several hosts behind the same addresses share a port of the TCP "
                      "family; the first host takes its connections");
  }

  Object& object_;
  Report& report_;
  const Field& spec_;
  Fields fields_;
  std::optional<Field> hosts_;
  std::optional<Field> addresses_;
  std::optional<Field> ports_;
  std::optional<Field> endpoints_;
  ServiceEntry entry_;
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
    entry = ServiceEntryReader(object, *spec).read();
  read_status(object, fields.get("status"), entry);
  entry.traffic_distribution = read_traffic_distribution(object);
  entry.meta = std::move(object.meta);
  return entry;
}

}  // namespace meshdns::registry
