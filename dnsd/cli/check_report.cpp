// SPDX-License-Identifier: Apache-2.0
#include "dnsd/cli/check_report.hpp"

#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/admin/reported_finding.hpp"
#include "dnsd/answer/json_members.hpp"
#include "dnsd/cli/printed_lines.hpp"
#include "registry/base/hash.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

class TextReport final : public CheckReport {
 public:
  explicit TextReport(std::ostream& out) : out_(out), lines_(std::in_place, out) {}
  void add(const registry::Finding& finding) override { findings_.push_back(finding); }
  void add(const registry::MeshFinding& finding) override {
    print_findings();
    lines_->print(finding);
  }
  void end(const registry::CheckSummary& summary) override {
    print_findings();
    lines_.reset();
    out_ << summary.to_string() << '\n';
  }

 private:
  // Findings that say the same of so many objects are one line: they would hide all others.
  static constexpr std::size_t kMaxEqual = 3;

  // In what equal findings are equal.
  static std::string sense_of(const registry::Finding& finding) {
    return std::string(to_string(finding.severity)) + '\n' + finding.kind + '\n' + finding.field +
           '\n' + finding.message;
  }

  void print_findings() {
    TextMap<std::size_t> counts;
    for (const auto& finding : findings_) ++counts[sense_of(finding)];
    for (registry::Finding& finding : findings_) {
      std::size_t& count = counts[sense_of(finding)];
      const bool is_printed = finding.severity == registry::Severity::Error || count <= kMaxEqual;
      if (!is_printed && count != kPrinted) {
        finding.message += " (and " + std::to_string(count - 1) + " more like this)";
        lines_->print(finding);
        count = kPrinted;
      } else if (is_printed) {
        lines_->print(finding);
      }
    }
    findings_.clear();
  }
  static constexpr std::size_t kPrinted = ~std::size_t{0};

  std::ostream& out_;
  std::optional<PrintedLines> lines_;
  std::vector<registry::Finding> findings_;
};

class JsonReport final : public CheckReport {
 public:
  explicit JsonReport(std::ostream& out) : out_(out), json_(buffer_) {
    json_.StartObject();
    json_.Key("findings");
    json_.StartArray();
  }
  void add(const registry::Finding& finding) override { put_finding(json_, reported(finding)); }
  void add(const registry::MeshFinding& finding) override { put_finding(json_, reported(finding)); }
  void end(const registry::CheckSummary& summary) override {
    json_.EndArray();
    put(json_, "resources", summary.resources);
    put(json_, "errors", summary.errors);
    put(json_, "warnings", summary.warnings);
    put(json_, "notes", summary.notes);
    json_.EndObject();
    out_ << ascii_json(buffer_.GetString()) << '\n';
  }

 private:
  std::ostream& out_;
  rapidjson::StringBuffer buffer_;
  JsonWriter json_;
};

// https://docs.oasis-open.org/sarif/sarif/v2.1.0/
class SarifReport final : public CheckReport {
 public:
  explicit SarifReport(std::ostream& out) : out_(out), json_(buffer_) {
    json_.StartObject();
    put(json_, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    put(json_, "version", "2.1.0");
    json_.Key("runs");
    json_.StartArray();
    json_.StartObject();
    put_object("tool", [&] { put_object("driver", [&] { put_driver(); }); });
    json_.Key("results");
    json_.StartArray();
  }
  void add(const registry::Finding& finding) override { put_result(reported(finding)); }
  void add(const registry::MeshFinding& finding) override { put_result(reported(finding)); }
  void end(const registry::CheckSummary& summary) override {
    json_.EndArray();
    json_.Key("invocations");
    json_.StartArray();
    json_.StartObject();
    put_bool(json_, "executionSuccessful", !summary.cannot_run);
    json_.EndObject();
    json_.EndArray();
    json_.EndObject();
    json_.EndArray();
    json_.EndObject();
    out_ << ascii_json(buffer_.GetString()) << '\n';
  }

 private:
  template <typename PutMembers>
  void put_object(const char* key, PutMembers put_members) {
    json_.Key(key);
    json_.StartObject();
    put_members();
    json_.EndObject();
  }

  void put_text(const char* key, std::string_view text) {
    put_object(key, [&] { put(json_, "text", text); });
  }

  void put_driver() {
    put(json_, "name", "meshdnsd");
    put(json_, "version", MESHDNS_VERSION);
    json_.Key("rules");
    json_.StartArray();
    put_rule(kInvalidId, "An object is invalid and is not used.");
    put_rule(kDoubtfulId, "An object does not do what it seems to do.");
    for (const registry::FindingKind kind : registry::finding_kinds())
      put_rule(id_of(kind), title_of(kind));
    json_.EndArray();
  }

  void put_rule(std::string_view id, std::string_view title) {
    json_.StartObject();
    put(json_, "id", id);
    put_text("shortDescription", title);
    json_.EndObject();
  }

  void put_result(const ReportedFinding& finding) {
    json_.StartObject();
    put(json_, "ruleId", finding.id);
    put(json_, "level", finding.level);
    std::string text = finding.place.kind;
    if (!finding.place.object.empty()) text += (text.empty() ? "" : " ") + finding.place.object;
    if (!text.empty()) text += ": ";
    if (!finding.field.empty()) text += finding.field + ": ";
    put_text("message", text + finding.message);
    put_location("locations", finding.place);
    if (finding.other) put_location("relatedLocations", *finding.other);
    json_.EndObject();
  }

  // A list of one location.
  void put_location(const char* key, const registry::ObjectPlace& place) {
    json_.Key(key);
    json_.StartArray();
    json_.StartObject();
    put_object("physicalLocation", [&] {
      put_object("artifactLocation", [&] { put(json_, "uri", uri_of(place.path)); });
      if (place.line != 0) put_object("region", [&] { put(json_, "startLine", place.line); });
    });
    if (!place.object.empty()) put_text("message", place.kind + " " + place.object);
    json_.EndObject();
    json_.EndArray();
  }

  // Absolute paths become file URIs; others are relative to the directory of the run.
  static std::string uri_of(std::string_view path) {
    std::string uri = path.starts_with('/') ? "file://" : "";
    for (;;) {
      const auto slash = path.find('/');
      uri += percent_encoded(path.substr(0, slash));
      if (slash == std::string_view::npos) return uri;
      uri += '/';
      path.remove_prefix(slash + 1);
    }
  }

  std::ostream& out_;
  rapidjson::StringBuffer buffer_;
  JsonWriter json_;
};

}  // namespace

std::unique_ptr<CheckReport> make_check_report(CheckFormat format, std::ostream& out) {
  switch (format) {
    case CheckFormat::Text:
      return std::make_unique<TextReport>(out);
    case CheckFormat::Json:
      return std::make_unique<JsonReport>(out);
    case CheckFormat::Sarif:
      return std::make_unique<SarifReport>(out);
  }
  return nullptr;
}

}  // namespace meshdns::dnsd
