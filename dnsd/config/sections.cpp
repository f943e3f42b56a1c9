// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/sections.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "dnsd/config/value_codecs.hpp"
#include "dnsd/config/values.hpp"
#include "registry/base/host_name.hpp"
#include "registry/model/mesh_settings.hpp"

namespace meshdns::dnsd::schema {
namespace {
using namespace std::chrono_literals;
using std::chrono::seconds;

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
      return in_quotes(address.to_string()) + " is listed twice";
  return "";
}

// A path of 107 bytes fits into a Unix socket's name; it is renamed from one that ends in ".new".
constexpr std::size_t kMaxHandoverPath = 103;

std::string complain_about_handover(const std::string& path) {
  if (path.empty() || path.starts_with('/')) return "";
  return "write an absolute path, such as \"/run/meshdns/handover.sock\"";
}

std::string complain_about_maps(const std::string& path) {
  if (path.starts_with('/')) return "";
  return "write an absolute path, such as \"/run/meshdns.bpf/maps\"";
}

// Each has a thread and connections of its own.
constexpr std::size_t kMaxAdminAddresses = 8;

std::string complain_about_admin(const std::vector<AdminAddress>& addresses) {
  if (addresses.size() > kMaxAdminAddresses)
    return "has more than " + std::to_string(kMaxAdminAddresses) + " addresses";
  for (std::size_t i = 0; i < addresses.size(); ++i)
    for (std::size_t before = 0; before < i; ++before) {
      if (addresses[i] == addresses[before])
        return in_quotes(to_string(addresses[i])) + " is listed twice";
      if (need_one_place(addresses[i], addresses[before]))
        return in_quotes(to_string(addresses[i])) + " cannot be bound beside " +
               in_quotes(to_string(addresses[before])) + "; remove one of them";
    }
  return "";
}

std::string complain_about_tls(const AdminConfig& admin) {
  if (admin.metrics_cert_file.empty() == admin.metrics_key_file.empty()) return "";
  return "metrics_cert_file and metrics_key_file go together; name both files or none";
}

Codec<QueryLogConfig> query_log() {
  return section<QueryLogConfig>({
      field("class", &QueryLogConfig::query_class, enumeration<QueryLogClass>()),
      field("sample", &QueryLogConfig::sample, share()),
  });
}

Codec<ServerConfig> server() {
  const auto parse_address = [](std::string_view words) { return parse_socket_address(words); };
  const auto listen =
      checked(non_empty(list(text_value(parse_address)), R"(write ["127.0.0.1:53"])"),
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
      field("kernel_answers", &ServerConfig::kernel_answers, enumeration<KernelAnswersMode>()),
      field("kernel_maps", &ServerConfig::kernel_maps, checked(text(), complain_about_maps)),
      field("core_dumps", &ServerConfig::core_dumps, boolean()),
  });
}

Codec<AdminConfig> admin() {
  const auto keys = section<AdminConfig>({
      field("listen", &AdminConfig::listen,
            checked(one_or_list(text_value(parse_admin_address)), complain_about_admin)),
      field("token_file", &AdminConfig::token_file, text()),
      field("metrics_listen", &AdminConfig::metrics_listen,
            optional(text_value(parse_admin_address))),
      field("metrics_cert_file", &AdminConfig::metrics_cert_file, text()),
      field("metrics_key_file", &AdminConfig::metrics_key_file, text()),
      field("metrics_password_file", &AdminConfig::metrics_password_file, text()),
  });
  return checked(keys, complain_about_tls);
}

Codec<LogConfig> log() {
  return section<LogConfig>({
      field("level", &LogConfig::level, enumeration<LogLevel>()),
      field("format", &LogConfig::format, enumeration<LogFormat>()),
      field("queries", &LogConfig::queries, query_log()),
      field("dnstap", &LogConfig::dnstap, optional(text_value(parse_dnstap_target))),
  });
}

std::string complain_about_families(const std::vector<IpFamily>& families) {
  if (families.size() == 2 && families[0] == families[1]) return "has the same family twice";
  return families.size() > 2 ? "allows only IPv4 and IPv6" : "";
}

// A node id has a namespace; a second namespace in the configuration must be equal.
void follow_node_id(ClientIdentityConfig& identity, const Node& node, const Place& place) {
  if (!identity.node_id) return;
  identity.ns = identity.node_id->ns();
  if (node.find("ip_families") == nullptr) identity.ip_families = identity.node_id->families();
  const Node* ns = node.find("namespace");
  if (ns == nullptr || ns->text() == identity.ns) return;
  place.at("node_id").error(line_of(node, "node_id"),
                            "has the namespace " + in_quotes(identity.ns) +
                                ", but the key `namespace` is " + in_quotes(ns->text()) +
                                "; remove one of the two");
}

