// SPDX-License-Identifier: Apache-2.0
// The pages about answers: /changes, /explain and /top.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <numeric>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dnsd/admin/admin_routes.hpp"
#include "dnsd/admin/http_request.hpp"
#include "dnsd/admin/json.hpp"
#include "dnsd/answer/explanation.hpp"
#include "dnsd/mesh/upstream_servers.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"
#include "registry/base/socket_address.hpp"
#include "registry/traffic/traffic_match.hpp"
#include "registry/view/view.hpp"
#include "registry/view/view_explanation.hpp"

namespace meshdns::dnsd {

// --- /changes

namespace {

constexpr std::uint64_t kUsualLimit = 1'000;

void put_event(Json& json, const AnswerEvent& event) {
  json.StartObject();
  put(json, "time", time_text(event.unix_seconds));
  put(json, "change", to_string(event.kind));
  put(json, "name", event.name);
  put(json, "namespace", event.ns);
  put(json, "before", event.before);
  put(json, "after", event.after);
  put(json, "object", event.object);
  put(json, "source", event.source);
  json.EndObject();
}

void put_time(Json& json, const char* key, std::optional<std::int64_t> unix_seconds) {
  if (unix_seconds) return put(json, key, time_text(*unix_seconds));
  json.Key(key);
  json.Null();
}

}  // namespace

HttpResponse show_changes(const ShownDaemon& daemon, const HttpRequest& request) {
  const auto since = number_argument(request, "since", 0);
  const auto limit = number_argument(request, "limit", kUsualLimit);
  for (const auto& argument : {since, limit})
    if (!argument) return bad_request(argument.error().message);
  const std::string name = canonical_host(request.argument("name"));
  const AnswerHistory& history = daemon.engine.answers.history();
  return object_response([&](Json& json) {
    put_time(json, "knownSince", history.known_since());
    put_bool(json, "complete", history.is_whole());
    put(json, "appeared", history.counts().appeared);
    put(json, "vanished", history.counts().vanished);
    put(json, "different", history.counts().different);
    json.Key("changes");
    json.StartArray();
    std::uint64_t left = *limit;
    const auto put_events = [&](const std::deque<AnswerEvent>& events, std::int64_t until) {
      for (const AnswerEvent& event : events | std::views::reverse) {
        if (left == 0 || std::cmp_less(event.unix_seconds, *since)) return;
        if (event.unix_seconds > until || (!name.empty() && event.name != name)) continue;
        put_event(json, event);
        --left;
      }
    };
    constexpr auto end_of_time = std::numeric_limits<std::int64_t>::max();
    put_events(history.events(), end_of_time);
    // A daemon that this one has replaced may have gone on for a while.
    if (history.is_whole())
      put_events(daemon.engine.history.earlier_changes(),
                 history.known_since().value_or(end_of_time));
    json.EndArray();
  });
}

// --- /explain

namespace {

// Maximum number of names that have the text and are looked at as the client sees them.
constexpr std::size_t kMaxCandidates = 2'000;
constexpr std::size_t kMaxNamesFound = 50;
constexpr std::size_t kAddressesShown = 3;

// The client that `from` names: an IP address or a namespace; empty = client.default.  A null
// client: the address is not a known one, and client.unknown is refuse.
Result<Ref<const registry::Client>> client_from(const ShownDaemon& daemon, std::string_view from) {
  const auto& snapshot = *daemon.engine.registry.current();
  if (from.empty()) return snapshot.default_client;
  if (const auto address = IpAddress::parse(from))
    return Ref<const registry::Client>(snapshot.client_at(*address));
  if (!is_label(from)) return fail("from= is neither an IP address nor a namespace");
  registry::ClientIdentity identity;
  identity.ns = from;
  identity.description = "any client";
  return daemon.engine.registry.client_of(identity);
}

Result<Ref<const registry::Client>> known_client_from(const ShownDaemon& daemon,
                                                      std::string_view from) {
  auto client = client_from(daemon, from);
  if (client && !*client) return fail("from= is not a known client, and client.unknown is refuse");
  return client;
}

// The note on from=, if that is a namespace that nothing is in; else empty.
std::string note_on_namespace(const ShownDaemon& daemon, const HttpRequest& request) {
  const auto from = request.argument("from");
  if (from.empty() || IpAddress::parse(from)) return {};
  return unknown_namespace(*daemon.engine.registry.current(), from);
}

HttpResponse lines_response(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += registry::printable(line, line.size()) + "\n";
  return {200, "text/plain; charset=utf-8", std::move(text)};
}

HttpResponse show_traffic(const ShownDaemon& daemon, const HttpRequest& request) {
  const auto address = parse_socket_address(request.argument("connect"));
  if (!address) return bad_request("connect=: " + address.error().message);
  const auto client = known_client_from(daemon, request.argument("from"));
  if (!client) return bad_request(client.error().message);
  const auto snapshot = daemon.engine.registry.current();
  const registry::View view(*snapshot, **client);
  const registry::Connection connection{address->ip, address->port,
                                        std::string(request.argument("sni")),
                                        std::string(request.argument("host"))};
  registry::TrafficMatch match = match_traffic(view, connection);
  if (std::string note = note_on_namespace(daemon, request); !note.empty())
    match.notes.push_back(std::move(note));
  if (request.argument("format") == "text")
    return lines_response(traffic_lines(view, connection, match));
  return {200, "application/json", traffic_json(view, connection, match) + "\n"};
}

struct NameMatch {
  std::string name;    // "api.example.org", "*.example.org"
  std::string answer;  // "10.0.0.7", "CNAME www.example.org", "no ready endpoints"
  std::string source;  // "ServiceEntry shop/api (shop.yaml:14)"
};

struct NameMatches {
  std::vector<NameMatch> names;  // sorted
  bool is_complete = true;       // there are no more
};

// The hosts and wildcards that have `text` in them, in any case, and that the client sees.  Takes
// some milliseconds for 100,000 names.
NameMatches find_names(const registry::Snapshot& snapshot, const registry::Client& client,
                       std::string_view text, std::size_t limit) {
  const std::string part = canonical_host(text);
  NameMatches found;
  std::vector<std::string_view> hosts;
  const auto note = [&](const registry::HostEntry& entry) {
    if (entry.host().find(part) == std::string_view::npos) return;
    if (hosts.size() < kMaxCandidates)
      hosts.push_back(entry.host());
    else
      found.is_complete = false;
  };
  snapshot.hosts.for_each(note);
  snapshot.wildcards.for_each(note);
  std::ranges::sort(hosts);
  const registry::View view(snapshot, client);
  for (const std::string_view host : hosts) {
    const auto match = view.lookup(host);
    // A hidden host may be answered by a wildcard, which is in the list itself.
    if (match.service == nullptr || match.entry == nullptr || match.entry->host() != host) continue;
    if (found.names.size() == limit) {
      found.is_complete = false;
      break;
    }
    found.names.push_back({std::string(host),
                           registry::answer_text(view, match.service, kAddressesShown),
                           describe_source(match.service->source, snapshot)});
  }
  return found;
}

HttpResponse show_found_names(const ShownDaemon& daemon, const HttpRequest& request) {
  const auto client = known_client_from(daemon, request.argument("from"));
  if (!client) return bad_request(client.error().message);
  const auto found = find_names(*daemon.engine.registry.current(), **client,
                                request.argument("name"), kMaxNamesFound);
  return object_response([&](Json& json) {
    put_bool(json, "complete", found.is_complete);
    if (const std::string note = note_on_namespace(daemon, request); !note.empty())
      put(json, "note", note);
    put_objects(json, "names", found.names, [&](const NameMatch& match) {
      put(json, "name", match.name);
      put(json, "answer", match.answer);
      put(json, "source", match.source);
    });
  });
}

std::string last_push(const registry::ControlPlaneStatus& istiod) {
  if (istiod.pushes == 0) return "no good push since the source was started";
  return "last good push: " +
         (istiod.version.empty() ? "without a version" : "version " + istiod.version);
}

// Adds the version of istiod's last push to the facts about its objects.  No object has a version
// of its own: each push would change all objects, and the registry with them.
void add_push_versions(const std::vector<SourceReport>& sources, Explanation& explanation) {
  for (const auto& [source, changed] : sources) {
    if (!source.control_plane) continue;
    const std::string origin = "(" + source.name + ")";
    for (Explanation::Fact& fact : explanation.facts) {
      // "NameTableEntry api.example.org (istiod:10.0.0.1:15012): chosen: a name of istiod"
      const std::string_view text = fact.text;
      const std::size_t end = text.find("): ");
      if (end != std::string_view::npos && text.substr(0, end + 1).ends_with(origin))
        fact.text += "; " + last_push(*source.control_plane);
    }
  }
}

// The arguments name=, type= and from=.  The Error names the argument that is wrong.
Result<Explanation> explanation_for(const ShownDaemon& daemon, const HttpRequest& request) {
  const auto name = request.argument("name");
  const auto from = request.argument("from");
  if (name.empty())
    return fail(
        "name= is missing: /explain?name=api.example.org&type=A, or /explain?connect=10.0.0.7:443");
  std::vector<wire::Type> types;
  if (const auto text = request.argument("type"); !text.empty()) {
    wire::Type type = wire::Type::A;
    if (!wire::type_from_string(text, type))
      return fail("type=: " + in_quotes(text) + " is not a record type");
    types.push_back(type);
  }
  const auto chosen = client_from(daemon, from);
  if (!chosen) return fail(chosen.error().message);
  const auto& client = *chosen;
  const auto address = IpAddress::parse(from);
  const auto snapshot = daemon.engine.registry.current();
  daemon.engine.answers.history();  // up to date
  auto explanation =
      !client && address
          ? explain_unknown_client(name, *address)
          : explain({*snapshot, *client, daemon.query_settings, name, std::move(types),
                     [&](std::string_view wire_name, wire::Type type) {
                       return forwarding_facts(route_for(daemon.upstream, wire_name),
                                               *daemon.engine.forwarding, wire_name, type,
                                               uv_hrtime() / 1'000'000);
                     },
                     daemon.status().kernel.feed, daemon.query_settings.past});
  if (explanation && client) add_push_versions(daemon.engine.sources.reports(), *explanation);
  if (std::string note = note_on_namespace(daemon, request); explanation && !note.empty())
    explanation->facts.insert(explanation->facts.begin(), {std::move(note), true});
  if (explanation && address)
    add_client_facts(*explanation, *snapshot, daemon.query_settings.allow, *address);
  return explanation;
}

}  // namespace

HttpResponse show_explanation(const ShownDaemon& daemon, const HttpRequest& request) {
  if (!request.argument("search").empty()) return show_found_names(daemon, request);
  if (!request.argument("connect").empty()) return show_traffic(daemon, request);
  const auto explanation = explanation_for(daemon, request);
  if (!explanation) return bad_request(explanation.error().message);
  if (request.argument("format") != "text")
    return {200, "application/json", to_json(*explanation, Audience::Operator) + "\n"};
  return lines_response(to_lines(*explanation, Audience::Operator));
}

// --- /top

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

TopClient top_client(const ShownDaemon& daemon, const IpAddress& address) {
  const auto snapshot = daemon.engine.registry.current();
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

void put_client(Json& json, const ShownDaemon& daemon, const TopEntry& entry) {
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

void put_report(Json& json, const ShownDaemon& daemon, std::size_t limit) {
  const auto [top, failing, outside] = daemon.frequent(limit);
  put_number(json, "seconds", top.seconds);
  put(json, "queries", top.queries);
  put_number(json, "perSecond", top.per_second(top.queries));
  put(json, "refused", top.refused);
  put_objects(json, "names", top.names, [&](const TopEntry& entry) {
    put_name(json, entry);
    put_amount(json, top, entry);
  });
  put_objects(json, "clients", top.clients, [&](const TopEntry& entry) {
    put_client(json, daemon, entry);
    put_amount(json, top, entry);
  });
  put_objects(json, "namespaces", top.namespaces, [&](const TopEntry& entry) {
    put(json, "namespace", entry.text);
    put_amount(json, top, entry);
  });
  put_objects(json, "forwarded", top.forwarded,
              [&](const TopEntry& entry) { put_forwarded(json, entry); });
  put_objects(json, "refusedClients", top.refused_clients, [&](const TopEntry& entry) {
    put_client(json, daemon, entry);
    put_amount(json, top, entry);
    put(json, "limited", entry.part);
  });
  put_objects(json, "upstreams", upstream_status(daemon), [&](const UpstreamStatus& upstream) {
    put_latency(json, upstream, daemon.history.latency.recent(upstream));
  });
  put_objects(json, "failing", failing,
              [&](const FailingNames::Entry& entry) { put_failing(json, entry); });
  put_objects(json, "registryOnly", outside, [&](const FailingNames::Entry& entry) {
    put(json, "name", registry::escape(entry.name) + ".");
    put(json, "action", entry.rcode == wire::Rcode::NoError ? "audit" : "refuse");
    put(json, "times", entry.count);
  });
}

}  // namespace

HttpResponse show_top(const ShownDaemon& daemon, const HttpRequest& request) {
  const auto limit = number_argument(request, "limit", kUsualTop);
  if (!limit || *limit == 0 || *limit > kLongestTop)
    return bad_request("limit=: " + in_quotes(request.argument("limit")) +
                       " is not a number from 1 to " + std::to_string(kLongestTop));
  return object_response([&](Json& json) {
    json.SetMaxDecimalPlaces(3);
    put_report(json, daemon, *limit);
  });
}

}  // namespace meshdns::dnsd
