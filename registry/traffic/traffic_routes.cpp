// SPDX-License-Identifier: Apache-2.0
#include "registry/base/enum_text.hpp"
#include "registry/traffic/traffic_match.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::registry {
namespace {

constexpr std::size_t kMaxTargetsNamed = 8;
constexpr std::size_t kMaxMatchesNamed = 4;

// More than the length of any wildcard.
constexpr std::size_t kExact = std::numeric_limits<std::size_t>::max();

// How closely the pattern ("*", "*.suffix" or a name) covers the name; 0: it does not.
std::size_t closeness(std::string_view pattern, std::string_view name) {
  if (name.empty()) return 0;
  if (pattern == name) return kExact;
  if (!pattern.starts_with('*')) return 0;
  const std::string_view rest = pattern.substr(1);
  return name.size() > rest.size() && name.ends_with(rest) ? pattern.size() : 0;
}

std::string_view word_of(RouteLayer layer) {
  return enum_text<RouteLayer::Tcp>(layer, {"http", "tls", "tcp"});
}

// The order among VirtualServices: those for the own namespace alone, those that name the
// client's, the public ones; each by age.
enum class Rank : std::uint8_t { Private, Named, Public };

struct Routing {
  StoredRef stored;
  VirtualService service;
  Rank rank = Rank::Public;
  std::size_t closeness = 0;
};

class RouteMatcher {
 public:
  RouteMatcher(const View& view, const RouteQuestion& question) : view_(view), asked_(question) {}

  std::vector<RouteMatched> run() {
    collect();
    for (const Routing& routing : routings_) {
      const Outcome outcome = add_routes_of(routing);
      // HTTP uses one VirtualService: the closest that has a route for the connection.
      const bool is_chosen = asked_.layer == RouteLayer::Http && outcome == Outcome::Conditional;
      if (outcome == Outcome::Certain || is_chosen) break;
    }
    return std::move(found_);
  }

 private:
  // Tells of the routes of one VirtualService whether none applies, some on conditions, or one
  // surely.
  enum class Outcome : std::uint8_t { None, Conditional, Certain };

  std::string full_name(std::string_view host, std::string_view ns) const {
    if (host == "*" || host.find('.') != std::string_view::npos) return std::string(host);
    return service_host(host, ns, view_.settings().cluster_domain);
  }

  std::string_view client_ns() const {
    return view_.client().ns ? view_.client().ns->text() : std::string_view();
  }

  // nullopt: it is not exported to the client.
  std::optional<Rank> rank_of(const VirtualService& service) const {
    const auto has = [&](std::string_view word) {
      return std::ranges::find(service.export_to, word) != service.export_to.end();
    };
    if (service.export_to.empty() || has("*")) return Rank::Public;
    if (has(".") && service.meta.ns == client_ns()) return Rank::Private;
    if (!client_ns().empty() && has(client_ns())) return Rank::Named;
    return std::nullopt;
  }

  // Returns whether one of the Sidecar's egress hosts of that namespace covers the host, or is
  // covered.
  bool is_imported(const ListenerScope& listener, std::string_view ns,
                   std::string_view host) const {
    if (listener.port != 0 && listener.port != asked_.port) return false;
    const auto covers = [&](const EgressHost& egress) {
      if (egress.ns && egress.ns->text() != ns) return false;
      const std::string pattern = !egress.wildcard        ? egress.suffix
                                  : egress.suffix.empty() ? "*"
                                                          : "*." + egress.suffix;
      return closeness(pattern, host) != 0 || closeness(host, pattern) != 0;
    };
    if (std::ranges::any_of(listener.excluded.all(), covers)) return false;
    return listener.all ||
           std::ranges::any_of(listener.whole_namespaces,
                               [&](const Symbol* whole) { return whole->text() == ns; }) ||
           std::ranges::any_of(listener.included.all(), covers);
  }

  bool is_imported(std::string_view ns, std::string_view host) const {
    const SidecarScope* const scope = view_.client().scope.get();
    return scope == nullptr ||
           std::ranges::any_of(scope->listeners(), [&](const ListenerScope& listener) {
             return is_imported(listener, ns, host);
           });
  }

  std::size_t closeness_of(const VirtualService& service) const {
    std::size_t best = 0;
    for (const std::string& declared : service.hosts) {
      const std::string host = full_name(declared, service.meta.ns);
      const std::size_t close =
          std::max(closeness(host, asked_.requested), closeness(host, asked_.service));
      if (close > best && is_imported(service.meta.ns, host)) best = close;
    }
    return best;
  }

  // If several origins have an object, the version of the first is used.
  bool is_used(const StoredResource& stored) const {
    const auto& served = view_.settings().namespaces;
    if (!served.empty() && std::ranges::find(served, stored.ns()) == served.end()) return false;
    const OriginNames& origins = *view_.snapshot().origins;
    const auto comes_first = [&](const StoredResource& other) {
      return other.has_key_of(stored) && origins.of(other.origin()) < origins.of(stored.origin());
    };
    return view_.snapshot().resources.find(stored.key_hash(), comes_first) == nullptr;
  }

