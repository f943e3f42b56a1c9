// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/config_schema.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "dnsd/config/istiod_schema.hpp"
#include "dnsd/config/values.hpp"
#include "registry/base/special_names.hpp"
#include "registry/model/effective_settings.hpp"

namespace meshdns::dnsd {
namespace {

using namespace schema;
using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Of a variable of Istio's proxy, which may have a list in JSON.
constexpr std::size_t kMaxMetadataText = 4'096;
constexpr std::uint32_t kMaxTtl = 7 * 24 * 3600;  // RFC 8767, section 4: a week is plenty

// ---- the values of meshdns

Codec<milliseconds> duration(milliseconds min, milliseconds max) {
  const auto parse = [=](std::string_view words) -> Result<milliseconds> {
    const auto value = parse_duration(words);
    if (!value || (*value >= min && *value <= max)) return value;
    return fail(quoted(words) + " is not from " + format_duration(min) + " to " +
                format_duration(max));
  };
  return text_value(parse, format_duration);
}

Codec<seconds> whole_seconds(seconds max) {
  const auto parse = [=](std::string_view words) -> Result<seconds> {
    const auto value = parse_duration(words);
    if (!value) return std::unexpected(value.error());
    if (*value > max) return fail(quoted(words) + " is more than " + format_duration(max));
    if (*value % 1s != 0ms) return fail(quoted(words) + " is not in whole seconds");
    return std::chrono::duration_cast<seconds>(*value);
  };
  return text_value(parse, [](seconds value) { return format_duration(value); });
}

Codec<std::size_t> size() {
  const auto parse = [](std::string_view words) -> Result<std::size_t> {
    return parse_size(words);
  };
  return text_value(parse, format_size);
}

Codec<SocketAddress> listen_address() {
  return text_value([](std::string_view words) { return parse_socket_address(words); },
                    [](const SocketAddress& address) { return address.to_string(); });
}

Codec<DnstapTarget> dnstap_target() {
  return text_value(parse_dnstap_target,
                    [](const DnstapTarget& target) { return to_string(target); });
}

Codec<AdminAddress> admin_address() {
  return text_value(parse_admin_address,
                    [](const AdminAddress& address) { return to_string(address); });
}

Codec<IpPrefix> prefix() {
  const auto parse = [](std::string_view words) -> Result<IpPrefix> {
    if (const auto value = IpPrefix::parse(words)) return *value;
    return fail(quoted(words) + " is not a prefix; write it as in \"10.0.0.0/8\" or \"fc00::/7\"");
  };
  return text_value(parse, [](const IpPrefix& value) { return value.to_string(); });
}

// Whether any address of the prefix is the unspecified one, a loopback or a multicast address.
bool is_special(const IpPrefix& prefix) {
  for (const std::string_view special :
       {"0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "::/127", "ff00::/8"}) {
    const IpPrefix other = *IpPrefix::parse(special);
    if (prefix.contains(other.address) || other.contains(prefix.address)) return true;
  }
  return false;
}

// One family, and lengths within which a pool of VIPs makes sense.
Codec<IpPrefix> vip_prefix(bool v4, unsigned min_length, unsigned max_length) {
  return checked(prefix(), [=](const IpPrefix& value) -> std::string {
    if (value.address.is_v4() != v4)
      return quoted(value.to_string()) + (v4 ? " is not IPv4" : " is not IPv6");
    if (value.length < min_length || value.length > max_length)
      return quoted(value.to_string()) + " is not a prefix of " + std::to_string(min_length) +
             " to " + std::to_string(max_length) + " bits";
    // Without its host bits the pool may not be the one that was meant.
    if (value != value.network())
      return quoted(value.to_string()) + " has host bits set; write " +
             quoted(value.network().to_string());
    if (is_special(value))
      return quoted(value.to_string()) +
             " contains unspecified, loopback or multicast addresses, which no host can have";
    return "";
  });
}

Codec<std::string> domain() {
  return text_value(parse_domain, [](const std::string& name) { return name; });
}

Codec<std::string> namespace_name() {
  const auto parse = [](std::string_view words) -> Result<std::string> {
    if (is_label(words) && to_lower(words) == words) return std::string(words);
    return fail(quoted(words) + " is not the name of a namespace");
  };
  return text_value(parse, [](const std::string& name) { return name; });
}

// A namespace, or "*" for all of them.
Codec<std::string> namespace_or_all() {
  const auto parse = [](std::string_view words) -> Result<std::string> {
    if (words == "*" || (is_label(words) && to_lower(words) == words)) return std::string(words);
    return fail(quoted(words) + R"( is neither "*" nor the name of a namespace)");
  };
  return text_value(parse, [](const std::string& name) { return name; });
}

Codec<std::vector<std::string>> zone_list(bool root_allowed) {
  const auto parse = [=](std::string_view words) -> Result<std::vector<std::string>> {
    if (words == "." && !root_allowed) return fail("the root zone cannot be used here");
    return parse_zones(words);
  };
  const auto format = [](const std::vector<std::string>& zones) { return zones.front(); };
  const auto entries = list(text_value(parse, format));
  return {[=](const Node& node, const Place& place) -> std::optional<std::vector<std::string>> {
            const auto parsed = entries.read(node, place);
            if (!parsed) return std::nullopt;
            std::vector<std::string> zones;
            for (const auto& of_entry : *parsed)
              zones.insert(zones.end(), of_entry.begin(), of_entry.end());
            return zones;
          },
          [](Json& json, const std::vector<std::string>& zones) {
            json.StartArray();
            for (const std::string& zone : zones) print_text(json, zone.empty() ? "." : zone);
            json.EndArray();
          }};
}

Codec<registry::ExportTo> export_to() {
  const auto parse = [](std::string_view words) -> Result<std::string> {
    if (words == "." || words == "*" || words == "~" || is_label(words)) return std::string(words);
    return fail(quoted(words) + R"( is neither ".", "*", "~" nor the name of a namespace)");
  };
  const auto entries = list(text_value(parse, [](const std::string& entry) { return entry; }));
  return checked(non_empty(entries, R"(write ["*"] for all namespaces or ["~"] for none)"),
                 [](const registry::ExportTo& value) -> std::string {
                   const bool hidden = std::ranges::find(value, "~") != value.end();
                   return hidden && value.size() > 1 ? R"("~" must be the only value)" : "";
                 });
}

Codec<registry::Labels> text_map(std::size_t max_text) {
  return {[=](const Node& node, const Place& place) -> std::optional<registry::Labels> {
            if (node.is_null()) return registry::Labels();
            if (!node.is_mapping()) {
              wrong_type(node, place, "a mapping");
              return std::nullopt;
            }
            registry::Labels result;
            for (const Node& entry : node)
              if (auto value = text(max_text).read(entry, place.at(entry.key())))
                result.emplace_back(std::string(entry.key()), *std::move(value));
            std::ranges::sort(result);
            return result;
          },
          [](Json& json, const registry::Labels& value) {
            json.StartObject();
            for (const auto& [key, label] : value) {
              json.Key(key.data(), static_cast<rapidjson::SizeType>(key.size()));
              print_text(json, label);
            }
            json.EndObject();
          }};
}

Codec<registry::Labels> labels() { return text_map(63); }

Codec<UpstreamServer> upstream_server() {
  return text_value(parse_upstream_server,
                    [](const UpstreamServer& server) { return server.to_string(); });
}

// ---- server, admin, log

Codec<TcpConfig> tcp() {
  return section<TcpConfig>({
      field("max_connections", &TcpConfig::max_connections, number(1, 1'000'000)),
      field("max_connections_per_client", &TcpConfig::max_connections_per_client,
            number(1, 1'000'000)),
      field("idle_timeout", &TcpConfig::idle_timeout, duration(100ms, 1h)),
  });
}

Codec<RateLimitConfig> rate_limit() {
  return section<RateLimitConfig>({
      field("responses_per_second", &RateLimitConfig::responses_per_second, number(0, 1'000'000)),
      field("slip", &RateLimitConfig::slip, number(0, 100)),
      field("ipv4_prefix", &RateLimitConfig::ipv4_prefix, number(8, 32)),
      field("ipv6_prefix", &RateLimitConfig::ipv6_prefix, number(16, 128)),
  });
}

Codec<CookiesConfig> cookies() {
  return section<CookiesConfig>({
      field("mode", &CookiesConfig::mode, enumeration<CookieMode>()),
      field("secret_file", &CookiesConfig::secret_file, text()),
  });
}

// Port 0 may be repeated: each is a free port of its own.
std::string complain_about_repetition(const std::vector<SocketAddress>& addresses) {
  std::set<SocketAddress> seen;
  for (const SocketAddress& address : addresses)
    if (address.port != 0 && !seen.insert(address).second)
      return quoted(address.to_string()) + " is listed twice";
  return "";
}

// A path of 107 bytes fits into a Unix socket's name; it is renamed from one that ends in ".new".
constexpr std::size_t kMaxHandoverPath = 103;

std::string complain_about_handover(const std::string& path) {
  if (path.empty() || path.starts_with('/')) return "";
  return "write an absolute path, such as \"/run/meshdns/handover.sock\"";
}

Codec<ServerConfig> server() {
  const auto listen = checked(non_empty(list(listen_address()), R"(write ["127.0.0.1:53"])"),
                              complain_about_repetition);
  return section<ServerConfig>({
      field("listen", &ServerConfig::listen, listen),
      field("workers", &ServerConfig::workers, number(0, 1024)),
      field("allow", &ServerConfig::allow,
            non_empty(list(prefix()), R"(write ["0.0.0.0/0", "::/0"] for all clients)")),
      field("chaos", &ServerConfig::chaos, enumeration<ChaosAccess>()),
      field("tcp", &ServerConfig::tcp, tcp()),
      field("nsid", &ServerConfig::nsid, text(128)),
      field("cpu_affinity", &ServerConfig::cpu_affinity, boolean()),
      field("rate_limit", &ServerConfig::rate_limit, rate_limit()),
      field("cookies", &ServerConfig::cookies, cookies()),
      field("lameduck", &ServerConfig::lameduck, duration(0ms, 5min)),
      field("handover", &ServerConfig::handover,
            checked(text(kMaxHandoverPath), complain_about_handover)),
      field("watch_config", &ServerConfig::watch_config, boolean()),
      field("core_dumps", &ServerConfig::core_dumps, boolean()),
  });
}

Codec<AdminConfig> admin() {
  return section<AdminConfig>({
      field("listen", &AdminConfig::listen, optional(admin_address())),
      field("token_file", &AdminConfig::token_file, text()),
      field("metrics_listen", &AdminConfig::metrics_listen, optional(admin_address())),
  });
}

Codec<QueryLogConfig> query_log() {
  return section<QueryLogConfig>({
      field("class", &QueryLogConfig::query_class, enumeration<QueryLogClass>()),
      field("sample", &QueryLogConfig::sample, share()),
  });
}

Codec<LogConfig> log() {
  return section<LogConfig>({
      field("level", &LogConfig::level, enumeration<LogLevel>()),
      field("format", &LogConfig::format, enumeration<LogFormat>()),
      field("queries", &LogConfig::queries, query_log()),
      field("dnstap", &LogConfig::dnstap, optional(dnstap_target())),
  });
}

// ---- mesh

Codec<registry::LabelRequirement> label_requirement() {
  using registry::LabelRequirement;
  using Operator = LabelRequirement::Operator;
  const auto requirement = section<LabelRequirement>({
      field("key", &LabelRequirement::key, text()),
      field("operator", &LabelRequirement::op, enumeration<Operator>()),
      field("values", &LabelRequirement::values, list(text())),
  });
  const auto read = [=](const Node& node, const Place& place) {
    auto value = requirement.read(node, place);
    if (!value) return value;
    const bool takes_values = value->op == Operator::In || value->op == Operator::NotIn;
    if (value->key.empty()) {
      place.at("key").error(node.line(), "is missing");
    } else if (node.find("operator") == nullptr) {
      place.at("operator").error(node.line(), "is missing: In, NotIn, Exists or DoesNotExist");
    } else if (takes_values == value->values.empty()) {
      place.at("values").error(node.line(), takes_values
                                                ? "In and NotIn need at least one value"
                                                : "Exists and DoesNotExist take no values");
    } else {
      return value;
    }
    value.reset();
    return value;
  };
  return {read, requirement.print, requirement.keys};
}

Codec<registry::LabelSelector> label_selector() {
  using registry::LabelSelector;
  return section<LabelSelector>({
      field("matchLabels", &LabelSelector::match_labels, labels()),
      field("matchExpressions", &LabelSelector::match_expressions, list(label_requirement())),
  });
}

// MeshConfig's words for one element of matchingRules.
struct MatchingRule {
  registry::LabelSelector namespace_selector;
};

Codec<registry::LabelSelector> matching_rule() {
  const auto rule = section<MatchingRule>({
      field("namespaceSelector", &MatchingRule::namespace_selector, label_selector()),
  });
  return {[=](const Node& node, const Place& place) -> std::optional<registry::LabelSelector> {
            auto value = rule.read(node, place);
            if (!value) return std::nullopt;
            return std::move(value->namespace_selector);
          },
          [=](Json& json, const registry::LabelSelector& value) { rule.print(json, {value}); },
          rule.keys};
}

Codec<registry::ServiceEntryVisibility> service_entry_visibility() {
  using registry::ServiceEntryVisibility;
  using registry::VisibilityPolicy;
  const auto policy = section<VisibilityPolicy>({
      field("visibility", &VisibilityPolicy::visibility, enumeration<registry::Visibility>()),
      field("matchingRules", &VisibilityPolicy::namespace_selectors, list(matching_rule())),
  });
  return section<ServiceEntryVisibility>({
      field("defaultVisibility", &ServiceEntryVisibility::default_visibility,
            enumeration<registry::Visibility>()),
      field("policies", &ServiceEntryVisibility::policies, list(policy)),
  });
}

Codec<registry::TtlSettings> ttl() {
  using registry::TtlSettings;
  return section<TtlSettings>({
      field("vip", &TtlSettings::vip, number(0, kMaxTtl)),
      field("endpoint", &TtlSettings::endpoint, number(0, kMaxTtl)),
      field("kubernetes", &TtlSettings::kubernetes, number(0, kMaxTtl)),
      field("negative", &TtlSettings::negative, number(0, kMaxTtl)),
  });
}

// The ConfigMap with Istio's MeshConfig: NAMESPACE/istio, or NAMESPACE/istio-REVISION.
Codec<std::string> istio_config_map() {
  const auto parse = [](std::string_view words) -> Result<std::string> {
    const std::size_t slash = std::min(words.find('/'), words.size());
    const std::string_view ns = words.substr(0, slash);
    const std::string_view name = words.substr(std::min(slash + 1, words.size()));
    const bool is_istio = name == "istio" || (name.starts_with("istio-") && is_label(name));
    if (words.empty() || (is_istio && is_label(ns) && to_lower(words) == words))
      return std::string(words);
    return fail(quoted(words) +
                " is not of the form NAMESPACE/istio or NAMESPACE/istio-REVISION; \"\" reads none");
  };
  return text_value(parse, [](const std::string& name) { return name; });
}

// A setting that Istio's MeshConfig has, too.  Null, and printed as null: the configuration does
// not set it.
template <typename V>
class MeshConfigMember final : public Member<registry::MeshSettings> {
 public:
  using Settings = registry::MeshSettings;
  using Origin = registry::SettingOrigin registry::SettingOrigins::*;
  MeshConfigMember(V Settings::* member, Origin origin, const Codec<V>& codec)
      : member_(member), origin_(origin), codec_(codec) {}

 private:
  void read_into(const Node& node, const Place& place, Settings& settings) const override {
    if (node.is_null()) return;
    auto value = codec_.read(node, place);
    if (!value) return;
    settings.*member_ = *std::move(value);
    settings.origins.*origin_ = registry::SettingOrigin::Configuration;
  }
  void print_from(Json& json, const Settings& settings) const override {
    if (settings.origins.*origin_ == registry::SettingOrigin::Configuration)
      codec_.print(json, settings.*member_);
    else
      json.Null();
  }

  V Settings::* member_;
  Origin origin_;
  Codec<V> codec_;
};

template <typename V>
Field<registry::MeshSettings> mesh_config_field(
    std::string_view key, V registry::MeshSettings::* member,
    registry::SettingOrigin registry::SettingOrigins::* origin,
    const std::type_identity_t<Codec<V>>& codec) {
  const AnyMember* const how = new MeshConfigMember<V>(member, origin, codec);
  return {{key, std::shared_ptr<const AnyMember>(how), codec.keys}};
}

Codec<registry::MeshSettings> mesh() {
  using registry::MeshSettings;
  using registry::SettingOrigins;
  return section<MeshSettings>({
      field("cluster_domain", &MeshSettings::cluster_domain, domain()),
      mesh_config_field("root_namespace", &MeshSettings::root_namespace,
                        &SettingOrigins::root_namespace, namespace_name()),
      field("endpoint_answers", &MeshSettings::endpoint_answers, boolean()),
      field("auto_allocate", &MeshSettings::auto_allocate, enumeration<registry::AutoAllocate>()),
      field("vip_cidr_v4", &MeshSettings::vip_cidr_v4, vip_prefix(true, 4, 30)),
      field("vip_cidr_v6", &MeshSettings::vip_cidr_v6, vip_prefix(false, 8, 126)),
      field("vip_namespace_quota", &MeshSettings::vip_namespace_quota, number(0, 1U << 24)),
      mesh_config_field("default_export_to", &MeshSettings::default_export_to,
                        &SettingOrigins::default_export_to, export_to()),
      mesh_config_field("service_entry_visibility", &MeshSettings::service_entry_visibility,
                        &SettingOrigins::service_entry_visibility, service_entry_visibility()),
      field("ttl", &MeshSettings::ttl, ttl()),
      field("authoritative", &MeshSettings::authoritative, enumeration<registry::Authoritative>()),
      field("reverse_zones", &MeshSettings::reverse_zones, zone_list(false)),
      field("fallthrough", &MeshSettings::fallthrough, zone_list(true)),
      field("namespaces", &MeshSettings::namespaces, list(namespace_name())),
      field("pods", &MeshSettings::pods, enumeration<registry::PodNames>()),
      field("endpoint_pod_names", &MeshSettings::endpoint_pod_names, boolean()),
      field("ignore_empty_service", &MeshSettings::ignore_empty_service, boolean()),
      field("search_shortcut", &MeshSettings::search_shortcut,
            enumeration<registry::SearchShortcut>()),
      field("claims", &MeshSettings::claims, enumeration<registry::Claims>()),
      field("clusters", &MeshSettings::clusters, enumeration<registry::ClusterChoice>()),
      field("istio_config_map", &MeshSettings::istio_config_map, istio_config_map()),
  });
}

// ---- client

std::string complain_about_families(const std::vector<IpFamily>& families) {
  if (families.size() == 2 && families[0] == families[1]) return "has the same family twice";
  return families.size() > 2 ? "allows only IPv4 and IPv6" : "";
}

// A node id has a namespace; a second namespace in the configuration must be equal.
void check_identity(const ClientIdentityConfig& identity, const Node& node, const Place& place) {
  const Node* ns = node.find("namespace");
  if (!identity.node_id || ns == nullptr || ns->text() == identity.node_id->ns()) return;
  place.at("node_id").error(line_of(node, "node_id"),
                            "has the namespace " + quoted(identity.node_id->ns()) +
                                ", but the key `namespace` is " + quoted(ns->text()) +
                                "; remove one of the two");
}

Codec<std::optional<NodeId>> node_id() {
  const auto parse = [](std::string_view words) -> Result<NodeId> {
    auto id = parse_node_id(words);
    if (id && !is_label(id->ns()))
      return fail(quoted(words) +
                  " has no namespace; write it as in "
                  "\"sidecar~10.60.1.6~web-1.shop~shop.svc.cluster.local\"");
    return id;
  };
  return optional(text_value(parse, [](const NodeId& id) { return id.to_string(); }));
}

Codec<ClientIdentityConfig> client_identity() {
  auto codec = section<ClientIdentityConfig>(
      {
          field("namespace", &ClientIdentityConfig::ns, namespace_name()),
          field("labels", &ClientIdentityConfig::labels, labels()),
          field("network", &ClientIdentityConfig::network, text(253)),
          field("cluster", &ClientIdentityConfig::cluster, text(253)),
          field("search", &ClientIdentityConfig::search, list(domain())),
          field("ip_families", &ClientIdentityConfig::ip_families,
                checked(non_empty(list(enumeration<IpFamily>()), "write [IPv4, IPv6]"),
                        complain_about_families)),
          field("node_id", &ClientIdentityConfig::node_id, node_id()),
      },
      check_identity);
  const auto read_keys = codec.read;
  codec.read = [=](const Node& node, const Place& place) {
    auto identity = read_keys(node, place);
    if (!identity || !identity->node_id) return identity;
    identity->ns = identity->node_id->ns();
    if (node.find("ip_families") == nullptr) identity->ip_families = identity->node_id->families();
    return identity;
  };
  return codec;
}

Codec<ClientConfig> client() {
  return section<ClientConfig>({
      field("by_source_address", &ClientConfig::by_source_address, boolean()),
      field("unknown", &ClientConfig::unknown, enumeration<UnknownClient>()),
      field("workload_entry_namespaces", &ClientConfig::workload_entry_namespaces,
            list(namespace_or_all())),
      field("node_search", &ClientConfig::node_search, list(domain())),
      field("default", &ClientConfig::default_identity, client_identity()),
  });
}

// ---- sources

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
  });
  Codec<NameTableSource> name_table = section<NameTableSource>(
      {
          field("path", &NameTableSource::path, text()),
      },
      require_path<NameTableSource>);
  Codec<IstiodSource> istiod =
      istiod_source(namespace_name(), labels(), text_map(kMaxMetadataText));

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

// ---- upstream, cache

using Zones = std::map<std::string, std::vector<UpstreamServer>>;

// One entry of `zones`; a prefix may stand for several.
void read_zone(const Node& entry, const Place& place, Zones& zones) {
  const auto servers = non_empty(list(upstream_server()), R"(write ["10.0.0.53"])");
  const auto value = servers.read(entry, place);
  const auto names = parse_zones(entry.key());
  if (!names) return place.error(entry.line(), names.error().message);
  if (names->front().empty())
    return place.error(entry.line(), "for the root zone use upstream.servers");
  for (const std::string& name : *names)
    if (value && !zones.emplace(name, *value).second)
      place.error(entry.line(), "zone " + quoted(name) + " is listed twice");
}

Codec<Zones> zones() {
  return {[](const Node& node, const Place& place) -> std::optional<Zones> {
            if (node.is_null()) return Zones();
            if (!node.is_mapping()) {
              wrong_type(node, place, "a mapping");
              return std::nullopt;
            }
            Zones value;
            for (const Node& entry : node) read_zone(entry, place.at(entry.key()), value);
            return value;
          },
          [servers = list(upstream_server())](Json& json, const Zones& value) {
            json.StartObject();
            for (const auto& [zone, of_zone] : value) {
              json.Key(zone.data(), static_cast<rapidjson::SizeType>(zone.size()));
              servers.print(json, of_zone);
            }
            json.EndObject();
          }};
}

struct TlsKeys {
  std::string ca_file;
};

// The file has `tls: { ca_file: ... }`; the struct has one member.
class UpstreamTls final : public Member<UpstreamConfig> {
 public:
  explicit UpstreamTls(const Codec<TlsKeys>& keys) : keys_(keys) {}

