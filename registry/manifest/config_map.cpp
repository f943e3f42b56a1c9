// SPDX-License-Identifier: Apache-2.0
// The MeshConfig of Istio: YAML text under the key `mesh` of a ConfigMap.  It has hundreds of
// fields; only those that change names are read, and all others are passed over in silence.  The
// key `meshNetworks` has its MeshNetworks.
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "registry/manifest/mesh_networks.hpp"
#include "registry/manifest/object.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {
namespace {

constexpr std::array<std::string_view, 6> kConfigMapNames = {
    "apiVersion", "kind", "metadata", "data", "binaryData", "immutable"};
constexpr std::array<std::string_view, 3> kMeshNames = {"rootNamespace", "defaultServiceExportTo",
                                                        "serviceEntryVisibility"};
constexpr std::array<std::string_view, 1> kMeshNetworksNames = {"networks"};
constexpr std::array<std::string_view, 3> kVisibilityNames = {"defaultVisibility",
                                                              "applyToSidecars", "policies"};
constexpr std::array<std::string_view, 2> kVisibilityPolicyNames = {"visibility", "matchingRules"};
constexpr std::array<std::string_view, 1> kRuleNames = {"namespaceSelector"};
constexpr std::array<std::string_view, 2> kSelectorNames = {"matchLabels", "matchExpressions"};
constexpr std::array<std::string_view, 3> kRequirementNames = {"key", "operator", "values"};

// In the order of the enumerations.
constexpr std::array<std::string_view, 3> kVisibilities = {"PUBLIC", "NAMESPACE", "NONE"};
constexpr std::array<std::string_view, 4> kSelectorOperators = {"In", "NotIn", "Exists",
                                                                "DoesNotExist"};

// A ConfigMap has at most 1 MiB.
const DocumentLimits kMeshConfigLimits{
    .max_bytes = std::size_t{1} << 20, .max_depth = 64, .max_values = 100'000};

bool is_namespace_word(std::string_view text) {
  return text == "*" || text == "." || text == "~" || is_lower_label(text);
}

class MeshConfigReader {
 public:
  // `fields` are the fields that are read, `others` may have any that Istio knows.
  MeshConfigReader(Report& others, Report& fields, MeshConfig& config)
      : others_(others), report_(fields), config_(config) {}

  void read(const Node& root) {
    const Field at(root);
    const Fields fields(others_, at, {kMeshNames, true});
    if (const auto ns = fields.get("rootNamespace")) read_root_namespace(*ns);
    if (const auto list = fields.get("defaultServiceExportTo")) read_default_export_to(*list);
    if (const auto visibility = fields.get("serviceEntryVisibility")) read_visibility(*visibility);
  }

 private:
  void read_root_namespace(const Field& at) {
    const auto text = read_string(report_, at);
    if (!text || text->empty()) return;
    if (auto reason = why_no_lower_label(*text)) return report_.error(at, std::move(*reason));
    config_.root_namespace = *text;
  }

  // Istio does not judge combinations: "*" includes all others.
  void read_default_export_to(const Field& list) {
    ExportTo export_to;
    for_each_string(report_, list, [&](const Field& at, std::string_view text) {
      if (!is_namespace_word(text))
        return report_.error(
            at, in_quotes(text) + R"( is not "*", ".", "~" or the name of a namespace)");
      export_to.emplace_back(text);
    });
    if (!export_to.empty()) config_.default_service_export_to = std::move(export_to);
  }

  void read_visibility(const Field& at) {
    const Fields fields(report_, at, {kVisibilityNames, true});
    ServiceEntryVisibility& visibility = config_.service_entry_visibility.emplace();
    if (const auto fallback = fields.get("defaultVisibility"))
      visibility.default_visibility = read_visibility_word(*fallback);
    for_each_element(report_, fields.get("policies"), [&](const Field& policy) {
      visibility.policies.push_back(read_policy(policy));
    });
  }

  Visibility read_visibility_word(const Field& at) {
    return static_cast<Visibility>(read_choice(report_, at, kVisibilities).value_or(0));
  }

  VisibilityPolicy read_policy(const Field& at) {
    const Fields fields(report_, at, {kVisibilityPolicyNames, true});
    VisibilityPolicy policy;
    if (const auto word = fields.get("visibility")) policy.visibility = read_visibility_word(*word);
    for_each_element(report_, fields.get("matchingRules"), [&](const Field& rule) {
      const Fields rule_fields(report_, rule, {kRuleNames, true});
      if (const auto selector = rule_fields.get("namespaceSelector"))
        policy.namespace_selectors.push_back(read_selector(*selector));
    });
    return policy;
  }

  LabelSelector read_selector(const Field& at) {
    const Fields fields(report_, at, {kSelectorNames, true});
    LabelSelector selector;
    selector.match_labels = read_labels(report_, fields.get("matchLabels"));
    for_each_element(report_, fields.get("matchExpressions"), [&](const Field& requirement) {
      selector.match_expressions.push_back(read_requirement(requirement));
    });
    return selector;
  }

  LabelRequirement read_requirement(const Field& at) {
    using Operator = LabelRequirement::Operator;
    const Fields fields(report_, at, {kRequirementNames, true});
    LabelRequirement requirement;
    requirement.key = read_string_or_empty(report_, fields.get("key"));
    if (requirement.key.empty()) report_.error(at, at.path("key"), "missing");
    const auto op = fields.get("operator");
    if (!op)
      report_.error(at, at.path("operator"), "missing; specify In, NotIn, Exists or DoesNotExist");
    if (op)
      requirement.op =
          static_cast<Operator>(read_choice(report_, *op, kSelectorOperators).value_or(0));
    for_each_string(report_, fields.get("values"), [&](const Field&, std::string_view value) {
      requirement.values.emplace_back(value);
    });
    const bool takes_values = requirement.op == Operator::In || requirement.op == Operator::NotIn;
    if (op && takes_values == requirement.values.empty())
      report_.error(at, at.path("values"),
                    takes_values ? "In and NotIn need at least one value"
                                 : "Exists and DoesNotExist take no values");
    return requirement;
  }

  Report& others_;
  Report& report_;
  MeshConfig& config_;
};

// Whether a fault of the text is in one of the fields that are read.
bool is_of_read_field(std::string_view path, std::span<const std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view name) { return path.starts_with(name); });
}

// Reads the document that a value of the ConfigMap is: a text whose lines say little about those of
// the manifest.  `names`: the fields of it that are read.
template <typename ReadRoot>
void read_text(Object& object, const Field& value, std::span<const std::string_view> names,
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
          if (is_of_read_field(problem.field, names))
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
    read_text(object, mesh, kMeshNames, [&](Report& others, Report& fields, const Node& root) {
      MeshConfigReader(others, fields, config).read(root);
    });
  });
  for_value("meshNetworks", [&](const Field& networks) {
    read_text(object, networks, kMeshNetworksNames, [&](Report&, Report& fields, const Node& root) {
      config.networks = read_mesh_networks(fields, root);
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
  const Fields fields(object.report, object.root, {kConfigMapNames});
  MeshConfig config;
  if (const auto data = fields.get("data")) {
    if ((*data)->is_mapping())
      read_data(object, *data, config);
    else
      object.report.error(*data, "expected a mapping, got " + std::string((*data)->describe()));
  }
  config.meta = std::move(object.meta);
  return config;
}

}  // namespace meshdns::registry
