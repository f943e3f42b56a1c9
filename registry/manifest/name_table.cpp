// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/name_table.hpp"

#include <vector>

#include "registry/manifest/fields.hpp"
#include "registry/manifest/name_entry.hpp"

namespace meshdns::registry {

namespace {

constexpr Message kInfo{kSnakeCase, words<"ips registry shortname namespace altHosts">};

class NameTableReader {
 public:
  NameTableReader(const ManifestOptions& options, ManifestSink& sink)
      : options_(options),
        sink_(sink),
        listener_([this](Finding&& finding) { sink_.on_finding(std::move(finding)); }) {}

  // Returns an error of the document as a whole, or nullopt after it has passed on the hosts.
  std::optional<SyntaxError> read(const Document& document) {
    // A duplicate key makes the table ambiguous, so the whole table is refused.
    if (!document.problems.empty()) {
      const DocumentProblem& problem = document.problems.front();
      return SyntaxError{problem.line, problem.field + ": " + problem.message};
    }
    const std::vector<const Node*> tables = find_tables(document.root);
    if (tables.empty())
      return SyntaxError{document.root.line(),
                         R"(not a name table: the mapping "table" is missing)"};
    for (const Node* const table : tables) {
      const Field field(*table);
      for (const Node& info : *table) read_host(field, info);
    }
    return std::nullopt;
  }

  void report(const SyntaxError& error) {
    sink_.on_finding({Severity::Error, options_.path, error.line, {}, {}, {}, error.message});
  }

 private:
  static std::vector<const Node*> find_tables(const Node& root) {
    std::vector<const Node*> tables;
    const auto take = [&](const Node& message) {
      const Node* const table = message.find("table");
      if (table != nullptr && table->is_mapping()) tables.push_back(table);
    };
    take(root);
    if (const Node* const configs = root.find("configs"); configs != nullptr)
      for (const Node& config : *configs) take(config);
    return tables;
  }

  void read_host(const Field& table, const Node& node) {
    const std::string_view host = node.key();
    Report report(options_.path, true, listener_);
    report.set_kind(to_string(Kind::NameTableEntry));
    report.set_object({}, host);
    ObjectMeta meta;
    meta.cluster = options_.cluster;
    meta.network = options_.network;
    NameEntryBuilder entry(std::move(meta));
    const Field info(table, node);
    if (auto complaint = entry.set_host(host))
      report.error(info, std::string(), *std::move(complaint));
    read_info(report, info, entry);
    if (report.is_refused())
      sink_.on_refused(entry.key(), node.line());
    else
      sink_.on_resource(entry.take(), node.line());
  }

  static void read_info(Report& report, const Field& info, NameEntryBuilder& entry) {
    const Fields fields(report, info, kInfo);
    const auto ips = fields.get("ips");
    for_each_string(report, ips, [&](const Field& at, std::string_view text) {
      if (auto complaint = entry.add_ip(text)) report.warning(at, *std::move(complaint));
    });
    if (auto complaint = entry.check_ips()) report.error(*ips, *std::move(complaint));
    entry.set_registry(read_string_or_empty(report, fields.get("registry")));
    entry.set_short_name(read_string_or_empty(report, fields.get("shortname")));
    entry.set_namespace(read_string_or_empty(report, fields.get("namespace")));
    for_each_string(report, fields.get("altHosts"), [&](const Field& at, std::string_view text) {
      if (auto complaint = entry.add_alt_host(text)) report.error(at, *std::move(complaint));
    });
  }

  const ManifestOptions& options_;
  ManifestSink& sink_;
  FindingListener listener_;
};

Result<void> refuse(NameTableReader& reader, const ManifestOptions& options,
                    const SyntaxError& error) {
  reader.report(error);
  return fail(options.path + ":" + std::to_string(error.line) + ": " + error.message);
}

}  // namespace

Result<void> read_name_table(std::string_view text, const ManifestOptions& options,
                             ManifestSink& sink) {
  NameTableReader reader(options, sink);
  JsonParser parser;
  const auto root = parser.parse(text);
  if (!root) return refuse(reader, options, root.error());
  if (const auto fault = reader.read({**root, parser.problems()}))
    return refuse(reader, options, *fault);
  return {};
}

}  // namespace meshdns::registry
