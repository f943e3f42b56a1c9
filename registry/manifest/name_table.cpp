// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/name_table.hpp"

#include <array>
#include <set>
#include <vector>

#include "registry/base/host_name.hpp"
#include "registry/manifest/fields.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {

namespace {

constexpr std::array<std::string_view, 5> kInfoNames = {"ips", "registry", "shortname", "namespace",
                                                        "altHosts"};
constexpr FieldNames kInfoFields{kInfoNames, true};

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
    NameTableEntry entry;
    entry.meta.name = canonical_host(host);
    entry.meta.cluster = options_.cluster;
    entry.meta.network = options_.network;
    const Field info(table, node);
    if (auto reason = why_no_wildcard_domain(host))
      report.error(info, std::string(), "the host " + *reason);
    read_info(report, info, entry);
    if (report.is_refused())
      sink_.on_refused({Kind::NameTableEntry, entry.meta.cluster, entry.meta.ns, entry.meta.name},
                       node.line());
    else
      sink_.on_resource(std::move(entry), node.line());
  }

  static void read_info(Report& report, const Field& info, NameTableEntry& entry) {
    const Fields fields(report, info, kInfoFields);
    read_ips(report, fields.get("ips"), entry);
    entry.kubernetes = read_string_or_empty(report, fields.get("registry")) == "Kubernetes";
    entry.short_name = to_lower(read_string_or_empty(report, fields.get("shortname")));
    entry.meta.ns = to_lower(read_string_or_empty(report, fields.get("namespace")));
    for_each_string(report, fields.get("altHosts"), [&](const Field& at, std::string_view text) {
      if (auto reason = why_no_wildcard_domain(text))
        return report.error(at, quoted(text) + " " + *reason);
      entry.alt_hosts.push_back(canonical_host(text));
    });
  }

  // The host keeps its good addresses.  It is refused if it has none but texts that are no
  // addresses: without one it would be forwarded.
  static void read_ips(Report& report, const std::optional<Field>& list, NameTableEntry& entry) {
    bool has_no_address = false;
    for_each_string(report, list, [&](const Field& at, std::string_view text) {
      const auto ip = IpAddress::parse(text);
      has_no_address |= !ip;
      if (!ip)
        report.warning(at, quoted(text) + " is not an IP address; it is left out");
      else if (ip->is_unspecified())
        report.warning(at, quoted(text) + " is the unspecified address; it is left out");
      else
        entry.ips.push_back(*ip);
    });
    if (has_no_address && entry.ips.empty()) report.error(*list, "has no valid address");
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
