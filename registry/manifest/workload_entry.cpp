// SPDX-License-Identifier: Apache-2.0
// networking.istio.io WorkloadEntry, and the same spec inline in a ServiceEntry.
#include "registry/base/host_name.hpp"
#include "registry/manifest/object.hpp"
#include "registry/manifest/validate.hpp"
#include "registry/model/labels.hpp"

namespace meshdns::registry {

namespace {

// The CRD's bounds.
constexpr std::size_t kMaxWorkloadPorts = 128;
constexpr std::int64_t kMaxWeight = 4294967295;

constexpr std::string_view kHealthChecks = "proxy.istio.io/health-checks-enabled";

// An address as the model holds it: names canonical, the rest as written.
std::string canonical_address(std::string_view text) {
  if (text.starts_with(kUnixPrefix)) return std::string(text);
  if (const auto ip = IpAddress::parse(text)) return ip->to_string();
  return canonical_host(text);
}

void read_workload_address(Report& report, const Field& at, WorkloadSpec& spec) {
  spec.address = canonical_address(read_string_or_empty(report, at));
}

void read_workload_ports(Report& report, const Field& ports, WorkloadSpec& spec) {
  if (!ports->is_mapping())
    return report.error(ports, "expected a mapping of port names to numbers, got " +
                                   std::string(ports->describe()));
  if (ports->size() > kMaxWorkloadPorts)
    return report.error(ports, "has more than " + std::to_string(kMaxWorkloadPorts) + " ports");
  for (const Node& node : ports.node()) {
    const Field port(ports, node);
    check_port_name(report, port, node.key());
    if (const auto number = read_port(report, port))
      spec.ports.emplace_back(to_lower(node.key()), *number);
  }
}

void read_workload_labels(Report& report, const Field& labels, WorkloadSpec& spec) {
  spec.labels = read_labels(report, labels);
  check_workload_labels(report, labels);
}

void read_weight(Report& report, const Field& at, WorkloadSpec& spec) {
  spec.weight = static_cast<std::uint32_t>(read_integer(report, at, 0, kMaxWeight).value_or(0));
}

constexpr Message kWorkloadSpec{kSnakeCase,
                                FieldRule{"address", read_workload_address},
                                FieldRule{"ports", read_workload_ports},
                                FieldRule{"labels", read_workload_labels},
                                FieldRule{"network", &WorkloadSpec::network},
                                FieldRule{"locality", &WorkloadSpec::locality},
                                FieldRule{"serviceAccount", &WorkloadSpec::service_account},
                                FieldRule{"weight", read_weight}};

}  // namespace

WorkloadSpec read_workload_spec(Report& report, const Field& field) {
  WorkloadSpec spec;
  read_message(report, field, kWorkloadSpec, spec);
  return spec;
}

void check_workload_address(Report& report, const Field& field, bool may_be_name) {
  const Node* const node = field->find("address");
  const std::string_view text =
      node == nullptr ? std::string_view() : node->as_string().value_or(std::string_view());
  if (node == nullptr || text.empty()) {
    const Node* const network = field->find("network");
    const bool has_network = network != nullptr && !network->value().empty() && !network->is_null();
    if (!has_network)
      return report.error(field, field.path("address"),
                          "missing; it is optional only with a network");
    return report.add(Severity::Warning, field.line(), field.path("address"),
                      "missing, so the endpoint can be reached only through the gateway of its "
                      "network and is not answered");
  }
  const Field address(field, *node);
  if (text.starts_with(kUnixPrefix)) {
    if (auto reason = why_no_unix_address(text))
      report.error(address, in_quotes(text) + " " + *reason);
    return;
  }
  if (IpAddress::parse(text)) return;
  if (!may_be_name)
    return report.error(address,
                        in_quotes(text) + " is not an IP address; names need resolution DNS");
  if (auto reason = why_no_fqdn(text))
    report.error(address,
                 in_quotes(text) + " is neither an IP address nor a host name: it " + *reason);
}

void check_unix_ports(Report& report, const Field& field) {
  const Node* const address = field->find("address");
  const Node* const ports = field->find("ports");
  if (address == nullptr || ports == nullptr || ports->size() == 0) return;
  if (address->value().starts_with(kUnixPrefix))
    report.error(Field(field, *ports), "a Unix socket has no ports; remove them");
}

Resource read_workload_entry(Object& object) {
  const Fields fields(object.report, object.root, kObject);
  WorkloadEntry entry;
  check_istio_annotations(object);
  if (const auto spec = fields.get("spec")) {
    entry.spec = read_workload_spec(object.report, *spec);
    if ((*spec)->is_mapping()) {
      check_workload_address(object.report, *spec, true);
      check_unix_ports(object.report, *spec);
    }
  } else {
    object.report.error(object.root, "spec", "missing; specify at least an address");
  }
  const auto checked = object.annotation(kHealthChecks);
  // The field wins over the labels, and those of the metadata over those of the spec.
  if (entry.spec.network.empty()) entry.spec.network = network_label(object.meta.labels);
  if (entry.spec.network.empty()) entry.spec.network = network_label(entry.spec.labels);
  if (checked && equals_ignoring_case(*checked, "true"))
    entry.healthy = find_condition(object.root->find("status"), "Healthy", "True") != nullptr;
  entry.meta = std::move(object.meta);
  return entry;
}

}  // namespace meshdns::registry
