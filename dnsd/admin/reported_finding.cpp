// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/reported_finding.hpp"

namespace meshdns::dnsd {
namespace {

void put_place(JsonWriter& json, const registry::ObjectPlace& place) {
  put(json, "path", place.path);
  put(json, "line", place.line);
  put(json, "kind", place.kind);
  put(json, "object", place.object);
}

}  // namespace

ReportedFinding reported(const registry::Finding& finding) {
  const bool is_error = finding.severity == registry::Severity::Error;
  return {is_error ? kInvalidId : kDoubtfulId,
          registry::to_string(finding.severity),
          {finding.path, finding.line, finding.kind, finding.object},
          finding.field,
          finding.message};
}

ReportedFinding reported(const registry::MeshFinding& finding) {
  return {id_of(finding.kind), to_string(finding.weight), finding.place,
          finding.field,       finding.message,           finding.other};
}

void put_finding(JsonWriter& json, const ReportedFinding& finding) {
  json.StartObject();
  put(json, "id", finding.id);
  put(json, "severity", finding.level);
  put_place(json, finding.place);
  put(json, "field", finding.field);
  put(json, "message", finding.message);
  if (finding.other) {
    json.Key("other");
    json.StartObject();
    put_place(json, *finding.other);
    json.EndObject();
  }
  json.EndObject();
}

}  // namespace meshdns::dnsd
