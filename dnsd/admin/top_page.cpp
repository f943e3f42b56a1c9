// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/top_page.hpp"

#include <algorithm>
#include <numeric>

#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/admin/http_request.hpp"
#include "dnsd/admin/json.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint64_t kUsualTop = 10;
constexpr std::uint64_t kLongestTop = 100;

// The name of the entry, or its last labels after "...".  Safe to show.
std::string top_name(const TopEntry& entry) {
  return (entry.is_cut ? "..." : "") + registry::escape(entry.text) + ".";
}

IpAddress top_address(const TopEntry& entry) {
  IpAddress::Octets octets{};
  std::copy_n(entry.text.begin(), std::min(entry.text.size(), octets.size()), octets.begin());
  return IpAddress::v6(octets);  // IPv4 is held as IPv4-mapped
}

// The Pod or workload at an address.  Empty: unknown, or clients are not told apart.
struct TopClient {
  std::string description;
  std::string ns;
};

TopClient top_client(const DaemonParts& daemon, const IpAddress& address) {
  const auto snapshot = daemon.registry.current();
  if (!snapshot->by_source_address) return {};
  const registry::ClientEntry* entry = snapshot->client_entry_at(address);
  if (entry == nullptr || !entry->client) return {};
  return {entry->client->identity.description, entry->client->identity.ns};
}

void put_amount(Json& json, const TopReport& top, const TopEntry& entry) {
  put(json, "queries", entry.amount);
  put(json, "error", entry.error);
  put_number(json, "perSecond", top.per_second(entry.amount));
}

void put_name(Json& json, const TopEntry& entry) {
  put(json, "name", top_name(entry));
  if (entry.is_cut) put_bool(json, "cut", true);
}

void put_client(Json& json, const DaemonParts& daemon, const TopEntry& entry) {
  const IpAddress address = top_address(entry);
  put(json, "address", address.to_string());
  const TopClient client = top_client(daemon, address);
  put(json, "client", client.description);
  put(json, "namespace", client.ns);
}

void put_forwarded(Json& json, const TopEntry& entry) {
  const double total_ms = static_cast<double>(entry.amount) / 1e3;
  put_name(json, entry);
  put(json, "queries", entry.part);
  put_number(json, "totalMs", total_ms);
  put_number(json, "errorMs", static_cast<double>(entry.error) / 1e3);
  const auto queries = static_cast<double>(std::max<std::uint64_t>(entry.part, 1));
  put_number(json, "meanMs", total_ms / queries);
  put_number(json, "longestMs", static_cast<double>(entry.peak) / 1e3);
}

void put_failing(Json& json, const FailingNames::Entry& entry) {
  put(json, "name", registry::escape(entry.name) + ".");
  put(json, "rcode", wire::to_string(entry.rcode));
  put(json, "times", entry.count);
}

void put_latency(Json& json, const UpstreamStatus& upstream,
                 const LatencyWindow::Buckets& latency) {
  put(json, "server", upstream.name);
  put(json, "health", health_name(upstream));
  put(json, "answers", std::accumulate(latency.begin(), latency.end(), std::uint64_t{0}));
  put_number(json, "medianMs", quantile_ms(latency, 0.5));
  put_number(json, "p90Ms", quantile_ms(latency, 0.9));
  put_number(json, "p99Ms", quantile_ms(latency, 0.99));
  json.Key("latency");
  json.StartArray();
  for (std::size_t i = 0; i < latency.size(); ++i) {
    if (latency[i] == 0) continue;
    json.StartObject();
    json.Key("upToMs");  // null: above all
    if (i < kLatencyBuckets)
      json.Double(0.25 * static_cast<double>(std::uint64_t{1} << i));
    else
      json.Null();
    put(json, "answers", latency[i]);
    json.EndObject();
  }
  json.EndArray();
}

template <typename List, typename PutMembers>
void put_top(Json& json, const char* key, const List& list, PutMembers put_members) {
  put_list(json, key, list, [&](const auto& entry) {
    json.StartObject();
    put_members(entry);
    json.EndObject();
  });
}

void put_report(Json& json, const DaemonParts& daemon, std::size_t limit) {
  const TopReport top = daemon.top(limit);
  put_number(json, "seconds", top.seconds);
  put(json, "queries", top.queries);
  put_number(json, "perSecond", top.per_second(top.queries));
  put(json, "refused", top.refused);
  put_top(json, "names", top.names, [&](const TopEntry& entry) {
    put_name(json, entry);
    put_amount(json, top, entry);
  });
  put_top(json, "clients", top.clients, [&](const TopEntry& entry) {
    put_client(json, daemon, entry);
    put_amount(json, top, entry);
  });
  put_top(json, "namespaces", top.namespaces, [&](const TopEntry& entry) {
    put(json, "namespace", entry.text);
    put_amount(json, top, entry);
  });
  put_top(json, "forwarded", top.forwarded,
          [&](const TopEntry& entry) { put_forwarded(json, entry); });
  put_top(json, "refusedClients", top.refused_clients, [&](const TopEntry& entry) {
    put_client(json, daemon, entry);
    put_amount(json, top, entry);
    put(json, "limited", entry.part);
  });
  put_top(json, "upstreams", upstream_status(daemon), [&](const UpstreamStatus& upstream) {
    put_latency(json, upstream, daemon.latency.recent(upstream));
  });
  put_top(json, "failing", daemon.failing_names(limit),
          [&](const FailingNames::Entry& entry) { put_failing(json, entry); });
}

}  // namespace

HttpResponse show_top(const DaemonParts& daemon, const HttpRequest& request) {
  const auto limit = number_argument(request, "limit", kUsualTop);
  if (!limit || *limit == 0 || *limit > kLongestTop)
    return json_error("limit=: " + in_quotes(request.argument("limit")) +
                          " is not a number from 1 to " + std::to_string(kLongestTop),
                      400);
  return json_response([&](Json& json) {
    json.SetMaxDecimalPlaces(3);
    json.StartObject();
    put_report(json, daemon, *limit);
    json.EndObject();
  });
}

}  // namespace meshdns::dnsd
