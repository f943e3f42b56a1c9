// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/sections.hpp"

#include "dnsd/config/istiod_schema.hpp"
#include "dnsd/config/value_codecs.hpp"

namespace meshdns::dnsd::schema {
namespace {

using namespace std::chrono_literals;

template <typename S>
void require_path(const S& source, const Node& node, const Place& place) {
  if (source.path.empty()) place.at("path").error(line_of(node, "path"), "is missing");
}

// The kinds of sources, one per alternative of SourceConfig.
struct SourceCodecs {
  Codec<FilesSource> files = section<FilesSource>(
      {
          field("path", &FilesSource::path, text()),
          field("cluster", &FilesSource::cluster, text(253)),
          field("network", &FilesSource::network, text(253)),
      },
      require_path<FilesSource>);
  Codec<KubernetesSource> kubernetes = section<KubernetesSource>({
      field("kubeconfig", &KubernetesSource::kubeconfig, text()),
      field("cluster", &KubernetesSource::cluster, text(253)),
      field("network", &KubernetesSource::network, text(253)),
      field("namespaces", &KubernetesSource::namespaces, list(namespace_name())),
      field("node_name", &KubernetesSource::node_name, text(253)),
      field("endpoints", &KubernetesSource::endpoints, enumeration<EndpointScope>()),
      field("path_timeout", &KubernetesSource::path_timeout, duration(5s, 10min)),
  });
  Codec<NameTableSource> name_table = section<NameTableSource>(
      {
          field("path", &NameTableSource::path, text()),
      },
      require_path<NameTableSource>);
  Codec<IstiodSource> istiod = istiod_source();

  std::vector<std::string> keys() const {
    return keys_of({{"files", {}, files.keys},
                    {"kubernetes", {}, kubernetes.keys},
                    {"name_table", {}, name_table.keys},
                    {"istiod", {}, istiod.keys}});
  }

  // nullopt after a finding.
  std::optional<SourceConfig> read(const Node& entry, const Place& place) const {
    if (entry.key() == "files") return files.read(entry, place);
    if (entry.key() == "kubernetes") return kubernetes.read(entry, place);
    if (entry.key() == "name_table") return name_table.read(entry, place);
    if (entry.key() == "istiod") return istiod.read(entry, place);
    place.error(entry.line(), unknown_key_message(entry.key(), keys()));
    return std::nullopt;
  }

  void print(Json& json, const FilesSource& source) const {
    json.Key("files");
    files.print(json, source);
  }
  void print(Json& json, const KubernetesSource& source) const {
    json.Key("kubernetes");
    kubernetes.print(json, source);
  }
  void print(Json& json, const NameTableSource& source) const {
    json.Key("name_table");
    name_table.print(json, source);
  }
  void print(Json& json, const IstiodSource& source) const {
    json.Key("istiod");
    istiod.print(json, source);
  }
};

}  // namespace

Codec<SourceConfig> source() {
  const auto codecs = std::make_shared<const SourceCodecs>();
  return {[=](const Node& node, const Place& place) -> std::optional<SourceConfig> {
            if (node.is_mapping() && node.size() == 1)
              return codecs->read(*node.begin(), place.at(node.begin()->key()));
            place.error(node.line(),
                        "must be a mapping of one key, as in {files: {path: DIRECTORY}}");
            return std::nullopt;
          },
          [=](Json& json, const SourceConfig& value) {
            json.StartObject();
            std::visit([&](const auto& kind) { codecs->print(json, kind); }, value);
            json.EndObject();
          },
          codecs->keys()};
}

}  // namespace meshdns::dnsd::schema