  void collect() {
    view_.snapshot().resources.for_each([&](const StoredResource& stored) {
      if (stored.kind() != Kind::VirtualService || !is_used(stored)) return;
      Resource resource = stored.decode();
      Routing routing{.stored = StoredRef(&stored),
                      .service = std::get<VirtualService>(std::move(resource))};
      const auto rank = rank_of(routing.service);
      if (!rank) return;
      routing.rank = *rank;
      routing.closeness = closeness_of(routing.service);
      if (routing.closeness != 0) routings_.push_back(std::move(routing));
    });
    const bool by_closeness = asked_.layer == RouteLayer::Http;
    std::ranges::sort(routings_, [&](const Routing& a, const Routing& b) {
      if (by_closeness && a.closeness != b.closeness) return a.closeness > b.closeness;
      if (a.rank != b.rank) return a.rank < b.rank;
      const auto age = [](const ObjectMeta& meta) {
        return std::tuple(meta.creation_time, meta.name + "." + meta.ns, meta.cluster);
      };
      return age(a.service.meta) < age(b.service.meta);
    });
  }

  // --- the routes of one VirtualService

  struct Condition {
    std::size_t closeness = 0;  // of the server name; 0 = no TLS route
    std::string text;           // empty: it is met
  };

  bool is_of_client(const RouteMatch& match) const {
    return (match.source_namespace.empty() || match.source_namespace == client_ns()) &&
           selects(match.source_labels, view_.client().identity.labels);
  }

  // nullopt: the connection does not meet it.
  std::optional<Condition> meet(const RouteMatch& match) const {
    if (match.port != 0 && match.port != asked_.port) return std::nullopt;
    if (!is_of_client(match)) return std::nullopt;
    if (!match.subnets.empty() && std::ranges::none_of(match.subnets, [&](const IpPrefix& subnet) {
          return subnet.contains(asked_.address);
        }))
      return std::nullopt;
    Condition condition{.closeness = 0, .text = match.request};
    if (asked_.layer != RouteLayer::Tls) return condition;
    for (const std::string& name : match.sni_hosts)
      condition.closeness = std::max(condition.closeness, closeness(name, asked_.requested));
    if (condition.closeness != 0) return condition;
    if (!asked_.requested.empty() || match.sni_hosts.empty()) return std::nullopt;
    condition.text = "the server name is " + match.sni_hosts.front();
    return condition;
  }

  // nullopt: it does not apply.
  std::optional<Condition> meet(const TrafficRoute& route) const {
    if (route.matches.empty()) return Condition{};
    std::optional<Condition> all;
    std::size_t count = 0;
    for (const RouteMatch& match : route.matches) {
      const auto condition = meet(match);
      if (!condition) continue;
      if (condition->text.empty()) return condition;
      if (!all) all.emplace();
      all->closeness = std::max(all->closeness, condition->closeness);
      if (++count <= kMaxMatchesNamed) all->text += (count == 1 ? "" : "; or ") + condition->text;
    }
    if (count > kMaxMatchesNamed) all->text += "; or others";
    return all;
  }

  std::string describe_targets(const TrafficRoute& route, std::string_view ns) const {
    if (!route.action.empty()) return route.action;
    std::string text;
    for (std::size_t i = 0; i < std::min(route.targets.size(), kMaxTargetsNamed); ++i) {
      const RouteTarget& target = route.targets[i];
      text += (i == 0 ? "to " : ", ") + full_name(target.host, ns);
      if (target.port != 0) text += " port " + std::to_string(target.port);
      if (!target.subset.empty()) text += " subset " + printable(target.subset, kMaxHostLength);
      if (target.weight != 0) text += " weight " + std::to_string(target.weight);
    }
    if (route.targets.size() > kMaxTargetsNamed) text += ", and others";
    return text.empty() ? "without a destination" : text;
  }

  // --- the services behind the destinations

  struct Destination {
    bool has_cluster = false;  // the client's proxy has one for the host
    std::string_view alias;    // of an ExternalName
  };

  // Only exportTo hides a destination: a Sidecar imports those of the routes that it imports.
  Destination destination(std::string_view host) const {
    const Snapshot& snapshot = view_.snapshot();
    const HostEntry* const entry =
        host.starts_with("*.") ? snapshot.find_wildcard(host.substr(2)) : snapshot.find_host(host);
    if (entry == nullptr) return {.has_cluster = may_be_unread(host), .alias = {}};
    const Symbol* const own = view_.client().ns.get();
    const ServiceRecord* found = nullptr;
    bool is_unused = false;
    for (const ServiceRecord* record : entry->records()) {
      if (record->placeholder) {
        is_unused |= has_claim(*record);
        continue;
      }
      const ServiceRecord* const part = exported_part(*record);
      if (part != nullptr && (found == nullptr || record->ns.get() == own)) found = part;
    }
    if (found == nullptr) return {.has_cluster = is_unused, .alias = {}};
    return {.has_cluster = true, .alias = found->alias()};
  }

