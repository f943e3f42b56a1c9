// SPDX-License-Identifier: Apache-2.0
// multicluster.x-k8s.io ServiceExport and ServiceImport (also as net.gke.io has them).
#include <array>

#include "registry/base/host_name.hpp"
#include "registry/manifest/object.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {

namespace {

constexpr std::array<std::string_view, 2> kImportTypes = {"ClusterSetIP", "Headless"};
constexpr Message kImportPort{
    FieldRule{"name", read_kube_port_name}, FieldRule{"protocol", read_kube_port_protocol},
    FieldRule{"port", &ServicePort::number, "missing; specify 1..65535"}, words<"appProtocol">};
constexpr Message kImport{FieldRule{"type", enum_or_first<kImportTypes, &ServiceImport::headless>},
                          FieldRule{"ips", &ServiceImport::ips},
                          FieldRule{"ports", kube_ports<kImportPort>},
                          words<"sessionAffinity sessionAffinityConfig ipFamilies "
                                "internalTrafficPolicy trafficDistribution">};

// The controller of the cluster set knows of it: this API shows the objects of one cluster only.
void warn_of_conflict(Object& object) {
  const Node* const conflict = find_condition(object.root->find("status"), "Conflict", "True");
  if (conflict == nullptr) return;
  const Node* const message = conflict->find("message");
  const std::string why =
      message == nullptr ? std::string() : ": " + in_quotes(std::string(message->value()));
  object.report.add(
      Severity::Warning, conflict->line(), "status.conditions",
      "this export contradicts that of another cluster, and the older one counts" + why);
}

}  // namespace

Resource read_service_export(Object& object) {
  const Fields fields(object.report, object.root, kObject);
  warn_of_conflict(object);
  return ServiceExport{std::move(object.meta)};
}

Resource read_service_import(Object& object) {
  const Fields fields(object.report, object.root, kObject);
  ServiceImport import;
  if (const auto spec = fields.get("spec"))
    read_message(object.report, *spec, kImport, import);
  else
    object.report.error(object.root, "spec", "missing; specify type, ips and ports");
  import.meta = std::move(object.meta);
  return import;
}

}  // namespace meshdns::registry
