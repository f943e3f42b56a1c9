// SPDX-License-Identifier: Apache-2.0
#include "dnsd/cli/answer_diff.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <string_view>

#include "dnsd/answer/json_members.hpp"
#include "registry/base/counted.hpp"
#include "registry/base/each_once.hpp"
#include "registry/base/printable.hpp"
#include "registry/view/view.hpp"
#include "registry/view/view_explanation.hpp"

namespace meshdns::dnsd {
namespace {

using registry::Snapshot;
using registry::View;

constexpr std::size_t kAddressesShown = 8;
constexpr std::size_t kClientsShown = 8;
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

std::vector<std::string> namespaces_of(const Snapshot& before, const Snapshot& after) {
  std::set<std::string, std::less<>> found;
  for (const Snapshot* snapshot : {&before, &after})
    snapshot->resources.for_each([&](const registry::StoredResource& stored) {
      const std::string_view ns =
          stored.kind() == registry::Kind::Namespace ? stored.name() : stored.ns();
      if (!ns.empty() && !found.contains(ns)) found.emplace(ns);
    });
  return {found.begin(), found.end()};
}

std::set<std::string> hosts_of(const Snapshot& before, const Snapshot& after) {
  std::set<std::string> hosts;
  const auto note = [&](const registry::HostEntry& entry) { hosts.emplace(entry.host()); };
  for (const Snapshot* snapshot : {&before, &after}) {
    snapshot->hosts.for_each(note);
    snapshot->wildcards.for_each(note);
  }
  return hosts;
}

std::string source_text(const Snapshot& snapshot, const registry::ServiceRecord* service) {
  if (service == nullptr || !service->source) return {};
  std::string text = service->source->label();
  const std::string_view origin = snapshot.origins->of(service->source->origin());
  if (origin.empty()) return text;
  return text + " (" + std::string(origin) + ":" + std::to_string(service->source->line()) + ")";
}

const registry::ServiceRecord* service_of(const View& view, std::string_view host) {
  return view.lookup(host).service;
}

// Adds the client to the change of that name that is equal to its own, or begins one.
void add_change(std::vector<AnswerDifference>& changes, std::size_t first, AnswerDifference change,
                const std::string& client) {
  for (std::size_t i = first; i < changes.size(); ++i) {
    AnswerDifference& known = changes[i];
    if (known.before != change.before || known.after != change.after ||
        known.source_before != change.source_before || known.source_after != change.source_after)
      continue;
    known.clients.push_back(client);
    return;
  }
  change.clients.push_back(client);
  changes.push_back(std::move(change));
}

}  // namespace

AnswerDiff compare_answers(registry::Registry& before, registry::Registry& after,
                           std::vector<std::string> clients) {
  const Snapshot& old = *before.current();
  const Snapshot& now = *after.current();
  AnswerDiff diff;
  if (clients.empty()) clients = namespaces_of(old, now);
  if (clients.empty()) clients.emplace_back("default");
  sort_each_once(clients);
  diff.clients = std::move(clients);
  struct Views {
    Ref<const registry::Client> old_client;
    Ref<const registry::Client> new_client;
  };
  std::vector<Views> views;
  for (const auto& ns : diff.clients) {
    registry::ClientIdentity identity;
    identity.ns = ns;
    identity.description = "any client";
    views.push_back({before.client_of(identity), after.client_of(identity)});
  }
  const auto hosts = hosts_of(old, now);
  diff.names = hosts.size();
  for (const auto& host : hosts) {
    const std::size_t first = diff.changes.size();
    for (std::size_t i = 0; i < views.size(); ++i) {
      const View old_view(old, *views[i].old_client);
      const View new_view(now, *views[i].new_client);
      const auto* old_service = service_of(old_view, host);
      const auto* new_service = service_of(new_view, host);
      if (old_service == nullptr && new_service == nullptr) continue;
      if (answer_text(old_view, old_service, kAll) == answer_text(new_view, new_service, kAll))
        continue;
      add_change(diff.changes, first,
                 {host,
                  answer_text(old_view, old_service, kAddressesShown),
                  answer_text(new_view, new_service, kAddressesShown),
                  source_text(old, old_service),
                  source_text(now, new_service),
                  {}},
                 diff.clients[i]);
    }
  }
  return diff;
}

std::string to_text(const AnswerDiff& diff) {
  std::string text;
  std::set<std::string_view> names;
  for (const AnswerDifference& change : diff.changes) {
    names.insert(change.name);
    std::string line = change.name + ": " + change.before + " -> " + change.after;
    if (change.clients.size() == diff.clients.size())
      line += diff.clients.size() == 1 ? "; for clients of " + diff.clients.front()
                                       : std::string("; for all clients");
    else
      line += "; for clients of " +
              registry::list_of(
                  std::span(change.clients).first(std::min(change.clients.size(), kClientsShown)),
                  change.clients.size(), "namespace");
    if (!change.source_before.empty()) line += "; before: " + change.source_before;
    if (!change.source_after.empty()) line += "; after: " + change.source_after;
    text += registry::printable(line, line.size()) + "\n";
  }
  return text + std::to_string(names.size()) + " of " + counted(diff.names, "name") +
         (names.size() == 1 ? " is" : " are") + " answered differently, for clients of " +
         counted(diff.clients.size(), "namespace") + "\n";
}

std::string to_json(const AnswerDiff& diff) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  put(json, "names", diff.names);
  put(json, "clients", diff.clients);
  put_list(json, "changes", diff.changes, [&](const AnswerDifference& change) {
    json.StartObject();
    put(json, "name", change.name);
    put(json, "before", change.before);
    put(json, "after", change.after);
    put(json, "sourceBefore", change.source_before);
    put(json, "sourceAfter", change.source_after);
    put(json, "clients", change.clients);
    json.EndObject();
  });
  json.EndObject();
  return std::string(buffer.GetString()) + "\n";
}

}  // namespace meshdns::dnsd