  // Returns whether objects that were not read may have the host: files often have no Services.
  bool may_be_unread(std::string_view host) const {
    if (!view_.settings().namespaces.empty()) return true;
    const std::string zone = "svc." + view_.settings().cluster_domain;
    if (view_.snapshot().sources.authoritative || !is_below(host, zone)) return false;
    std::string_view ns = host;
    for (auto name = parent_of(host); name.size() > zone.size(); name = parent_of(name)) ns = name;
    return view_.snapshot().find_non_terminal(ns) == nullptr;
  }

  // The first part of a namespace's service that is exported to the client; null: none is.
  const ServiceRecord* exported_part(const ServiceRecord& record) const {
    const Symbol* const own = view_.client().ns.get();
    if (record.parts() == nullptr) return record.is_exported_to(own) ? &record : nullptr;
    const auto parts = record.parts()->all();
    const auto part =
        std::ranges::find_if(parts, [&](const auto& each) { return each->is_exported_to(own); });
    return part == parts.end() ? nullptr : part->get();
  }

  // A Service without an address yet, or an entry whose claim meshdns refuses: the mesh has both.
  static bool has_claim(const ServiceRecord& record) {
    bool found = false;
    record.for_each_source([&](const StoredRef& source) {
      found |= source->kind() == Kind::Service || source->kind() == Kind::ServiceEntry;
    });
    return found;
  }

  std::string failure_of(const std::string& host, const std::string& why) const {
    return "the route to " + printable(host, kMaxHostLength) + " fails: " + why +
           (asked_.layer == RouteLayer::Http ? ", and requests get status 503"
                                             : ", and connections are closed");
  }

  // Empty: the destination is a service of that name.
  std::string note_of(const std::string& host) const {
    const Destination first = destination(host);
    if (!first.has_cluster) return failure_of(host, "the client sees no service with this host");
    if (first.alias.empty()) return {};
    const std::string target = printable(first.alias, kMaxHostLength);
    const Destination next = destination(first.alias);
    if (!next.has_cluster)
      return failure_of(host, "it is an ExternalName of " + target +
                                  ", and the client sees no service with that host");
    if (!next.alias.empty())
      return failure_of(host, "it is an ExternalName of " + target +
                                  ", which is one, too; proxies follow one alone");
    return "the route to " + host + ", an ExternalName, leads to " + target;
  }

  std::vector<std::string> notes_of(const TrafficRoute& route, std::string_view ns) const {
    std::vector<std::string> notes;
    if (!route.action.empty()) return notes;
    for (std::size_t i = 0; i < std::min(route.targets.size(), kMaxTargetsNamed); ++i)
      if (std::string note = note_of(full_name(route.targets[i].host, ns)); !note.empty())
        notes.push_back(std::move(note));
    return notes;
  }

  void add(const Routing& routing, std::string text, std::vector<std::string> notes = {}) {
    found_.push_back({routing.stored, std::move(text), std::move(notes)});
  }

  void add(const Routing& routing, const TrafficRoute& route, const Condition& condition) {
    std::string text(word_of(route.layer));
    text += " route " + std::to_string(route.position + 1);
    if (!route.name.empty()) text += " " + in_quotes(route.name);
    text += ": " + describe_targets(route, routing.service.meta.ns);
    if (!condition.text.empty()) text += ", if " + condition.text;
    add(routing, std::move(text), notes_of(route, routing.service.meta.ns));
  }

  Outcome add_routes_of(const Routing& routing) {
    std::vector<std::pair<const TrafficRoute*, Condition>> met;
    for (const TrafficRoute& route : routing.service.routes)
      if (route.layer == asked_.layer)
        if (auto condition = meet(route)) met.emplace_back(&route, std::move(*condition));
    // The closest server name counts, not the first that matches.
    std::ranges::stable_sort(met, std::greater(), [](const auto& m) { return m.second.closeness; });
    for (const auto& [route, condition] : met) {
      if (found_.size() == kMaxRoutesNamed) return Outcome::Certain;
      add(routing, *route, condition);
      if (condition.text.empty()) return Outcome::Certain;
    }
    if (!met.empty()) return Outcome::Conditional;
    if (found_.size() < kMaxRoutesNamed)
      add(routing, "none of its " + std::string(word_of(asked_.layer)) + " routes applies");
    return Outcome::None;
  }

  const View& view_;
  const RouteQuestion& asked_;
  std::vector<Routing> routings_;
  std::vector<RouteMatched> found_;
};

}  // namespace

std::vector<RouteMatched> match_routes(const View& view, const RouteQuestion& question) {
  return RouteMatcher(view, question).run();
}

}  // namespace meshdns::registry