Codec<std::optional<NodeId>> node_id() {
  const auto parse = [](std::string_view words) -> Result<NodeId> {
    auto id = parse_node_id(words);
    if (id && !is_label(id->ns()))
      return fail(in_quotes(words) +
                  " has no namespace; write it as in "
                  "\"sidecar~10.60.1.6~web-1.shop~shop.svc.cluster.local\"");
    return id;
  };
  return optional(text_value(parse));
}

Codec<registry::Locality> locality() {
  const auto parse = [](std::string_view words) -> Result<registry::Locality> {
    if (std::ranges::count(words, '/') > 2)
      return fail(in_quotes(words) +
                  " is not of the form REGION/ZONE/SUBZONE; \"/ZONE\" is a zone");
    return registry::parse_locality(words);
  };
  return text_value(parse);
}

Codec<ClientIdentityConfig> client_identity() {
  return section<ClientIdentityConfig>(
      {
          field("namespace", &ClientIdentityConfig::ns, namespace_name()),
          field("labels", &ClientIdentityConfig::labels, labels()),
          field("network", &ClientIdentityConfig::network, text(253)),
          field("cluster", &ClientIdentityConfig::cluster, text(253)),
          field("node", &ClientIdentityConfig::node, text(253)),
          field("locality", &ClientIdentityConfig::locality, locality()),
          field("search", &ClientIdentityConfig::search, list(domain())),
          field("ip_families", &ClientIdentityConfig::ip_families,
                checked(non_empty(list(enumeration<IpFamily>()), "write [IPv4, IPv6]"),
                        complain_about_families)),
          field("node_id", &ClientIdentityConfig::node_id, node_id()),
      },
      follow_node_id);
}

Codec<ClientConfig> client() {
  return section<ClientConfig>({
      field("by_source_address", &ClientConfig::by_source_address, boolean()),
      field("unknown", &ClientConfig::unknown, enumeration<registry::UnknownClient>()),
      field("workload_entry_namespaces", &ClientConfig::workload_entry_namespaces,
            list(namespace_or_all())),
      field("node_search", &ClientConfig::node_search, list(domain())),
      field("default", &ClientConfig::default_identity, client_identity()),
  });
}

using Zones = std::map<std::string, std::vector<UpstreamServer>>;

Codec<std::vector<UpstreamServer>> upstream_servers() {
  return list(text_value(parse_upstream_server));
}

// One entry of `zones`; a prefix may stand for several.
void read_zone(const Node& entry, const Place& place, Zones& zones) {
  const auto servers = non_empty(upstream_servers(), R"(write ["10.0.0.53"])");
  const auto value = servers.read(entry, place);
  const auto names = parse_zones(entry.key());
  if (!names) return place.error(entry.line(), names.error().message);
  if (names->front().empty())
    return place.error(entry.line(), "for the root zone use upstream.servers");
  for (const std::string& name : *names)
    if (value && !zones.emplace(name, *value).second)
      place.error(entry.line(), "zone " + in_quotes(name) + " is listed twice");
}

void check_cache(CacheConfig& cache, const Node& node, const Place& place) {
  if (cache.min_ttl <= cache.max_ttl) return;
  place.at("min_ttl").error(line_of(node, "min_ttl"), "is more than max_ttl");
}

// "auto" is not a size of its own until the memory is known that the process may have.
void read_cache_size(const Node& node, const Place& place, CacheConfig& cache) {
  if (node.text() == "auto") return;
  const auto octets = text_value(parse_size, format_size).read(node, place);
  if (!octets) return;
  cache.size_bytes = *octets;
  cache.has_default_size = false;
}

void print_cache_size(Json& json, const CacheConfig& cache) {
  print_text(json, cache.has_default_size ? "auto" : format_size(cache.size_bytes));
}

Codec<UpstreamConfig> upstream() {
  return section<UpstreamConfig>({
      field("servers", &UpstreamConfig::servers, upstream_servers()),
      field("policy", &UpstreamConfig::policy, enumeration<UpstreamPolicy>()),
      field("zones", &UpstreamConfig::zones, mapping<Zones>(read_zone, upstream_servers().print)),
      field("locally_served_zones", &UpstreamConfig::locally_served_zones,
            enumeration<LocallyServed>()),
      field("timeout", &UpstreamConfig::timeout, duration(10ms, 1min)),
      field("max_in_flight", &UpstreamConfig::max_in_flight, number(1, 1'000'000)),
      field("case_randomization", &UpstreamConfig::case_randomization, boolean()),
      field("cookies", &UpstreamConfig::cookies, enumeration<UpstreamCookieMode>()),
      inner_map<UpstreamConfig>("tls", {field("ca_file", &UpstreamConfig::tls_ca_file, text())}),
      field("deny_answers", &UpstreamConfig::deny_answers, list(prefix())),
  });
}

