// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/sections.hpp"

#include "dnsd/config/istiod_schema.hpp"
#include "dnsd/config/value_codecs.hpp"

namespace meshdns::dnsd::schema {
namespace {

using namespace std::chrono_literals;

template <typename S>
void require_path(S& source, const Node& node, const Place& place) {
  if (source.path.empty()) place.at("path").error(line_of(node, "path"), "is missing");
}

Codec<FilesSource> files() {
  return section<FilesSource>(
      {
          field("path", &FilesSource::path, text()),
          field("cluster", &FilesSource::cluster, text(253)),
          field("network", &FilesSource::network, text(253)),
      },
      require_path<FilesSource>);
}

Codec<KubernetesSource> kubernetes() {
  return section<KubernetesSource>({
      field("kubeconfig", &KubernetesSource::kubeconfig, text()),
      field("cluster", &KubernetesSource::cluster, text(253)),
      field("network", &KubernetesSource::network, text(253)),
      field("namespaces", &KubernetesSource::namespaces, list(namespace_name())),
      field("node_name", &KubernetesSource::node_name, text(253)),
      field("endpoints", &KubernetesSource::endpoints, enumeration<EndpointScope>()),
      field("path_timeout", &KubernetesSource::path_timeout, duration(5s, 10min)),
  });
}

Codec<NameTableSource> name_table() {
  return section<NameTableSource>({field("path", &NameTableSource::path, text())},
                                  require_path<NameTableSource>);
}

// A kind of sources, and its place in SourceConfig.
struct SourceKind {
  std::string_view key;
  std::function<std::optional<SourceConfig>(const Node&, const Place&)> read;
  std::function<void(Json&, const SourceConfig&)> print;
  std::vector<std::string> keys_below;
};

template <typename S>
SourceKind kind(std::string_view key, const Codec<S>& codec) {
  return {key, codec.read,
          [print = codec.print](Json& json, const SourceConfig& source) {
            print(json, std::get<S>(source));
          },
          codec.keys};
}

}  // namespace

Codec<SourceConfig> source() {
  // In the order of the alternatives.
  const std::vector<SourceKind> kinds = {kind("files", files()), kind("kubernetes", kubernetes()),
                                         kind("name_table", name_table()),
                                         kind("istiod", istiod_source())};
  return {[=](const Node& node, const Place& place) -> std::optional<SourceConfig> {
            if (!node.is_mapping() || node.size() != 1) {
              place.error(node.line(),
                          "must be a mapping of one key, as in {files: {path: DIRECTORY}}");
              return std::nullopt;
            }
            const Node& entry = *node.begin();
            const Place at = place.at(entry.key());
            const auto found = std::ranges::find(kinds, entry.key(), &SourceKind::key);
            if (found != kinds.end()) return found->read(entry, at);
            at.error(entry.line(), unknown_key_message(entry.key(), keys_of(kinds)));
            return std::nullopt;
          },
          [=](Json& json, const SourceConfig& value) {
            const SourceKind& of_value = kinds[value.index()];
            json.StartObject();
            print_key(json, of_value.key);
            of_value.print(json, value);
            json.EndObject();
          },
          keys_of(kinds)};
}

}  // namespace meshdns::dnsd::schema
