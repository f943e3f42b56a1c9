// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/decode.hpp"

#include <algorithm>

#include "registry/manifest/kinds.hpp"
#include "registry/manifest/object.hpp"

namespace meshdns::registry {

namespace {

struct GroupVersion {
  std::string_view group;
  std::string_view version;
};

GroupVersion split_api_version(std::string_view api_version) {
  const std::size_t slash = api_version.find('/');
  if (slash == std::string_view::npos) return {"", api_version};
  return {api_version.substr(0, slash), api_version.substr(slash + 1)};
}

std::string join(std::string_view group, std::string_view version) {
  std::string out(group);
  if (!out.empty()) out += '/';
  return out += version;
}

std::string_view string_member(const Node& object, std::string_view name) {
  const Node* const value = object.find(name);
  if (value == nullptr) return {};
  return value->as_string().value_or(std::string_view());
}

// The name for findings on objects that no reader looks at.
void name_object(Report& report, const Node& object) {
  const Node* const metadata = object.find("metadata");
  if (metadata == nullptr) return;
  report.set_object(string_member(*metadata, "namespace"), string_member(*metadata, "name"));
}

Decoded fault(Report& report, const Field& at, std::string field, std::string message) {
  report.error(at, std::move(field), std::move(message));
  return {Decoded::Outcome::Faulty, {}, {}};
}

std::uint32_t line_of_version(const Field& root) {
  const Node* const value = root->find("apiVersion");
  return value == nullptr ? root.line() : value->line();
}

// Another project's group, so far as its name shows.
bool is_foreign_group(std::string_view group) {
  return group.contains('.') && !group.ends_with(".istio.io") && !group.ends_with(".k8s.io");
}

std::string did_you_mean_group(std::string_view group) {
  const auto nearest = nearest_group(group);
  return nearest ? "; did you mean " + in_quotes(*nearest) + "?" : std::string();
}

// A kind of ours under a group that is not: another project's kind of that name, or a slip.
Decoded judge_foreign_group(Report& report, const Field& root, const KindReader& reader,
                            std::string_view api_version) {
  const std::string_view group = split_api_version(api_version).group;
  const std::string guess = did_you_mean_group(group);
  std::string message = in_quotes(api_version);
  message += " is not supported for this kind, only ";
  message += join(reader.group, reader.versions.front());
  if (is_foreign_group(group)) {
    report.add(Severity::Warning, line_of_version(root), "apiVersion",
               message + "; the object is ignored" + guess);
    return {};
  }
  report.add(Severity::Error, line_of_version(root), "apiVersion", message + guess);
  return {
      Decoded::Outcome::Refused, {}, {.kind = reader.kind, .cluster = {}, .ns = {}, .name = {}}};
}

Decoded warn_of_unknown_kind(Report& report, const Field& root, const TypeMeta& type) {
  const std::string_view group = split_api_version(type.api_version).group;
  if (is_watched_group(group))
    report.add(Severity::Warning, root.line(), {},
               "unknown kind; the object is ignored" + did_you_mean_kind(group, type.kind));
  else
    report.add(Severity::Warning, line_of_version(root), "apiVersion",
               in_quotes(group) + " is an unknown group; the object is ignored" +
                   did_you_mean_group(group));
  return {};
}

bool has_kind(const std::vector<Kind>& kinds, Kind kind) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

// The reader of a kind that gives names to gateways, if it is to be read.
const KindReader* find_gateway_reader(const TypeMeta& type, const ManifestOptions& options) {
  if (options.gateway_kinds.empty()) return nullptr;
  const KindReader* const reader =
      find_reader(split_api_version(type.api_version).group, type.kind);
  const bool is_read =
      reader != nullptr && reader->is_optional && has_kind(options.gateway_kinds, reader->kind);
  return is_read ? reader : nullptr;
}

// Kinds without bearing, and other projects' own: those of groups that are not read, unless the
// group is misspelt.  `any` is the reader of kinds of that name, if there is one.
bool is_of_no_concern(const TypeMeta& type, const KindReader* any) {
  if (is_kind_without_bearing(type.kind)) return true;
  const std::string_view group = split_api_version(type.api_version).group;
  if (is_watched_group(group) || nearest_group(group)) return false;
  // Many projects have a kind Service or Namespace.
  return any == nullptr || (any->group.empty() && is_foreign_group(group));
}

// Returns whether a document's faults leave it open what kind of object it is.
bool is_type_in_doubt(std::span<const DocumentProblem> problems) {
  return std::ranges::any_of(problems, [](const DocumentProblem& problem) {
    return problem.field == "kind" || problem.field == "apiVersion";
  });
}

bool is_known_version(Report& report, const Field& root, const KindReader& reader,
                      std::string_view api_version) {
  const std::string_view version = split_api_version(api_version).version;
  if (std::ranges::find(reader.versions, version) != reader.versions.end()) return true;
  std::string message = in_quotes(api_version);
  message += " is not supported; supported are";
  for (const std::string_view known : reader.versions) {
    message += known == reader.versions.front() ? " " : ", ";
    message += join(reader.group, known);
  }
  report.add(Severity::Error, line_of_version(root), "apiVersion", std::move(message));
  return false;
}

Decoded read_with(const KindReader& reader, Report& report, const Field& root,
                  std::string_view api_version, const ManifestOptions& options) {
  Object object{.report = report,
                .root = root,
                .api_version = api_version,
                .meta = {},
                .from_file = options.from_file,
                .has_names_of_services = has_kind(options.gateway_kinds, Kind::Service)};
  read_metadata(object, reader.name_rule, reader.is_namespaced, options);
  ResourceKey key{reader.kind, object.meta.cluster, object.meta.ns, object.meta.name};
  if (!is_known_version(report, root, reader, api_version))
    return {Decoded::Outcome::Refused, {}, std::move(key)};
  Resource resource = reader.read(object);
  if (report.is_refused()) return {Decoded::Outcome::Refused, {}, std::move(key)};
  return {Decoded::Outcome::Accepted, std::move(resource), std::move(key)};
}

// A directory of manifests often has other files: values.yaml, package.json.  With metadata it is
// an object that has lost its type; a scalar may be the beginning of one that is being written.
bool is_no_object(const Node& object, const TypeMeta& type, const ManifestOptions& options) {
  if (!options.from_file || !type.kind.empty() || !type.api_version.empty()) return false;
  return object.is_sequence() ||
         (object.is_mapping() && object.find("metadata") == nullptr &&
          object.find("kind") == nullptr && object.find("apiVersion") == nullptr);
}

}  // namespace

TypeMeta type_of(const Node& object) {
  return {string_member(object, "apiVersion"), string_member(object, "kind")};
}

Decoded decode_object(const Node& object, std::span<const DocumentProblem> problems,
                      const ManifestOptions& options, const FindingListener& listener) {
  return decode_object(object, type_of(object), problems, options, listener);
}

Decoded decode_object(const Node& object, const TypeMeta& type,
                      std::span<const DocumentProblem> problems, const ManifestOptions& options,
                      const FindingListener& listener) {
  Report report(options.path, options.from_file, listener);
  const Field root(object);
  report.set_kind(type.kind);
  name_object(report, object);
  const KindReader* const any = find_reader_of_any_group(type.kind);
  const bool is_ignored =
      !type.kind.empty() &&
      ((is_of_no_concern(type, any) && find_gateway_reader(type, options) == nullptr) ||
       (type.kind == to_string(Kind::ConfigMap) && is_other_config_map(object, options.from_file)));
  if (is_ignored && !is_type_in_doubt(problems)) return {};
  if (problems.empty() && is_no_object(object, type, options)) {
    report.add(Severity::Note, root.line(), {},
               "no object: it has neither apiVersion nor kind; it is ignored");
    return {};
  }
  for (const DocumentProblem& problem : problems)
    report.add(Severity::Error, problem.line, printable(problem.field, 200), problem.message);
  if (!object.is_mapping())
    return fault(report, root, {},
                 "expected an object with apiVersion, kind and metadata, got " +
                     std::string(object.describe()));
  if (type.kind.empty())
    return fault(report, root, "kind", "missing; an object needs apiVersion and kind");

  if (is_ignored) return {};
  if (any == nullptr) return warn_of_unknown_kind(report, root, type);
  if (type.api_version.empty()) {
    report.error(root, "apiVersion", "missing; specify " + join(any->group, any->versions.front()));
    return {Decoded::Outcome::Refused, {}, {any->kind, options.cluster, {}, {}}};
  }
  const KindReader* const reader =
      find_reader(split_api_version(type.api_version).group, type.kind);
  if (reader == nullptr) return judge_foreign_group(report, root, *any, type.api_version);
  return read_with(*reader, report, root, type.api_version, options);
}

}  // namespace meshdns::registry