Codec<CacheConfig> cache() {
  return section<CacheConfig>(
      {
          field_of<CacheConfig>("size", read_cache_size, print_cache_size),
          field("min_ttl", &CacheConfig::min_ttl, whole_seconds(24h)),
          field("max_ttl", &CacheConfig::max_ttl, whole_seconds(seconds(kMaxTtl))),
          field("negative_max_ttl", &CacheConfig::negative_max_ttl, whole_seconds(24h)),
          field("serve_stale", &CacheConfig::serve_stale, whole_seconds(seconds(kMaxTtl))),
          field("prefetch", &CacheConfig::prefetch, boolean()),
          field("nxdomain_cut", &CacheConfig::nxdomain_cut, boolean()),
      },
      check_cache);
}

std::string complain_about_history_size(std::size_t octets) {
  constexpr std::size_t kLeast = std::size_t{1} << 20;
  if (octets == 0 || octets >= kLeast) return "";
  return "is less than 1MiB; write 0 to keep no history";
}

Codec<HistoryConfig> history() {
  return section<HistoryConfig>({
      field("keep", &HistoryConfig::keep, whole_seconds(8760h)),
      field("size", &HistoryConfig::size_bytes,
            checked(text_value(parse_size, format_size), complain_about_history_size)),
  });
}

std::string complain_about_dependency_keep(seconds keep) {
  return keep >= 1h ? "" : "is less than 1h; write record: off to keep nothing";
}

std::string complain_about_dependency_memory(std::size_t octets) {
  constexpr std::size_t kLeast = std::size_t{1} << 20;
  return octets >= kLeast ? "" : "is less than 1MiB; write record: off to keep nothing";
}

Codec<DependenciesConfig> dependencies() {
  return section<DependenciesConfig>({
      field("record", &DependenciesConfig::record, enumeration<DependencyRecord>()),
      field("keep", &DependenciesConfig::keep,
            checked(whole_seconds(8760h), complain_about_dependency_keep)),
      field("memory", &DependenciesConfig::memory_bytes,
            checked(text_value(parse_size, format_size), complain_about_dependency_memory)),
  });
}

using Overrides = std::map<std::string, Override>;

std::string remedy_for_override(std::string_view text) {
  std::string lower = to_lower(text);
  if (lower == "nxdomain" || lower == "refused") return lower;
  if (IpAddress::parse(text)) return "[" + in_quotes(text) + "]";
  return R"(nxdomain, refused or a list of addresses, as in ["192.0.2.1"])";
}

