// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/sections.hpp"

#include <algorithm>
#include <charconv>

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

constexpr std::uint16_t kIstiodPort = 15012;  // TLS with a token or a certificate
// Names and the like go into the node id and into one request.
constexpr std::size_t kMaxNodeText = 253;
constexpr std::size_t kMaxRevision = 63;
// The limit of a variable of Istio's proxy, which may have a list in JSON.
constexpr std::size_t kMaxMetadataText = 4'096;

std::optional<std::uint16_t> parse_istiod_port(std::string_view digits) {
  std::uint16_t port = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || stop != digits.data() + digits.size() || port == 0)
    return std::nullopt;
  return port;
}

// "HOST", "HOST:PORT", or an IP address likewise.
Result<std::string> parse_istiod_address(std::string_view words) {
  if (const auto address = parse_socket_address(words, kIstiodPort))
    if (address->zone.empty() && address->port != 0) return address->to_string();
  const auto colon = words.find(':');
  const std::string_view host = words.substr(0, colon);
  const auto port = colon == std::string_view::npos ? std::optional(kIstiodPort)
                                                    : parse_istiod_port(words.substr(colon + 1));
  if (port && is_fqdn(host)) return std::string(host) + ":" + std::to_string(*port);
  return fail(in_quotes(words) +
              " is not a host with a port; write it as in \"istiod.istio-system.svc:15012\"");
}

// A part of the node id, which "~" divides.
Codec<std::string> node_name() {
  return checked(text(kMaxNodeText), [](const std::string& name) {
    return is_fqdn(name) ? std::string() : in_quotes(name) + " is not the name of a workload";
  });
}

// One value, or a list of them.
template <typename V>
Codec<std::vector<V>> one_or_more(const Codec<V>& element) {
  auto codec = non_empty(list(element), "name one at least");
  const auto read_list = codec.read;
  codec.read = [=](const Node& node, const Place& place) -> std::optional<std::vector<V>> {
    if (node.is_sequence()) return read_list(node, place);
    auto value = element.read(node, place);
    if (!value) return std::nullopt;
    return std::vector<V>{*std::move(value)};
  };
  return codec;
}

void require_key(const Node& node, const Place& place, std::string_view key, std::string remedy) {
  if (node.find(key) == nullptr)
    place.at(key).error(node.line(), "is missing; " + std::move(remedy));
}

void check_istiod_node(IstiodNode&, const Node& node, const Place& place) {
  require_key(node, place, "address", "write the IP address of the workload");
  require_key(node, place, "name", "write the name of the workload");
  require_key(node, place, "namespace", "write the namespace of the workload");
}

// A token, or a certificate with its key.
void check_istiod_credentials(const IstiodSource& source, const Node& node, const Place& place) {
  const auto complain = [&](std::string_view key, const char* message) {
    place.at(key).error(line_of(node, key), message);
  };
  if (source.cert_file.empty() && !source.key_file.empty())
    return complain("cert_file", "is missing; the key of key_file needs its certificate");
  if (!source.cert_file.empty() && source.key_file.empty())
    return complain("key_file", "is missing; the certificate of cert_file needs its key");
  if (source.token_file.empty() && source.cert_file.empty())
    complain("token_file", "is missing; name a file with a token, or cert_file and key_file");
  if (!source.token_file.empty() && !source.cert_file.empty())
    complain("token_file", "cannot be used together with cert_file; remove one of the two");
}

void check_istiod(IstiodSource& source, const Node& node, const Place& place) {
  require_key(node, place, "address", "write it as in \"istiod.istio-system.svc:15012\"");
  require_key(node, place, "node", "describe the workload whose names istiod sends");
  if (source.ca_file.empty())
    place.at("ca_file").error(line_of(node, "ca_file"),
                              "is missing; name the file with the authority of istiod's "
                              "certificate (root-cert.pem)");
  check_istiod_credentials(source, node, place);
  if (source.api == IstiodApi::Workloads && source.transport != IstiodTransport::Delta)
    place.at("transport")
        .error(line_of(node, "transport"), "must be delta: istiod sends workloads in no other way");
}

Codec<IstiodNode> istiod_node() {
  return section<IstiodNode>(
      {
          field("type", &IstiodNode::type, enumeration<IstiodNodeType>()),
          field("address", &IstiodNode::addresses, one_or_more(address())),
          field("name", &IstiodNode::name, node_name()),
          field("namespace", &IstiodNode::ns, namespace_name()),
          field("cluster", &IstiodNode::cluster, text(kMaxNodeText)),
          field("network", &IstiodNode::network, text(kMaxNodeText)),
          field("labels", &IstiodNode::labels, labels()),
          field("revision", &IstiodNode::revision, text(kMaxRevision)),
          field("metadata", &IstiodNode::metadata, text_map(kMaxMetadataText)),
      },
      check_istiod_node);
}

Codec<IstiodSource> istiod_source() {
  return section<IstiodSource>(
      {
          field("address", &IstiodSource::addresses, one_or_more(text_value(parse_istiod_address))),
          field("server_name", &IstiodSource::server_name, text(kMaxNodeText)),
          field("ca_file", &IstiodSource::ca_file, text()),
          field("token_file", &IstiodSource::token_file, text()),
          field("cert_file", &IstiodSource::cert_file, text()),
          field("key_file", &IstiodSource::key_file, text()),
          field("api", &IstiodSource::api, enumeration<IstiodApi>()),
          field("transport", &IstiodSource::transport, enumeration<IstiodTransport>()),
          field("node", &IstiodSource::node, istiod_node()),
      },
      check_istiod);
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
