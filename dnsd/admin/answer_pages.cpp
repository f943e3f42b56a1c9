// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/answer_pages.hpp"

#include <algorithm>
#include <ranges>
#include <string>

#include "dnsd/admin/http_request.hpp"
#include "dnsd/admin/json.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

using registry::Finding;

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

// `ns` is the namespace whose service answers the client; empty: none does.  The change of another
// namespace's service need not be why the answer is what it is.
std::string last_change(const AnswerHistory& history, std::string_view host, std::string_view ns) {
  if (!history.known_since()) return {};
  if (const AnswerEvent* event = history.last_of(host)) {
    const std::string time = time_text(event->unix_seconds);
    std::string text = ns.empty() || event->ns == ns
                           ? "since " + time
                           : "last change of the name " + time + ", in namespace " + event->ns;
    text += ": " + std::string(to_string(event->kind)) + ", " + answers_text(*event);
    if (!event->object.empty()) text += "; " + event->object;
    if (!event->source.empty()) text += " (" + event->source + ")";
    return text;
  }
  const std::string known_since = time_text(*history.known_since());
  if (history.is_whole()) return "since: unchanged since the start, " + known_since;
  return "since: unchanged since " + known_since + "; earlier changes are forgotten";
}

// The error for which the object is not what its source has now; null: it is.
const Finding* error_of(const registry::StoredRef& object, const std::string& origin,
                        const DaemonParts& daemon) {
  const auto found = daemon.findings.find(origin);
  if (found == daemon.findings.end()) return nullptr;
  const bool is_held = daemon.held_origins.contains(origin);
  const std::string label = object->label();
  const auto error = std::ranges::find_if(found->second, [&](const Finding& finding) {
    return finding.severity == registry::Severity::Error &&
           (is_held || finding.kind + " " + finding.object == label);
  });
  return error == found->second.end() ? nullptr : &*error;
}

void add_held_objects(const registry::View& view, const registry::ServiceRecord& service,
                      const DaemonParts& daemon, Explanation& explanation) {
  service.for_each_source([&](const registry::StoredRef& object) {
    const std::string origin(view.snapshot().origins->of(object->origin()));
    if (const Finding* error = error_of(object, origin, daemon))
      explanation.facts.push_back(
          {object->label() + " is served as it was before: " + error->to_string(), true});
  });
}

}  // namespace

HttpResponse show_changes(const DaemonParts& daemon, const HttpRequest& request) {
  const auto since = number_argument(request, "since", 0);
  const auto limit = number_argument(request, "limit", kUsualLimit);
  for (const auto& argument : {since, limit})
    if (!argument) return json_error(argument.error().message, 400);
  const std::string name = canonical_host(request.argument("name"));
  const AnswerHistory& history = daemon.answers();
  return json_response([&](Json& json) {
    json.StartObject();
    put_time(json, "knownSince", history.known_since());
    put_bool(json, "complete", history.is_whole());
    put(json, "appeared", history.counts().appeared);
    put(json, "vanished", history.counts().vanished);
    put(json, "different", history.counts().different);
    json.Key("changes");
    json.StartArray();
    std::uint64_t left = *limit;
    for (const AnswerEvent& event : history.events() | std::views::reverse) {
      if (left == 0 || std::cmp_less(event.unix_seconds, *since)) break;
      if (!name.empty() && event.name != name) continue;
      put_event(json, event);
      --left;
    }
    json.EndArray();
    json.EndObject();
  });
}

void add_history(const registry::View& view, std::string_view name, const DaemonParts& daemon,
                 Explanation& explanation) {
  const std::string asked = canonical_host(name);
  const registry::Match match = view.lookup(asked);
  const std::string_view host = match.entry != nullptr ? match.entry->host() : asked;
  const AnswerHistory& history = daemon.answers();
  if (match.service == nullptr && history.last_of(host) == nullptr) return;
  const std::string_view ns = match.service != nullptr ? match.service->ns->text() : "";
  if (std::string text = last_change(history, host, ns); !text.empty())
    explanation.facts.push_back({std::move(text), true});
  if (match.service != nullptr) add_held_objects(view, *match.service, daemon, explanation);
}

}  // namespace meshdns::dnsd
