// SPDX-License-Identifier: Apache-2.0
// multicluster.x-k8s.io ServiceExport and ServiceImport (also as net.gke.io has them).
#include <array>

#include "registry/base/host_name.hpp"
#include "registry/manifest/object.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {

namespace {

constexpr std::array<std::string_view, 5> kImportObjectNames = {"apiVersion", "kind", "metadata",
                                                                "spec", "status"};
constexpr auto kImportNames = std::to_array<std::string_view>(
    {"type", "ips", "ports", "sessionAffinity", "sessionAffinityConfig", "ipFamilies",
     "internalTrafficPolicy", "trafficDistribution"});
constexpr std::array<std::string_view, 4> kImportPortNames = {"name", "protocol", "port",
                                                              "appProtocol"};
constexpr std::array<std::string_view, 2> kImportTypes = {"ClusterSetIP", "Headless"};

void read_import(Report& report, const Field& spec, ServiceImport& import) {
  const Fields fields(report, spec, {kImportNames});
  import.headless =
      kImportTypes[read_choice_or_first(report, fields.get("type"), kImportTypes)] == "Headless";
  for_each_element(report, fields.get("ips"), [&](const Field& at) {
    if (const auto ip = read_ip(report, at)) import.ips.push_back(*ip);
  });
  for_each_element(report, fields.get("ports"), [&](const Field& at) {
    const Fields port_fields(report, at, {kImportPortNames});
    if (!at->is_mapping()) return;
    ServicePort port;
    const auto name = port_fields.get("name");
    port.name = to_lower(read_string_or_empty(report, name));
    if (!port.name.empty() && !is_label(port.name)) check_port_name(report, *name, port.name);
    port.protocol = read_kube_protocol(report, port_fields.get("protocol"));
    if (const auto number = port_fields.get("port"))
      port.number = read_port(report, *number).value_or(0);
    else
      report.error(at, at.path("port"), "missing; specify 1..65535");
    import.ports.push_back(std::move(port));
  });
}

// The controller of the cluster set knows of it: this API shows the objects of one cluster only.
void warn_of_conflict(Object& object, const std::optional<Field>& status) {
  const Node* const conditions =
      status && (*status)->is_mapping() ? (*status)->find("conditions") : nullptr;
  if (conditions == nullptr || !conditions->is_sequence()) return;
  for (const Node& condition : *conditions) {
    const Node* const type = condition.find("type");
    const Node* const value = condition.find("status");
    if (type == nullptr || value == nullptr || type->value() != "Conflict" ||
        value->value() != "True")
      continue;
    const Node* const message = condition.find("message");
    const std::string why =
        message == nullptr ? std::string() : ": " + in_quotes(std::string(message->value()));
    return object.report.add(Severity::Warning, condition.line(), "status.conditions",
                             "this export contradicts that of another cluster, and the older one "
                             "counts" +
                                 why);
  }
}

}  // namespace

Resource read_service_export(Object& object) {
  const Fields fields(object.report, object.root, {kImportObjectNames});
  warn_of_conflict(object, fields.get("status"));
  return ServiceExport{std::move(object.meta)};
}

Resource read_service_import(Object& object) {
  const Fields fields(object.report, object.root, {kImportObjectNames});
  ServiceImport import;
  if (const auto spec = fields.get("spec"))
    read_import(object.report, *spec, import);
  else
    object.report.error(object.root, "spec", "missing; specify type, ips and ports");
  import.meta = std::move(object.meta);
  return import;
}

}  // namespace meshdns::registry
