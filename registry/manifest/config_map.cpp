// SPDX-License-Identifier: Apache-2.0
// The MeshConfig of Istio: YAML text under the key `mesh` of a ConfigMap.  It has hundreds of
// fields; only those that change names, or that explanations of connections need, are read, and all
// others are passed over in silence.  The key `meshNetworks` has its MeshNetworks.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "registry/base/host_name.hpp"
#include "registry/manifest/object.hpp"
#include "registry/manifest/validate.hpp"
#include "registry/model/labels.hpp"

namespace meshdns::registry {
namespace {

constexpr Message kConfigMap{words<"apiVersion kind metadata data binaryData immutable">};

// Prefixes of all networks: each endpoint without a network is compared with all of them.
constexpr std::size_t kMaxNetworkPrefixes = 1'024;

// In the order of the enumerations.
constexpr std::array<std::string_view, 3> kVisibilities = {"PUBLIC", "NAMESPACE", "NONE"};
constexpr auto& kSelectorOperators = words<"In NotIn Exists DoesNotExist">;
constexpr auto& kOutboundModes = words<"REGISTRY_ONLY ALLOW_ANY ALLOW_ANY_DYNAMIC_DNS">;

// A ConfigMap has at most 1 MiB.
const DocumentLimits kMeshConfigLimits{
    .max_bytes = std::size_t{1} << 20, .max_depth = 64, .max_values = 100'000};

bool is_namespace_word(std::string_view text) {
  return text == "*" || text == "." || text == "~" || is_lower_label(text);
}

void read_root_namespace(Report& report, const Field& at, MeshConfig& config) {
  const auto text = read_string(report, at);
  if (!text || text->empty()) return;
  if (auto reason = why_no_lower_label(*text)) return report.error(at, std::move(*reason));
  config.root_namespace = *text;
}

// Istio does not judge combinations: "*" includes all others.
void read_default_export_to(Report& report, const Field& list, MeshConfig& config) {
  ExportTo export_to;
  for_each_string(report, list, [&](const Field& at, std::string_view text) {
    if (!is_namespace_word(text))
      return report.error(at,
                          in_quotes(text) + R"( is not "*", ".", "~" or the name of a namespace)");
    export_to.emplace_back(text);
  });
  if (!export_to.empty()) config.default_service_export_to = std::move(export_to);
}

constexpr Message kRequirement{kSnakeCase, words<"key operator values">};

void read_requirement(Report& report, const Field& at, LabelRequirement& requirement) {
  using Operator = LabelRequirement::Operator;
  const Fields fields(report, at, kRequirement);
  requirement.key = read_string_or_empty(report, fields.get("key"));
  if (requirement.key.empty()) report.error(at, at.path("key"), "missing");
  const auto op = fields.get("operator");
  if (op)
    requirement.op =
        static_cast<Operator>(read_choice(report, *op, kSelectorOperators).value_or(0));
  else
    report.error(at, at.path("operator"), "missing; specify In, NotIn, Exists or DoesNotExist");
  if (const auto values = fields.get("values")) read_value(report, *values, requirement.values);
  const bool takes_values = requirement.op == Operator::In || requirement.op == Operator::NotIn;
  if (op && takes_values == requirement.values.empty())
    report.error(at, at.path("values"),
                 takes_values ? "In and NotIn need at least one value"
                              : "Exists and DoesNotExist take no values");
}

void read_requirements(Report& report, const Field& list, LabelSelector& selector) {
  for_each_element(report, list, [&](const Field& at) {
    read_requirement(report, at, selector.match_expressions.emplace_back());
  });
}

constexpr Message kSelector{kSnakeCase, FieldRule{"matchLabels", &LabelSelector::match_labels},
                            FieldRule{"matchExpressions", read_requirements}};

void read_namespace_selector(Report& report, const Field& at, VisibilityPolicy& policy) {
  read_message(report, at, kSelector, policy.namespace_selectors.emplace_back());
}

constexpr Message kMatchingRule{kSnakeCase,
                                FieldRule{"namespaceSelector", read_namespace_selector}};
constexpr Message kVisibilityPolicy{
    kSnakeCase, FieldRule{"visibility", enum_of<kVisibilities, &VisibilityPolicy::visibility>},
    FieldRule{"matchingRules", each_nested<kMatchingRule>}};
constexpr Message kVisibility{
    kSnakeCase,
    FieldRule{"defaultVisibility",
              enum_of<kVisibilities, &ServiceEntryVisibility::default_visibility>},
    FieldRule{"policies", list_of<kVisibilityPolicy, &ServiceEntryVisibility::policies>},
    words<"applyToSidecars">};

void read_visibility(Report& report, const Field& at, MeshConfig& config) {
  read_message(report, at, kVisibility, config.service_entry_visibility.emplace());
}

struct OutboundMode {
  std::size_t mode = 0;  // as Istio takes a policy without a mode
};
constexpr Message kOutboundPolicy{
    kSnakeCase, FieldRule{"mode", enum_of<kOutboundModes, &OutboundMode::mode>}, words<"tls">};

void read_outbound_policy(Report& report, const Field& at, MeshConfig& config) {
  OutboundMode read;
  if (!read_message(report, at, kOutboundPolicy, read)) return;
  const bool is_registry_only = kOutboundModes[read.mode] == "REGISTRY_ONLY";
  set_outbound_policy(config.meta,
                      is_registry_only ? OutboundPolicy::RegistryOnly : OutboundPolicy::AllowAny);
}

constexpr Message kMeshFields{kSnakeCase, FieldRule{"rootNamespace", read_root_namespace},
                              FieldRule{"defaultServiceExportTo", read_default_export_to},
                              FieldRule{"serviceEntryVisibility", read_visibility},
                              FieldRule{"outboundTrafficPolicy", read_outbound_policy}};

// The networks so far; the fields of one go to the last.
struct NetworksReading {
  MeshNetworks networks;
  std::size_t prefixes = 0;
};

void read_registry(Report& report, const Field& at, NetworksReading& reading) {
  if (const auto registry = read_string_or_empty(report, at); !registry.empty())
    reading.networks.back().registries.emplace_back(registry);
}

void read_cidr(Report& report, const Field& at, NetworksReading& reading) {
  const std::string_view text = read_string_or_empty(report, at);
  if (text.empty()) return;
  const auto prefix = IpPrefix::parse(text);
  if (!prefix) return report.error(at, in_quotes(text) + " is not a prefix like 10.0.0.0/16");
  if (++reading.prefixes == kMaxNetworkPrefixes + 1)
    report.error(at, "more than " + std::to_string(kMaxNetworkPrefixes) +
                         " prefixes, which is the maximum of all networks together");
  if (reading.prefixes <= kMaxNetworkPrefixes) reading.networks.back().prefixes.push_back(*prefix);
}

void read_gateway_service(Report& report, const Field& at, NetworksReading& reading) {
  const std::string_view text = read_string_or_empty(report, at);
  if (text.empty()) return;
  if (auto reason = why_no_fqdn(text)) return report.error(at, in_quotes(text) + " " + *reason);
  reading.networks.back().gateway_services.push_back(canonical_host(text));
}

void read_gateway_address(Report& report, const Field& at, NetworksReading& reading) {
  const std::string_view text = read_string_or_empty(report, at);
  if (text.empty()) return;
  if (const auto ip = IpAddress::parse(text))
    reading.networks.back().gateways.push_back(*ip);
  else
    report.warning(at, in_quotes(text) +
                           " is no IP address; meshdns does not look up the names of "
                           "gateways, and this one is left out");
}

constexpr Message kNetworkEndpoint{kSnakeCase, FieldRule{"fromRegistry", read_registry},
                                   FieldRule{"fromCidr", read_cidr}};
constexpr Message kNetworkGateway{
    kSnakeCase, FieldRule{"registryServiceName", read_gateway_service},
    FieldRule{"address", read_gateway_address}, words<"port locality">};
constexpr Message kNetwork{kSnakeCase, FieldRule{"endpoints", each_nested<kNetworkEndpoint>},
                           FieldRule{"gateways", each_nested<kNetworkGateway>}};

void read_networks(Report& report, const Field& networks, NetworksReading& reading) {
  if (!require_mapping(report, networks)) return;
  for (const Node& node : networks.node()) {
    reading.networks.emplace_back().name = node.key();
    if (!node.is_null()) read_message(report, Field(networks, node), kNetwork, reading);
  }
  std::ranges::sort(reading.networks, {}, &MeshNetwork::name);
}

constexpr Message kNetworksFields{kSnakeCase, FieldRule{"networks", read_networks}};

// Returns whether a fault of the text is in one of the fields that are read.
bool is_of_read_field(std::string_view path, const FieldNames& fields) {
  return std::ranges::any_of(fields.names,
                             [&](std::string_view name) { return path.starts_with(name); });
}

// Reads the document that a value of the ConfigMap is: a text whose lines say little about those of
// the manifest.  `known`: the fields of it that are read.
template <typename ReadRoot>
void read_text(Object& object, const Field& value, const FieldNames& known,
               const ReadRoot& read_root) {
  const auto text = read_string(object.report, value);
  if (!text) return;
  const auto complain = [&](Severity severity, std::uint32_t line, const std::string& field,
                            std::string message) {
    if (line > 0) message += " (line " + std::to_string(line) + " of the text)";
    object.report.add(severity, value.line(),
                      field.empty() ? value.path() : value.path() + "." + field,
                      std::move(message));
  };
  const FindingListener listener = [&](Finding&& finding) {
    complain(finding.severity, finding.line, finding.field, std::move(finding.message));
  };
  Report others({}, false, listener);
  Report fields({}, object.from_file, listener);
  bool is_first = true;
  const ReadResult read =
      read_handwritten_documents(*text, kMeshConfigLimits, [&](const Document& document) {
        if (!std::exchange(is_first, false))
          return complain(Severity::Error, document.root.line(), {},
                          "a second document; there is a single one");
        for (const DocumentProblem& problem : document.problems)
          if (is_of_read_field(problem.field, known))
            complain(Severity::Error, problem.line, printable(problem.field, 200), problem.message);
        read_root(others, fields, document.root);
      });
  if (!read)
    complain(Severity::Error, read.error().line, {}, "is no YAML: " + read.error().message);
}

void read_data(Object& object, const Field& data, MeshConfig& config) {
  const auto for_value = [&](std::string_view key, const auto& visit) {
    const Node* const value = data->find(key);
    if (value != nullptr && !value->is_null()) visit(Field(data, *value));
  };
  for_value("mesh", [&](const Field& mesh) {
    // Other fields may be any that Istio knows.
    read_text(object, mesh, kMeshFields, [&](Report& others, Report& report, const Node& root) {
      const Field at(root);
      read_fields(report, Fields(others, at, kMeshFields), kMeshFields, config);
    });
  });
  for_value("meshNetworks", [&](const Field& networks) {
    read_text(object, networks, kNetworksFields, [&](Report&, Report& report, const Node& root) {
      NetworksReading reading;
      read_message(report, Field(root), kNetworksFields, reading);
      config.networks = std::move(reading.networks);
    });
  });
}

}  // namespace

bool is_other_config_map(const Node& object, bool from_file) {
  const Node* const metadata = object.find("metadata");
  const Node* const name = metadata == nullptr ? nullptr : metadata->find("name");
  const std::string_view text = name == nullptr ? std::string_view() : name->value();
  if (text == "istio") return false;
  if (!text.starts_with("istio-")) return true;
  const Node* const data = object.find("data");
  return from_file && (data == nullptr || data->find("mesh") == nullptr);
}

Resource read_config_map(Object& object) {
  const Fields fields(object.report, object.root, kConfigMap);
  MeshConfig config;
  config.meta = std::move(object.meta);
  if (const auto data = fields.get("data"); data && require_mapping(object.report, *data))
    read_data(object, *data, config);
  return config;
}

}  // namespace meshdns::registry
