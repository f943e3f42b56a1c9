// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/explain_page.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dnsd/admin/answer_pages.hpp"
#include "dnsd/admin/json.hpp"
#include "dnsd/answer/explanation.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"
#include "registry/base/socket_address.hpp"
#include "registry/traffic/traffic_match.hpp"
#include "registry/view/view.hpp"
#include "registry/view/view_explanation.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::size_t kMaxNamespaceLength = 63;
// Maximum number of names that have the text and are looked at as the client sees them.
constexpr std::size_t kMaxCandidates = 2'000;
constexpr std::size_t kMaxNamesFound = 50;
constexpr std::size_t kAddressesShown = 3;

// The client that `from` names: an IP address or a namespace; empty = client.default.  A null
// client: the address is not a known one, and client.unknown is refuse.
Result<Ref<const registry::Client>> client_from(const DaemonParts& daemon, std::string_view from) {
  const auto& snapshot = *daemon.registry.current();
  if (from.empty()) return snapshot.default_client;
  if (const auto address = IpAddress::parse(from))
    return Ref<const registry::Client>(snapshot.client_at(*address));
  if (from.size() > kMaxNamespaceLength)
    return fail("from= is neither an IP address nor a namespace");
  registry::ClientIdentity identity;
  identity.ns = from;
  identity.description = "any client";
  return daemon.registry.client_of(identity);
}

HttpResponse show_traffic(const DaemonParts& daemon, const HttpRequest& request) {
  const auto address = parse_socket_address(request.argument("connect"));
  if (!address) return bad_request("connect=: " + address.error().message);
  const auto chosen = client_from(daemon, request.argument("from"));
  if (!chosen) return bad_request(chosen.error().message);
  const auto& client = *chosen;
  if (!client) return bad_request("from= is not a known client, and client.unknown is refuse");
  const auto snapshot = daemon.registry.current();
  const registry::View view(*snapshot, *client);
  const registry::Connection connection{address->ip, address->port,
                                        std::string(request.argument("sni")),
                                        std::string(request.argument("host"))};
  return {200, "application/json",
          traffic_json(view, connection, match_traffic(view, connection)) + "\n"};
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

HttpResponse show_found_names(const DaemonParts& daemon, const HttpRequest& request) {
  const auto client = client_from(daemon, request.argument("from"));
  if (!client) return bad_request(client.error().message);
  if (!*client) return bad_request("from= is not a known client, and client.unknown is refuse");
  const auto found =
      find_names(*daemon.registry.current(), **client, request.argument("name"), kMaxNamesFound);
  return json_response([&](Json& json) {
    json.StartObject();
    put_bool(json, "complete", found.is_complete);
    put_list(json, "names", found.names, [&](const NameMatch& match) {
      json.StartObject();
      put(json, "name", match.name);
      put(json, "answer", match.answer);
      put(json, "source", match.source);
      json.EndObject();
    });
    json.EndObject();
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
Result<Explanation> explanation_for(const DaemonParts& daemon, const HttpRequest& request) {
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
  const auto snapshot = daemon.registry.current();
  auto explanation =
      !client && address
          ? explain_unknown_client(name, *address)
          : explain({*snapshot, *client, daemon.query_settings, name, std::move(types),
                     [&](std::string_view wire_name, wire::Type type) {
                       return daemon.describe_forwarding(wire_name, type);
                     },
                     daemon.kernel()});
  if (explanation && client) {
    add_push_versions(daemon.sources(), *explanation);
    add_history({*snapshot, *client}, name, daemon, *explanation);
  }
  if (explanation && address)
    add_client_facts(*explanation, *snapshot, daemon.query_settings.allow, *address);
  return explanation;
}

}  // namespace

HttpResponse show_explanation(const DaemonParts& daemon, const HttpRequest& request) {
  if (!request.argument("search").empty()) return show_found_names(daemon, request);
  if (!request.argument("connect").empty()) return show_traffic(daemon, request);
  const auto explanation = explanation_for(daemon, request);
  if (!explanation) return bad_request(explanation.error().message);
  if (request.argument("format") != "text")
    return {200, "application/json", to_json(*explanation, Audience::Operator) + "\n"};
  std::string text;
  for (const auto& line : to_lines(*explanation, Audience::Operator))
    text += registry::printable(line, line.size()) + "\n";
  return {200, "text/plain; charset=utf-8", std::move(text)};
}

}  // namespace meshdns::dnsd
