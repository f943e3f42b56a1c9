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

void check_cache(CacheConfig& cache, const Node& node, const Place& place) {
  if (cache.min_ttl <= cache.max_ttl) return;
  place.at("min_ttl").error(line_of(node, "min_ttl"), "is more than max_ttl");
}

// "auto" is not a size of its own until the memory is known that the process may have.
void read_cache_size(const Node& node, const Place& place, CacheConfig& cache) {
  if (node.text() == "auto") return;
  const auto octets = size().read(node, place);
  if (!octets) return;
  cache.size_bytes = *octets;
  cache.has_default_size = false;
}

void print_cache_size(Json& json, const CacheConfig& cache) {
  print_text(json, cache.has_default_size ? "auto" : format_size(cache.size_bytes));
}

}  // namespace

Codec<UpstreamConfig> upstream() {
  return section<UpstreamConfig>({
      field("servers", &UpstreamConfig::servers, list(upstream_server())),
      field("policy", &UpstreamConfig::policy, enumeration<UpstreamPolicy>()),
      field("zones", &UpstreamConfig::zones,
            mapping<Zones>(read_zone, list(upstream_server()).print)),
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

}  // namespace meshdns::dnsd::schema