std::optional<Override> read_override(const Node& node, const Place& place) {
  if (node.is_scalar() && node.text() == "nxdomain") return Override{OverrideAction::NxDomain, {}};
  if (node.is_scalar() && node.text() == "refused") return Override{OverrideAction::Refused, {}};
  if (node.is_scalar() && !node.is_null()) {
    place.error(node.line(), in_quotes(node.text()) + " is not an override; write " +
                                 remedy_for_override(node.text()));
    return std::nullopt;
  }
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

Codec<Overrides> overrides() {
  return mapping<Overrides>(
      [](const Node& entry, const Place& at, Overrides& result) {
        const auto suffix = parse_domain(entry.key());
        if (!suffix) at.error(entry.line(), suffix.error().message);
        if (suffix) warn_of_special_name(*suffix, entry.line(), at);
        auto value = read_override(entry, at);
        if (suffix && value && !result.emplace(*suffix, *std::move(value)).second)
          at.error(entry.line(), "suffix " + in_quotes(*suffix) + " is listed twice");
      },
      print_override);
}

using registry::LabelRequirement;
using registry::LabelSelector;
using Operator = LabelRequirement::Operator;

void check_requirement(LabelRequirement& requirement, const Node& node, const Place& place) {
  const bool takes_values = requirement.op == Operator::In || requirement.op == Operator::NotIn;
  if (requirement.key.empty())
    place.at("key").error(node.line(), "is missing");
  else if (node.find("operator") == nullptr)
    place.at("operator").error(node.line(), "is missing: In, NotIn, Exists or DoesNotExist");
  else if (takes_values == requirement.values.empty())
    place.at("values").error(node.line(), takes_values ? "In and NotIn need at least one value"
                                                       : "Exists and DoesNotExist take no values");
}

Codec<LabelRequirement> label_requirement() {
  return section<LabelRequirement>(
      {
          field("key", &LabelRequirement::key, text()),
          field("operator", &LabelRequirement::op, enumeration<Operator>()),
          field("values", &LabelRequirement::values, list(text())),
      },
      check_requirement);
}

// MeshConfig's words for one element of matchingRules.
Codec<LabelSelector> matching_rule() {
  return section<LabelSelector>({
      inner_map<LabelSelector>("namespaceSelector",
                               {
                                   field("matchLabels", &LabelSelector::match_labels, labels()),
                                   field("matchExpressions", &LabelSelector::match_expressions,
                                         list(label_requirement())),
                               }),
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
    return fail(in_quotes(words) +
                " is not of the form NAMESPACE/istio or NAMESPACE/istio-REVISION; \"\" reads none");
  };
  return text_value(parse);
}

// The classes of Gateways and Ingresses, each with NAMESPACE/NAME of a Service.
Codec<registry::Labels> services_of_classes() {
  return checked(text_map(128), [](const registry::Labels& services) -> std::string {
    for (const auto& [class_name, service] : services) {
      const std::string_view text = service;
      const std::size_t slash = std::min(text.find('/'), text.size());
      const bool is_good = is_label(text.substr(0, slash)) &&
                           is_label(text.substr(std::min(slash + 1, text.size()))) &&
                           to_lower(text) == text;
      if (!is_good)
        return "has " + in_quotes(text) + " for " + in_quotes(class_name) +
               ", which is not of the form NAMESPACE/NAME";
    }
    return {};
  });
}

Codec<registry::GatewayNameSettings> gateway_names() {
  using registry::GatewayNameSettings;
  return section<GatewayNameSettings>({
      field("kinds", &GatewayNameSettings::kinds, list(enumeration<registry::Kind>())),
      field("domains", &GatewayNameSettings::domains, list(domain())),
      field("services", &GatewayNameSettings::services, services_of_classes()),
  });
}

Codec<registry::RegistryOnlySettings> registry_only() {
  using registry::RegistryOnlySettings;
  return section<RegistryOnlySettings>({
      field("mode", &RegistryOnlySettings::mode, enumeration<registry::RegistryOnlyMode>()),
      field("rcode", &RegistryOnlySettings::rcode, enumeration<registry::RegistryOnlyRcode>()),
      field("namespaces", &RegistryOnlySettings::namespaces, list(namespace_name())),
  });
}

// A setting that Istio's MeshConfig has, too.  Null, and printed as null: the configuration does
// not set it.
template <typename V>
Field<registry::MeshSettings> mesh_config_field(
    std::string_view key, V registry::MeshSettings::* member,
    registry::SettingOrigin registry::SettingOrigins::* origin,
    const std::type_identity_t<Codec<V>>& codec) {
  using registry::MeshSettings;
  return field_of<MeshSettings>(
      key,
      [=, read = codec.read](const Node& node, const Place& place, MeshSettings& settings) {
        if (node.is_null()) return;
        auto value = read(node, place);
        if (!value) return;
        settings.*member = *std::move(value);
        settings.origins.*origin = registry::SettingOrigin::Configuration;
      },
      [=, print = codec.print](Json& json, const MeshSettings& settings) {
        if (settings.origins.*origin == registry::SettingOrigin::Configuration)
          print(json, settings.*member);
        else
          json.Null();
      },
      codec.keys);
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
      mesh_config_field("outbound_traffic_policy", &MeshSettings::outbound_policy,
                        &SettingOrigins::outbound_policy, enumeration<registry::OutboundPolicy>()),
      field("registry_only", &MeshSettings::registry_only, registry_only()),
      field("ttl", &MeshSettings::ttl, ttl()),
      field("authoritative", &MeshSettings::authoritative, enumeration<registry::Authoritative>()),
      field("cluster_set_authoritative", &MeshSettings::cluster_set_authoritative, boolean()),
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
      field("locality", &MeshSettings::locality, enumeration<registry::LocalityChoice>()),
      field("traffic_distribution", &MeshSettings::traffic_distribution,
            enumeration<registry::TrafficDistribution>()),
      field("networks", &MeshSettings::networks, enumeration<registry::NetworkChoice>()),
      field("istio_config_map", &MeshSettings::istio_config_map, istio_config_map()),
      field("gateway_names", &MeshSettings::gateway_names, gateway_names()),
  });
}

}  // namespace

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

const Fields& config_fields() {
  static const Fields kFields = fields_of<Config>({
      field("server", &Config::server, server()),
      field("admin", &Config::admin, admin()),
      field("log", &Config::log, log()),
      field("mesh", &Config::mesh, mesh()),
      field("client", &Config::client, client()),
      field("sources", &Config::sources, list(source())),
      field("upstream", &Config::upstream, upstream()),
      field("cache", &Config::cache, cache()),
      field("state_dir", &Config::state_dir, text()),
      field("history", &Config::history, history()),
      field("dependencies", &Config::dependencies, dependencies()),
      field("dns64", &Config::dns64, dns64()),
      field("hosts", &Config::hosts,
            section<HostsConfig>({field("file", &HostsConfig::file, text())})),
      field("overrides", &Config::overrides, overrides()),
  });
  return kFields;
}

}  // namespace meshdns::dnsd::schema
