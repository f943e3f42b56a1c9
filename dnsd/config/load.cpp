// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/load.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dnsd/config/config.hpp"
#include "dnsd/config/istio_vm.hpp"
#include "dnsd/config/schema.hpp"
#include "dnsd/config/sections.hpp"
#include "dnsd/config/value_codecs.hpp"
#include "dnsd/config/values.hpp"
#include "registry/manifest/document.hpp"
#include "registry/model/mesh_settings.hpp"

namespace meshdns::dnsd {
namespace {

using namespace schema;

void check_config(Config& config, const Node& node, const Place& place) {
  const Node* mesh_node = node.find("mesh");
  if (config.mesh.auto_allocate == registry::AutoAllocate::Persistent && config.state_dir.empty())
    place.at("mesh")
        .at("auto_allocate")
        .warn(line_of(mesh_node ? *mesh_node : node, "auto_allocate"),
              "persistent without state_dir: a restart may move virtual addresses; set state_dir");
  // Both daemons would assign addresses at the same time, and only one of them has state_dir.
  if (config.mesh.auto_allocate == registry::AutoAllocate::Persistent &&
      !config.server.handover.empty())
    place.at("mesh")
        .at("auto_allocate")
        .error(line_of(mesh_node ? *mesh_node : node, "auto_allocate"),
               "persistent cannot be combined with server.handover; remove one of them");
}

// The schema of the configuration file: every key with its type and range.
const Codec<Config>& config_codec() {
  static const Codec<Config> kCodec = section<Config>(
      {
          field("server", &Config::server, server()),
          field("admin", &Config::admin, admin()),
          field("log", &Config::log, log()),
          field("mesh", &Config::mesh, mesh()),
          field("client", &Config::client, client()),
          field("sources", &Config::sources, list(source())),
          field("upstream", &Config::upstream, upstream()),
          field("cache", &Config::cache, cache()),
          field("state_dir", &Config::state_dir, text()),
          field("dns64", &Config::dns64, dns64()),
          field("hosts", &Config::hosts, hosts()),
          field("overrides", &Config::overrides, overrides()),
      },
      check_config);
  return kCodec;
}

// Prints the settings of the mesh that MeshConfig may change, each with its value and its origin.
void print_in_force(schema::Json& json, const registry::MeshSettings& settings) {
  const auto put = [&](const char* key, const auto& codec, const auto& value,
                       registry::SettingOrigin origin) {
    json.Key(key);
    json.StartObject();
    json.Key("value");
    codec.print(json, value);
    json.Key("from");
    schema::print_text(json, registry::describe_origin(settings, origin));
    json.EndObject();
  };
  const registry::SettingOrigins& origins = settings.origins;
  json.StartObject();
  put("mesh.root_namespace", namespace_name(), settings.root_namespace, origins.root_namespace);
  put("mesh.default_export_to", export_to(), settings.default_export_to, origins.default_export_to);
  put("mesh.service_entry_visibility", service_entry_visibility(),
      settings.service_entry_visibility, origins.service_entry_visibility);
  json.EndObject();
}

const registry::DocumentLimits kLimits{
    .max_bytes = std::size_t{1} << 20, .max_depth = 32, .max_values = 200'000};

constexpr std::size_t kMaxFindings = 100;

// By line; the count of further findings is last.
std::uint32_t place_of(const registry::Finding& finding) { return finding.line - 1; }

// Collects the findings of one text.
class Loader {
 public:
  explicit Loader(std::string_view path) : path_(path) {}

  void on_document(const registry::Document& document) {
    const registry::Node& root = document.root;
    if (std::exchange(have_document_, true))
      return report(root.line(), "",
                    "a second document; the configuration must be a single document");
    for (const registry::DocumentProblem& problem : document.problems)
      report(problem.line, problem.field, problem.message);
    const schema::Place place(path_, findings_);
    if (auto config = config_codec().read(root, place)) config_ = *std::move(config);
    warn_of_slips(root);
  }

  void report(std::uint32_t line, std::string field, std::string message) {
    findings_.add({registry::Severity::Error, std::string(path_), line, "", "", std::move(field),
                   std::move(message)});
  }

  LoadedConfig take() && {
    LoadedConfig loaded{std::move(config_), std::move(findings_).take()};
    std::ranges::stable_sort(loaded.findings, {}, place_of);
    return loaded;
  }

 private:
  void warn(const registry::Node& root, std::string_view section, std::string_view key,
            std::string message) {
    const registry::Node* const at = root.is_mapping() ? root.find(section) : nullptr;
    const registry::Node* const value = at && at->is_mapping() ? at->find(key) : nullptr;
    findings_.add({registry::Severity::Warning, std::string(path_), value ? value->line() : 0, "",
                   "", std::string(section) + "." + std::string(key), std::move(message)});
  }

  // Values that are good alone, and not what was meant.
  void warn_of_slips(const registry::Node& root) {
    const std::string& domain = config_.mesh.cluster_domain;
    if (domain.starts_with("svc."))
      warn(root, "mesh", "cluster_domain",
           "names of Services would end in \"svc." + domain + "\"; write " +
               in_quotes(domain.substr(4)));
    for (const UpstreamServer& server : config_.upstream.servers)
      if (is_own(server)) warn_of_loop(root, "servers", server);
    for (const auto& [zone, servers] : config_.upstream.zones)
      for (const UpstreamServer& server : servers)
        if (is_own(server)) warn_of_loop(root, "zones", server);
  }

  void warn_of_loop(const registry::Node& root, std::string_view key,
                    const UpstreamServer& server) {
    warn(root, "upstream", key,
         in_quotes(server.to_string()) +
             " is an address of server.listen: meshdns would ask itself; write another server");
  }

  bool is_own(const UpstreamServer& upstream) const {
    const SocketAddress& server = upstream.address;
    return upstream.host.empty() &&
           std::ranges::any_of(config_.server.listen, [&](const SocketAddress& own) {
             const bool is_same_host =
                 own.ip == server.ip || (own.ip.is_unspecified() && server.ip.is_loopback());
             return is_same_host && own.port == server.port && own.port != 0;
           });
  }

  std::string_view path_;
  Config config_;
  registry::FindingList findings_{kMaxFindings};
  bool have_document_ = false;
};

// Parses the text of the file, and adds the source of the VM.
LoadedConfig parse_files(const ConfigFiles& files, std::string_view text) {
  LoadedConfig loaded = parse_config(text, files.path);
  if (files.istio_vm.empty() || !loaded.valid()) return loaded;
  auto findings = add_istio_vm(files.istio_vm, this_machine(), loaded.config);
  std::ranges::move(findings, std::back_inserter(loaded.findings));
  return loaded;
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
  Loader loader(path);
  const auto read = registry::read_handwritten_documents(
      text, kLimits, [&](const registry::Document& document) { loader.on_document(document); });
  if (!read) loader.report(read.error().line, "", read.error().message);
  return std::move(loader).take();
}

Result<LoadedConfig> load_config(const ConfigFiles& files) {
  if (files.path.empty()) return parse_files(files, {});
  const auto text = read_text_file(files.path);
  if (!text) return std::unexpected(text.error());
  return parse_files(files, *text);
}

Result<LoadedConfig> reload_config(const ConfigFiles& files) {
  if (files.path.empty()) return parse_files(files, {});
  const auto text = read_text_file(files.path);
  if (!text) return std::unexpected(text.error());
  if (text->find_first_not_of(" \t\r\n") == std::string::npos)
    return fail(files.path +
                ": error: is empty; for a configuration with all defaults, write a comment");
  return parse_files(files, *text);
}

std::vector<std::string> known_keys() {
  std::vector<std::string> keys = config_codec().keys;
  std::ranges::sort(keys);
  return keys;
}

std::string to_json(const Config& config) {
  rapidjson::StringBuffer buffer;
  schema::Json json(buffer);
  json.SetIndent(' ', 2);
  config_codec().print(json, config);
  return {buffer.GetString(), buffer.GetSize()};
}

std::string to_json(const Config& config, const registry::MeshSettings& in_force) {
  rapidjson::StringBuffer buffer;
  schema::Json json(buffer);
  json.SetIndent(' ', 2);
  print_in_force(json, in_force);
  std::string text = without_end(to_json(config)) + ",\n  \"in_force\": ";
  for (const char c : std::string_view(buffer.GetString(), buffer.GetSize())) {
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
  const auto compare = [&](std::string_view name, const auto& a, const auto& b) {
    if (!(a == b)) names.emplace_back(name);
  };
  compare("server", before.server, after.server);
  compare("admin", before.admin, after.admin);
  compare("log", before.log, after.log);
  compare("mesh", before.mesh, after.mesh);
  compare("client", before.client, after.client);
  compare("sources", before.sources, after.sources);
  compare("upstream", before.upstream, after.upstream);
  compare("cache", before.cache, after.cache);
  compare("state_dir", before.state_dir, after.state_dir);
  compare("dns64", before.dns64, after.dns64);
  compare("hosts", before.hosts, after.hosts);
  compare("overrides", before.overrides, after.overrides);
  return names;
}

}  // namespace meshdns::dnsd
