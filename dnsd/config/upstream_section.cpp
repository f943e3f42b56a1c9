// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/sections.hpp"

#include <map>

#include "dnsd/config/value_codecs.hpp"
#include "dnsd/config/values.hpp"

namespace meshdns::dnsd::schema {
namespace {

using namespace std::chrono_literals;
using std::chrono::seconds;

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
      place.error(entry.line(), "zone " + in_quotes(name) + " is listed twice");
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

}  // namespace

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
      field("cookies", &UpstreamConfig::cookies, enumeration<UpstreamCookieMode>()),
      upstream_tls(),
      field("deny_answers", &UpstreamConfig::deny_answers, list(prefix())),
  });
}

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

}  // namespace meshdns::dnsd::schema
