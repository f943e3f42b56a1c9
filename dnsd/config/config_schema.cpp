// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/config_schema.hpp"

#include "dnsd/config/sections.hpp"
#include "dnsd/config/value_codecs.hpp"
#include "registry/model/effective_settings.hpp"

namespace meshdns::dnsd {
namespace {

using namespace schema;

void check_config(const Config& config, const Node& node, const Place& place) {
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

}  // namespace

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

}  // namespace meshdns::dnsd
