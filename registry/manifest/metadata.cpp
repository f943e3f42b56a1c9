// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include "registry/manifest/object.hpp"
#include "registry/manifest/times.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {

namespace {

constexpr Message kMetadata{
    words<"name namespace labels annotations creationTimestamp generateName uid resourceVersion "
          "generation selfLink ownerReferences finalizers managedFields clusterName "
          "deletionTimestamp deletionGracePeriodSeconds">};

void read_name(Object& object, const Field& metadata, const Fields& fields, NameRule rule) {
  const auto name = fields.get("name");
  if (!name) {
    object.report.error(metadata, "metadata.name", "the object has no name");
    return;
  }
  const auto text = read_string(object.report, *name);
  if (!text) return;
  auto reason = rule == NameRule::Label ? why_no_lower_label(*text) : why_no_lower_subdomain(*text);
  if (reason) object.report.error(*name, std::move(*reason));
  object.meta.name = *text;
}

void read_namespace_name(Object& object, const Fields& fields, bool is_namespaced,
                         const ManifestOptions& options) {
  if (!is_namespaced) return;
  object.meta.ns = options.default_namespace;
  const auto ns = fields.get("namespace");
  if (!ns) return;
  const auto text = read_string(object.report, *ns);
  if (!text || text->empty()) return;
  object.meta.ns = *text;
  if (auto reason = why_no_lower_label(*text)) object.report.error(*ns, std::move(*reason));
}

void read_creation_time(Object& object, const Fields& fields) {
  const auto created = fields.get("creationTimestamp");
  if (!created) return;
  const auto time = parse_timestamp_ms((*created)->value());
  if (time)
    object.meta.creation_time =
        std::chrono::floor<std::chrono::seconds>(std::chrono::milliseconds(*time)).count();
  else
    object.report.warning(*created, in_quotes((*created)->value()) +
                                        " is not a time such as 2026-01-31T12:00:00Z; the object "
                                        "is treated as the oldest");
}

}  // namespace

std::optional<std::string_view> Object::annotation(std::string_view name) const {
  const Node* const value = annotations == nullptr ? nullptr : annotations->find(name);
  return value == nullptr ? std::nullopt : value->as_string();
}

void Object::annotation_finding(Severity severity, std::string_view name, std::string message) {
  const Node* const value = annotations == nullptr ? nullptr : annotations->find(name);
  std::string path = "metadata.annotations.";
  path += name;
  report.add(severity, value == nullptr ? root.line() : value->line(), std::move(path),
             std::move(message));
}

std::optional<std::string_view> Object::label(std::string_view name) const {
  const auto at =
      std::ranges::lower_bound(meta.labels, name, {}, &std::pair<std::string, std::string>::first);
  if (at == meta.labels.end() || at->first != name) return std::nullopt;
  return at->second;
}

void read_metadata(Object& object, NameRule rule, bool is_namespaced,
                   const ManifestOptions& options) {
  object.meta.cluster = options.cluster;
  object.meta.network = options.network;
  if (is_namespaced) object.meta.ns = options.default_namespace;
  const Node* const node = object.root->find("metadata");
  if (node == nullptr || node->is_null()) {
    object.report.error(object.root, "metadata.name", "the object has no name");
    return;
  }
  const Field metadata(object.root, *node);
  if (!require_mapping(object.report, metadata)) return;
  // Name and namespace come first, so that every later finding can say which object it is.
  std::string_view ns = is_namespaced ? std::string_view(options.default_namespace) : "";
  const Node* const given_ns = node->find("namespace");
  if (is_namespaced && given_ns != nullptr && !given_ns->is_null() && !given_ns->value().empty())
    ns = given_ns->value();
  const Node* const name = node->find("name");
  if (name != nullptr && !name->is_null()) object.meta.name = name->value();
  object.meta.ns = ns;
  object.report.set_object(ns, name == nullptr || name->is_null() ? "" : name->value());

  const Fields fields(object.report, metadata, kMetadata);
  read_name(object, metadata, fields, rule);
  read_namespace_name(object, fields, is_namespaced, options);
  read_creation_time(object, fields);
  object.meta.labels = read_labels(object.report, fields.get("labels"));
  const auto annotations = fields.get("annotations");
  read_labels(object.report, annotations);
  if (annotations && (*annotations)->is_mapping()) object.annotations = &annotations->node();
  object.is_being_deleted = fields.get("deletionTimestamp").has_value();
}

std::optional<Field> read_spec(Object& object, const Fields& fields, std::string_view missing) {
  auto spec = fields.get("spec");
  if (!spec) object.report.error(object.root, "spec", std::string(missing));
  if (spec && !require_mapping(object.report, *spec)) spec.reset();
  return spec;
}

void check_istio_annotations(Object& object) {
  constexpr auto& refused =
      words<"istio.io/dry-run internal.istio.io/webhook-always-reject internal.istio.io/parents">;
  for (const std::string_view name : refused)
    if (object.annotations != nullptr && object.annotations->find(name) != nullptr)
      object.annotation_finding(Severity::Error, name,
                                "Istio refuses this annotation here; remove it");
}

}  // namespace meshdns::registry
