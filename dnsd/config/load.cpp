// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/load.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "dnsd/config/config.hpp"
#include "dnsd/config/istio_vm.hpp"
#include "dnsd/config/schema.hpp"
#include "dnsd/config/sections.hpp"
#include "dnsd/config/value_codecs.hpp"
#include "dnsd/config/values.hpp"
#include "registry/base/durable_file.hpp"
#include "registry/manifest/document.hpp"
#include "registry/model/mesh_settings.hpp"

namespace meshdns::dnsd {
namespace {

using namespace schema;

// Addresses of the admin endpoints beside those of other keys.
void check_admin_addresses(const Config& config, const Node& node, const Place& place) {
  const Node* const admin = node.find("admin");
  const auto check = [&](std::string_view key, const AdminAddress& address,
                         const AdminAddress& other, std::string_view other_key) {
    if (need_one_place(address, other))
      place.at("admin").at(key).error(line_of(admin == nullptr ? node : *admin, key),
                                      in_quotes(to_string(address)) + " cannot be bound beside " +
                                          in_quotes(to_string(other)) + " of " +
                                          std::string(other_key) + "; choose another address");
  };
  const auto check_others = [&](std::string_view key, const AdminAddress& address) {
    for (const SocketAddress& other : config.server.listen)
      check(key, address, other, "server.listen");
    if (!config.server.handover.empty())
      check(key, address, UnixAddress{config.server.handover}, "server.handover");
  };
  for (const AdminAddress& address : config.admin.listen) check_others("listen", address);
  const auto& metrics = config.admin.metrics_listen;
  if (!metrics) return;
  check_others("metrics_listen", *metrics);
  for (const AdminAddress& other : config.admin.listen)
    check("metrics_listen", *metrics, other, "admin.listen");
}

void check_allocation(const Config& config, const Node& node, const Place& place) {
  if (config.mesh.auto_allocate != registry::AutoAllocate::Persistent) return;
  const Node* const mesh = node.find("mesh");
  const std::uint32_t line = line_of(mesh == nullptr ? node : *mesh, "auto_allocate");
  const Place at = place.at("mesh").at("auto_allocate");
  if (config.state_dir.empty())
    at.warn(line,
            "persistent without state_dir: a restart may move virtual addresses; set state_dir");
  // Both daemons would assign addresses at the same time, and only one of them has state_dir.
  if (!config.server.handover.empty())
    at.error(line, "persistent cannot be combined with server.handover; remove one of them");
}

void check_config(const Config& config, const Node& node, const Place& place) {
  check_admin_addresses(config, node, place);
  check_allocation(config, node, place);
}

// Prints the settings of the mesh that MeshConfig may change, each with its value and its origin.
void print_in_force(Json& json, const registry::MeshSettings& settings) {
  const auto put = [&](const char* key, const auto& codec, const auto& value,
                       registry::SettingOrigin origin) {
    json.Key(key);
    json.StartObject();
    json.Key("value");
    codec.print(json, value);
    json.Key("from");
    print_text(json, registry::describe_origin(settings, origin));
    json.EndObject();
  };
  const registry::SettingOrigins& origins = settings.origins;
  json.StartObject();
  put("mesh.root_namespace", namespace_name(), settings.root_namespace, origins.root_namespace);
  put("mesh.default_export_to", export_to(), settings.default_export_to, origins.default_export_to);
  put("mesh.service_entry_visibility", service_entry_visibility(),
      settings.service_entry_visibility, origins.service_entry_visibility);
  put("mesh.outbound_traffic_policy", enumeration<registry::OutboundPolicy>(),
      settings.outbound_policy, origins.outbound_policy);
  json.EndObject();
}

const registry::DocumentLimits kLimits{
    .max_bytes = std::size_t{1} << 20, .max_depth = 32, .max_values = 200'000};

constexpr std::size_t kMaxFindings = 100;

bool is_own(const UpstreamServer& upstream, const std::vector<SocketAddress>& listen) {
  const SocketAddress& server = upstream.address;
  return upstream.host.empty() && std::ranges::any_of(listen, [&](const SocketAddress& own) {
           const bool is_same_host =
               own.ip == server.ip || (own.ip.is_unspecified() && server.ip.is_loopback());
           return is_same_host && own.port == server.port && own.port != 0;
         });
}

// Warns of values that are good alone, and not what was meant.
void warn_of_slips(const Config& config, const Node& root, const Place& place) {
  const auto warn = [&](std::string_view section, std::string_view key, std::string message) {
    const Node* const of_section = root.find(section);
    const Node* const value = of_section == nullptr ? nullptr : of_section->find(key);
    place.at(section).at(key).warn(value == nullptr ? 0 : value->line(), std::move(message));
  };
  const std::string& domain = config.mesh.cluster_domain;
  if (domain.starts_with("svc."))
    warn("mesh", "cluster_domain",
         "names of Services would end in \"svc." + domain + "\"; write " +
             in_quotes(domain.substr(4)));
  const auto warn_of_loops = [&](std::string_view key, const std::vector<UpstreamServer>& servers) {
    for (const UpstreamServer& server : servers)
      if (is_own(server, config.server.listen))
        warn("upstream", key,
             in_quotes(server.to_string()) +
                 " is an address of server.listen: meshdns would ask itself; write another server");
  };
  warn_of_loops("servers", config.upstream.servers);
  for (const auto& [zone, servers] : config.upstream.zones) warn_of_loops("zones", servers);
}

void read_config(const Node& root, const Place& place, Config& config) {
  if (!root.is_null() && read_fields(config_fields(), root, place, &config))
    check_config(config, root, place);
  warn_of_slips(config, root, place);
}

Result<std::string> read_standard_input() {
  auto text = read_to_end(STDIN_FILENO, kMaxTextSize);
  if (!text) return fail(std::string(kStandardInput) + ": " + text.error().message);
  if (text->size() > kMaxTextSize) return fail(std::string(kStandardInput) + ": larger than 1 MiB");
  return text;
}

// Parses the text of the file, and adds the source of the VM.
LoadedConfig parse_files(const ConfigFiles& files, std::string_view text) {
  LoadedConfig loaded = parse_config(text, files.path);
  if (files.istio_vm.empty() || !loaded.valid()) return loaded;
  auto findings = add_istio_vm(files.istio_vm, this_machine(), loaded.config);
  std::ranges::move(findings, std::back_inserter(loaded.findings));
  return loaded;
}

// The text that `print` puts into a Json.
template <typename Print>
std::string printed(Print print) {
  rapidjson::StringBuffer buffer;
  Json json(buffer);
  json.SetIndent(' ', 2);
  print(json);
  return {buffer.GetString(), buffer.GetSize()};
}

// JSON of an object, to be continued with further members.
std::string without_end(std::string json) {
  json.resize(json.rfind("\n}"));
  return json;
}

}  // namespace

bool LoadedConfig::valid() const {
  return std::ranges::none_of(findings, [](const registry::Finding& finding) {
    return finding.severity == registry::Severity::Error;
  });
}

LoadedConfig parse_config(std::string_view text, std::string_view path) {
  LoadedConfig loaded;
  registry::FindingList findings(kMaxFindings);
  const auto report = [&](std::uint32_t line, std::string field, std::string message) {
    findings.add({registry::Severity::Error, std::string(path), line, "", "", std::move(field),
                  std::move(message)});
  };
  bool has_document = false;
  const auto on_document = [&](const registry::Document& document) {
    if (std::exchange(has_document, true))
      return report(document.root.line(), "",
                    "a second document; the configuration must be a single document");
    for (const registry::DocumentProblem& problem : document.problems)
      report(problem.line, problem.field, problem.message);
    read_config(document.root, Place(path, findings, loaded.lines), loaded.config);
  };
  const auto read = registry::read_handwritten_documents(text, kLimits, on_document);
  if (!read) report(read.error().line, "", read.error().message);
  loaded.findings = std::move(findings).take();
  // By line; the count of further findings is last.
  std::ranges::stable_sort(loaded.findings, {},
                           [](const registry::Finding& finding) { return finding.line - 1; });
  return loaded;
}

Result<LoadedConfig> load_config(const ConfigFiles& given) {
  if (given.path.empty()) return parse_files(given, {});
  ConfigFiles files = given;
  const bool is_standard_input = given.path == "-";
  if (is_standard_input) files.path = kStandardInput;
  const auto text = is_standard_input ? read_standard_input() : read_text_file(files.path);
  if (!text) return std::unexpected(text.error());
  LoadedConfig loaded = parse_files(files, *text);
  if (text->find_first_not_of(" \t\r\n") == std::string::npos)
    loaded.findings.push_back({registry::Severity::Error,
                               files.path,
                               0,
                               {},
                               {},
                               {},
                               "is empty; for a configuration with all defaults, write a comment"});
  return loaded;
}

std::vector<std::string> known_keys() {
  std::vector<std::string> keys = keys_of(config_fields());
  std::ranges::sort(keys);
  return keys;
}

std::string to_json(const Config& config) {
  return printed([&](Json& json) { print_fields(config_fields(), json, &config); });
}

std::string to_json(const Config& config, const registry::MeshSettings& in_force) {
  std::string text = without_end(to_json(config)) + ",\n  \"in_force\": ";
  for (const char c : printed([&](Json& json) { print_in_force(json, in_force); })) {
    text += c;
    if (c == '\n') text += "  ";
  }
  return text + "\n}";
}

bool is_json_of(const Config& config, std::string_view json) {
  return json.starts_with(without_end(to_json(config)) + ",\n  \"in_force\"");
}

std::vector<std::string> changed_sections(const Config& before, const Config& after) {
  std::vector<std::string> names;
  for (const AnyField& section : config_fields()) {
    const auto json_of = [&](const Config& config) {
      return printed([&](Json& json) { section.access->print(json, &config); });
    };
    if (json_of(before) != json_of(after)) names.emplace_back(section.key);
  }
  return names;
}

}  // namespace meshdns::dnsd
