// SPDX-License-Identifier: Apache-2.0
// One object on its way from a tree to a resource: its metadata, and the readers of each kind.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "registry/manifest/decode.hpp"
#include "registry/manifest/fields.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {

struct Object {
  Report& report;
  Field root;
  std::string_view api_version;
  ObjectMeta meta;
  const Node* annotations = nullptr;   // a mapping, or null
  bool is_being_deleted = false;       // metadata.deletionTimestamp is set
  bool from_file = true;               // ManifestOptions::from_file
  bool has_names_of_services = false;  // Kind::Service is in ManifestOptions::gateway_kinds

  // The text of an annotation; nullopt when it is absent or no string.
  std::optional<std::string_view> annotation(std::string_view name) const;
  // A finding on one annotation.
  void annotation_finding(Severity severity, std::string_view name, std::string message);
  std::optional<std::string_view> label(std::string_view name) const;
};

// The fields of most objects, of which the kinds read what they need.
inline constexpr Message kObject{words<"apiVersion kind metadata spec status">};
// The spec of an object, which must have one; else an error.
std::optional<Field> read_spec(Object& object, const Fields& fields, std::string_view missing);

// The rule of a kind for metadata.name.
enum class NameRule : std::uint8_t { Label, Subdomain };

// Fills object.meta and the other fields from metadata.
void read_metadata(Object& object, NameRule rule, bool is_namespaced,
                   const ManifestOptions& options);

// Each reads one kind.  Errors are in object.report; the result is only valid if the report refuses
// nothing.
Resource read_service_entry(Object& object);
Resource read_workload_entry(Object& object);
Resource read_sidecar(Object& object);
Resource read_virtual_service(Object& object);
Resource read_service(Object& object);
Resource read_endpoint_slice(Object& object);
Resource read_endpoints(Object& object);
Resource read_pod(Object& object);
Resource read_namespace(Object& object);
Resource read_node(Object& object);
Resource read_service_export(Object& object);
Resource read_service_import(Object& object);
Resource read_config_map(Object& object);
Resource read_gateway(Object& object);
Resource read_http_route(Object& object);
Resource read_tls_route(Object& object);
Resource read_grpc_route(Object& object);
Resource read_ingress(Object& object);
// Returns whether a ConfigMap is none with Istio's MeshConfig: it is then passed over, as other
// kinds without bearing are.  Those are named `istio` or `istio-REVISION`; in files, where Istio
// has other ConfigMaps with such names, the latter also have the key `mesh`.
bool is_other_config_map(const Node& object, bool from_file);

// The spec of a WorkloadEntry, also inline in a ServiceEntry: types and labels only.  The caller
// checks the address and the ports.
WorkloadSpec read_workload_spec(Report& report, const Field& field);
// The rules that hold wherever a workload's address may be an IP, a name or a socket.
// `service_ports` are the names that the port map may use; null = any.
void check_workload_address(Report& report, const Field& field, bool may_be_name);
void check_unix_ports(Report& report, const Field& field);

// The annotation networking.istio.io/traffic-distribution; Unset without it.
TrafficDistribution read_traffic_distribution(Object& object);

// The annotations that Istio's webhook refuses on every kind of its own.
void check_istio_annotations(Object& object);

}  // namespace meshdns::registry