 private:
  void read_into(const Node& node, const Place& place, UpstreamConfig& upstream) const override {
    if (auto value = keys_.read(node, place)) upstream.tls_ca_file = value->ca_file;
  }
  void print_from(Json& json, const UpstreamConfig& upstream) const override {
    keys_.print(json, TlsKeys{upstream.tls_ca_file});
  }

  Codec<TlsKeys> keys_;
};

Field<UpstreamConfig> upstream_tls() {
  const auto keys = section<TlsKeys>({field("ca_file", &TlsKeys::ca_file, text())});
  return {{"tls", std::make_shared<UpstreamTls>(keys), keys.keys}};
}

Codec<UpstreamConfig> upstream() {
  return section<UpstreamConfig>({
      field("servers", &UpstreamConfig::servers, list(upstream_server())),
      field("policy", &UpstreamConfig::policy, enumeration<UpstreamPolicy>()),
      field("zones", &UpstreamConfig::zones, zones()),
      field("locally_served_zones", &UpstreamConfig::locally_served_zones,
            enumeration<LocallyServed>()),
      field("timeout", &UpstreamConfig::timeout, duration(10ms, 1min)),
      field("max_in_flight", &UpstreamConfig::max_in_flight, number(1, 1'000'000)),
      field("case_randomization", &UpstreamConfig::case_randomization, boolean()),
      upstream_tls(),
      field("deny_answers", &UpstreamConfig::deny_answers, list(prefix())),
  });
}

void check_cache(const CacheConfig& cache, const Node& node, const Place& place) {
  if (cache.min_ttl <= cache.max_ttl) return;
  place.at("min_ttl").error(line_of(node, "min_ttl"), "is more than max_ttl");
}

// "auto" is not a size of its own until the memory is known that the process may have.
class CacheSize final : public Member<CacheConfig> {
  void read_into(const Node& node, const Place& place, CacheConfig& cache) const override {
    if (node.text() == "auto") return;
    const auto octets = size().read(node, place);
    if (!octets) return;
    cache.size_bytes = *octets;
    cache.has_default_size = false;
  }
  void print_from(Json& json, const CacheConfig& cache) const override {
    if (cache.has_default_size)
      print_text(json, "auto");
    else
      size().print(json, cache.size_bytes);
  }
};

Codec<CacheConfig> cache() {
  return section<CacheConfig>(
      {
          {{"size", std::make_shared<CacheSize>(), {}}},
          field("min_ttl", &CacheConfig::min_ttl, whole_seconds(24h)),
          field("max_ttl", &CacheConfig::max_ttl, whole_seconds(seconds(kMaxTtl))),
          field("negative_max_ttl", &CacheConfig::negative_max_ttl, whole_seconds(24h)),
          field("serve_stale", &CacheConfig::serve_stale, whole_seconds(seconds(kMaxTtl))),
          field("prefetch", &CacheConfig::prefetch, boolean()),
          field("nxdomain_cut", &CacheConfig::nxdomain_cut, boolean()),
      },
      check_cache);
}

// ---- dns64, hosts, overrides

Codec<Dns64Config> dns64() {
  const auto translation_prefix =
      checked(prefix(), [](const IpPrefix& value) -> std::string {  // RFC 6052, section 2.2
        constexpr unsigned kLengths[] = {32, 40, 48, 56, 64, 96};
        const bool good = value.address.is_v6() &&
                          std::ranges::find(kLengths, value.length) != std::end(kLengths);
        return good ? "" : "must be IPv6 of 32, 40, 48, 56, 64 or 96 bits";
      });
  return section<Dns64Config>({
      field("prefix", &Dns64Config::prefix, optional(translation_prefix)),
  });
}

Codec<HostsConfig> hosts() {
  return section<HostsConfig>({field("file", &HostsConfig::file, text())});
}

using Overrides = std::map<std::string, Override>;

Codec<IpAddress> address() {
  const auto parse = [](std::string_view words) -> Result<IpAddress> {
    if (const auto value = IpAddress::parse(words)) return *value;
    return fail(quoted(words) + " is not an IP address");
  };
  return text_value(parse, [](const IpAddress& value) { return value.to_string(); });
}

std::optional<Override> read_override(const Node& node, const Place& place) {
  if (node.is_scalar() && node.text() == "nxdomain") return Override{OverrideAction::NxDomain, {}};
  if (node.is_scalar() && node.text() == "refused") return Override{OverrideAction::Refused, {}};
  auto addresses = non_empty(list(address()), "write nxdomain to deny the name").read(node, place);
  if (!addresses) return std::nullopt;
  return Override{OverrideAction::Addresses, *std::move(addresses)};
}

void print_override(Json& json, const Override& value) {
  if (value.action == OverrideAction::Addresses)
    return list(address()).print(json, value.addresses);
  print_text(json, value.action == OverrideAction::NxDomain ? "nxdomain" : "refused");
}

// Special-use names come before overrides.
void warn_of_special_name(std::string_view suffix, std::uint32_t line, const Place& at) {
  const std::string_view zone = special_zone_of(suffix);
  if (!zone.empty())
    at.warn(line, "has no effect: " + std::string(zone) + " is a special-use name, which meshdns " +
                      (zone == "localhost" ? "answers with the loopback addresses" : "denies"));
}

Codec<Overrides> overrides() {
  return {[](const Node& node, const Place& place) -> std::optional<Overrides> {
            if (node.is_null()) return Overrides();
            if (!node.is_mapping()) {
              wrong_type(node, place, "a mapping");
              return std::nullopt;
            }
            Overrides result;
            for (const Node& entry : node) {
              const Place at = place.at(entry.key());
              const auto suffix = parse_domain(entry.key());
              if (!suffix) at.error(entry.line(), suffix.error().message);
              if (suffix) warn_of_special_name(*suffix, entry.line(), at);
              auto value = read_override(entry, at);
              if (suffix && value && !result.emplace(*suffix, *std::move(value)).second)
                at.error(entry.line(), "suffix " + quoted(*suffix) + " is listed twice");
            }
            return result;
          },
          [](Json& json, const Overrides& value) {
            json.StartObject();
            for (const auto& [suffix, of_suffix] : value) {
              json.Key(suffix.data(), static_cast<rapidjson::SizeType>(suffix.size()));
              print_override(json, of_suffix);
            }
            json.EndObject();
          }};
}

// ---- the whole

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
