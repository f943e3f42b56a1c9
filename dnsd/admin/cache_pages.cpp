// SPDX-License-Identifier: Apache-2.0
// The pages about the cache: /cache and /cache/flush.
#include <string_view>

#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/admin/http_request.hpp"
#include "dnsd/admin/json.hpp"
#include "resolver/wire/name_text.hpp"

namespace meshdns::dnsd {

HttpResponse show_cache(const ShownDaemon& daemon) {
  const CacheStatistics cache = daemon.engine.forwarding->cache.statistics();
  return object_response([&](Json& json) {
    const auto put_kind = [&](const char* name, const CacheStatistics::Kind& kind) {
      put_object(json, name, [&] {
        put(json, "entries", kind.entries);
        put(json, "bytes", kind.bytes);
        put(json, "hits", kind.hits);
        put(json, "evictions", kind.evictions);
      });
    };
    put_kind("positive", cache.positive);
    put_kind("negative", cache.negative);
    put_kind("failure", cache.failure);
    put(json, "staleHits", cache.stale_hits);
    put(json, "misses", cache.misses);
    put(json, "insertions", cache.insertions);
    put(json, "refreshes", cache.refreshes);
    put(json, "capacityBytes", cache.capacity_bytes);
  });
}

HttpResponse flush_cache(const ShownDaemon& daemon, const HttpRequest& request) {
  const auto name = request.argument("name");
  const auto zone = request.argument("zone");
  if (name.empty() == zone.empty())
    return bad_request("name=NAME or zone=ZONE is needed, one of them; zone=. is everything");
  const auto wire_name = wire::name_from_text(name.empty() ? zone : name);
  if (!wire_name) return bad_request(wire_name.error().message);
  Cache& cache = daemon.engine.forwarding->cache;
  const std::size_t removed =
      name.empty() ? cache.flush_zone(*wire_name) : cache.flush_name(*wire_name);
  daemon.engine.log.info(
      "cache flushed",
      {{name.empty() ? "zone" : "name", name.empty() ? zone : name}, {"entries", removed}});
  return object_response([&](Json& json) { put(json, "removed", removed); });
}

}  // namespace meshdns::dnsd
