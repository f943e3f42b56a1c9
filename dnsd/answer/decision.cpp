// SPDX-License-Identifier: Apache-2.0
#include "dnsd/answer/decision.hpp"

#include <algorithm>
#include <optional>

#include "dnsd/answer/cluster_zone.hpp"
#include "dnsd/answer/local_names.hpp"
#include "dnsd/answer/locally_served.hpp"
#include "dnsd/answer/registry_only.hpp"
#include "dnsd/answer/reverse_zone.hpp"
#include "dnsd/answer/service_names.hpp"
#include "dnsd/answer/unreached.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {
namespace {

using registry::AnswerKind;
using registry::Match;
using registry::ServiceRecord;
using registry::View;
using wire::Type;

constexpr bool is_address_type(Type type) { return type == Type::A || type == Type::Aaaa; }
// Records whose address hints would lead around the address that we answer (RFC 9460).
constexpr bool is_binding_type(Type type) { return type == Type::Https || type == Type::Svcb; }

Match lookup(const View& view, const Asked& asked, std::string_view name) {
  if (asked.found == nullptr) [[likely]]
    return view.lookup(name, asked.trace);
  return asked.found->lookup(view, name, asked.trace);
}

// --- authority -----------------------------------------------------------------------------------

bool is_fallthrough(const View& view, std::string_view name) {
  return std::ranges::any_of(view.settings().fallthrough,
                             [&](const std::string& zone) { return is_at_or_below(name, zone); });
}

// A Service that exists only with a ready endpoint, and the names below it, when its endpoints may
// not be read.
bool is_unknown(const View& view, const Match& match) {
  return view.snapshot().sources.endpoints_unknown && match &&
         match.service->answer == AnswerKind::NoReadyEndpoints;
}

// A name that does not exist is denied if meshdns is authoritative for it, else forwarded.
Decision deny(const View& view, const Asked& asked, Decision decision) {
  decision.zone = zone_of(view, asked.name);
  if (is_unknown(view, decision.match)) [[unlikely]] {
    decision.verdict = Verdict::NotReady;
    decision.why = "the endpoints of Services may not be read (/readyz says why)";
    return decision;
  }
  const bool ours =
      is_in_own_cluster_set(view, asked.name) ||
      (is_in_cluster_domain(view, asked.name) ? view.snapshot().sources.authoritative
                                              : !reverse_zone_of(view, asked.name).empty());
  decision.verdict =
      ours && !is_fallthrough(view, asked.name) ? Verdict::NxDomain : Verdict::Forward;
  return decision;
}

Decision no_data(const View& view, const Asked& asked, const Match& match, std::string_view why) {
  return {
      .verdict = Verdict::NoData, .match = match, .zone = zone_of(view, asked.name), .why = why};
}

// --- a host that is known ------------------------------------------------------------------------

// Returns whether this client may be given an address of that type at all.
bool client_takes(const View& view, Type type) {
  const registry::ClientIdentity& identity = view.client().identity;
  return type == Type::A ? identity.ipv4 : identity.ipv6;
}

Decision decide_no_address(const View& view, const Asked& asked, const Match& match) {
  Decision decision = no_data(view, asked, match,
                              has_unresolved_names(*match.service)
                                  ? "none of the names of its endpoints exists or has an address"
                                  : "the host has no address of this family");
  decision.is_unreached = has_unreached_address(*match.service, asked.type);
  return decision;
}

Decision decide_addresses(const View& view, const Asked& asked, const Match& match,
                          AnswerKind kind) {
  if (!client_takes(view, asked.type))
    return no_data(view, asked, match,
                   "the client has no address of this family, and so gets none");
  if (kind == AnswerKind::Pending)
    return {.verdict = Verdict::Wait,
            .match = match,
            .why = "the names of its endpoints are being looked up for the first time"};
  if (kind == AnswerKind::Unresolvable)
    return {.verdict = Verdict::Unresolvable,
            .match = match,
            .why = "none of the names of its endpoints can be resolved"};
  const registry::AddressView addresses = view.addresses(*match.service);
  const bool found = asked.type == Type::A ? !addresses.v4.empty() : !addresses.v6.empty();
  if (!found) return decide_no_address(view, asked, match);
  return {.verdict = Verdict::Addresses,
          .match = match,
          .why = kind == AnswerKind::Vips ? std::string_view("its virtual addresses")
                                          : "its endpoints"};
}

// SRV at the service itself: an extension that peers of a StatefulSet look for.
Decision decide_service_ports(const View& view, const Asked& asked, const Match& match) {
  const ServicePorts ports(view, *match.service);
  if (!ports.has_targets({})) {
    Decision decision = no_data(view, asked, match, "the service has no ports");
    decision.is_unreached = ports.are_per_endpoint() && are_all_unreached(view, *match.service);
    return decision;
  }
  return {.verdict = Verdict::Ports, .match = match, .base = asked.name, .why = "all of its ports"};
}

Decision decide_other_type(const View& view, const Asked& asked, const Match& match) {
  if (asked.type == Type::Any)
    return {.verdict = Verdict::Minimal,
            .match = match,
            .why = "ANY is answered with one record (RFC 8482)"};
  if (is_binding_type(asked.type))
    return no_data(view, asked, match,
                   "its address hints would bypass the addresses of the registry");
  // A name with addresses has no CNAME; the upstream's would lead around ours.
  if (asked.type == Type::Cname) return no_data(view, asked, match, "the host is not an alias");
  if (zone_of(view, asked.name).empty())
    return {.verdict = Verdict::Forward,
            .match = match,
            .why = "the registry does not answer this type for the host"};
  if (asked.type == Type::Srv) return decide_service_ports(view, asked, match);
  return no_data(view, asked, match, "the host has no records of this type");
}

Decision decide_host(const View& view, const Asked& asked, const Match& match) {
  const AnswerKind kind = match.service->answer;
  switch (kind) {
    case AnswerKind::Vips:
    case AnswerKind::Endpoints:
    case AnswerKind::NoAddress:
    case AnswerKind::Pending:
    case AnswerKind::Unresolvable:
      return is_address_type(asked.type) ? decide_addresses(view, asked, match, kind)
                                         : decide_other_type(view, asked, match);
    case AnswerKind::Alias:
      return {.verdict = Verdict::Alias,
              .match = match,
              .why = match.service->is_of_cluster() ? "an ExternalName Service is an alias"
                                                    : "the gateway's address is a name"};
    case AnswerKind::NoReadyEndpoints:
      return deny(view, asked, {.match = match, .why = "the Service has no ready endpoint"});
    case AnswerKind::Forward:
      break;
  }
  return {.verdict = Verdict::Forward,
          .match = match,
          .why = "the host is known and left to the upstream"};
}

// --- names below a service -----------------------------------------------------------------------

struct EndpointFamilies {
  bool any = false;
  bool v4 = false;
  bool v6 = false;
};

EndpointFamilies families_of(const View& view, const ServiceRecord& service,
                             const ServiceLabels& labels) {
  EndpointFamilies found;
  for_each_endpoint_named(view, service, labels, [&](const registry::EndpointEntry& endpoint) {
    found.any = true;
    (endpoint.address.is_v4() ? found.v4 : found.v6) = true;
    return !found.v4 || !found.v6;
  });
  return found;
}

Decision decide_endpoint(const View& view, const Asked& asked, Decision decision,
                         const ServiceLabels& labels) {
  EndpointFamilies found = families_of(view, *decision.match.service, labels);
  if (!found.any) {
    const UnreachedName unreached = find_unreached(view, *decision.match.service, labels);
    found = {unreached.has_v4 || unreached.has_v6, unreached.has_v4, unreached.has_v6};
    decision.is_unreached = unreached.exists && !found.any;
  }
  if (!found.any && !has_cluster(view, *decision.match.service, labels.endpoint)) {
    decision.why = "no ready endpoint of the service has this name";
    return decision;
  }
  decision.verdict = Verdict::NoData;
  decision.zone = zone_of(view, asked.name);
  decision.why = "the names of a cluster's endpoints lie below this one, which has no records";
  if (!found.any) return decision;
  decision.why = "an endpoint of the service";
  const bool family = asked.type == Type::A      ? found.v4
                      : asked.type == Type::Aaaa ? found.v6
                                                 : false;
  if (family && client_takes(view, asked.type)) decision.verdict = Verdict::EndpointAddresses;
  if (asked.type == Type::Any) decision.verdict = Verdict::Minimal;
  if (asked.type == Type::Srv && ServicePorts(view, *decision.match.service).has_targets(labels))
    decision.verdict = Verdict::Ports;
  return decision;
}

Decision decide_port(const View& view, const Asked& asked, Decision decision,
                     const ServiceLabels& labels) {
  const ServicePorts ports(view, *decision.match.service);
  decision.why = "the service has no such named port";
  if (!ports.has(labels.port, labels.protocol)) {
    decision.is_unreached =
        ports.are_per_endpoint() && are_all_unreached(view, *decision.match.service);
    return decision;
  }
  decision.why = "a named port of the service";
  decision.zone = zone_of(view, asked.name);
  decision.verdict = Verdict::NoData;
  if (labels.kind == ServiceLabels::Kind::Port) {
    if (asked.type == Type::Srv) decision.verdict = Verdict::Ports;
    if (asked.type == Type::Any) decision.verdict = Verdict::Minimal;
  }
  return decision;
}

// NxDomain when the service has no such name.
Decision decide_below(const View& view, const Asked& asked, const Match& match) {
  Decision decision{.verdict = Verdict::NxDomain,
                    .match = match,
                    .below = match.below,
                    .base = asked.name.substr(match.below.size() + 1),
                    .zone = {},
                    .stripped = {},
                    .address = {},
                    .why = "no such name below the service"};
  const AnswerKind kind = match.service->answer;
  if (kind == AnswerKind::Alias || kind == AnswerKind::NoReadyEndpoints) return decision;
  const ServiceLabels labels = read_service_labels(match.below, *match.service);
  switch (labels.kind) {
    case ServiceLabels::Kind::Endpoint:
      return decide_endpoint(view, asked, decision, labels);
    case ServiceLabels::Kind::Protocol:
    case ServiceLabels::Kind::Port:
      return decide_port(view, asked, decision, labels);
    case ServiceLabels::Kind::Service:
    case ServiceLabels::Kind::None:
      break;
  }
  return decision;
}

// Returns whether a name below a Service is not of the form that its ports and members have.  Only
// a headless Service is usually asked for a member.  The names below an ExternalName Service's are
// its own, whatever the target has.
bool is_foreign_below(const Match& match) {
  if (match.how != Match::How::Below || !match.service->is_of_cluster() ||
      match.service->answer == AnswerKind::Alias)
    return false;
  const ServiceLabels::Kind kind = read_service_labels(match.below, *match.service).kind;
  return kind == ServiceLabels::Kind::None ||
         (kind == ServiceLabels::Kind::Endpoint && !match.service->headless);
}

// `_name._proto.host` of a host whose other names are the upstream's, unless they lie in our zones.
bool is_answered_host(const Match& match) {
  return match.service != nullptr && match.service->answer != AnswerKind::Forward &&
         match.service->answer != AnswerKind::Alias &&
         match.service->answer != AnswerKind::NoReadyEndpoints;
}

Decision decide_host_port(const View& view, const Asked& asked, const Match& match) {
  Decision decision = decide_below(view, asked, match);
  if (decision.verdict == Verdict::Ports || decision.verdict == Verdict::Minimal) return decision;
  const bool port = decision.verdict == Verdict::NoData;
  const bool in_zone = !zone_of(view, asked.name).empty();
  if (is_answered_host(match) &&
      (in_zone || is_binding_type(asked.type) || (port && is_address_type(asked.type))))
    return no_data(view, asked, match, "a port of a host whose addresses are answered here");
  decision.verdict = Verdict::Forward;
  decision.why = "the registry does not answer this type for the host";
  return decision;
}

// The labels in front of the host in "_http._tcp.api.example.org"; empty: not of that form.
std::string_view port_labels(std::string_view name) {
  std::size_t end = 0;
  for (int label = 0; label < 2; ++label) {
    if (end >= name.size() || name[end] != '_') return {};
    const std::size_t dot = name.find('.', end);
    if (dot == std::string_view::npos || dot == end + 1) return {};
    end = dot + 1;
  }
  return name.substr(0, end - 1);
}

// A host's port is more than a wildcard over it, and a port that SRV does not know may still be
// asked for by HTTPS ("_8443._https.host").
std::optional<Decision> find_host_port(const View& view, const Asked& asked) {
  if (asked.type != Type::Srv && !is_binding_type(asked.type)) return {};
  const std::string_view labels = port_labels(asked.name);
  if (labels.empty()) return {};
  Match match = lookup(view, asked, asked.name.substr(labels.size() + 1));
  if (match.how != Match::How::Exact && match.how != Match::How::Wildcard) return {};
  match.how = Match::How::Below;
  match.below = labels;
  return decide_host_port(view, asked, match);
}

Decision decide_match(const View& view, const Asked& asked, const Match& match) {
  if (match.how == Match::How::Below) {
    const bool in_zone = !zone_of(view, asked.name).empty();
    const bool kubernetes = match.service->is_of_cluster();
    return in_zone || kubernetes ? decide_below(view, asked, match)
                                 : decide_host_port(view, asked, match);
  }
  if (match.how != Match::How::Exact && asked.name.starts_with('_'))
    if (const auto port = find_host_port(view, asked)) return *port;
  return decide_host(view, asked, match);
}

// --- names that no object has --------------------------------------------------------------------

bool is_first_domain(const View& view, std::string_view domain) {
  return view.client().search.front() == domain;
}
std::string_view rest_of(std::string_view name, std::string_view domain) {
  return name.substr(0, name.size() - domain.size() - 1);
}
bool has_several_labels(std::string_view name) { return name.find('.') != std::string_view::npos; }

// Returns whether `name` lies below a Service of another namespace than the match's and is no
// expansion of the client's own: nobody else's host may take its place.
bool is_others_subtree(const View& view, const Asked& asked, std::string_view stripped,
                       const Match& match, const Match& closest) {
  return closest.how == Match::How::Below && !match.service->is_of_cluster() &&
         match.service->ns != closest.service->ns &&
         asked.name.size() == stripped.size() + 5 + view.settings().cluster_domain.size();
}

// Returns whether a resolver may have appended the domain.  A name of our zones that ends in a
// later domain of the list means itself: the resolver's walk would have ended at the first.
bool may_be_expansion(const View& view, const Asked& asked, std::string_view domain) {
  if (zone_of(view, asked.name).empty()) return true;
  const std::string_view rest = rest_of(asked.name, domain);
  // "db.shop.svc" and "db.shop.svc.cluster.local" with a domain behind.
  if (rest.ends_with(".svc") || !zone_of(view, rest).empty()) return true;
  if (is_service_name(view, asked.name) || !has_several_labels(rest)) return false;
  return is_first_domain(view, domain) || !view.snapshot().sources.authoritative;
}

bool is_same(const Match& a, const Match& b) { return a.entry == b.entry && a.below == b.below; }

// Returns whether `rest` in a search domain, `asked.name`, is a name that decide() would deny or
// forward as unknown: the cheap part of it, for names that hardly ever exist.  False where it
// cannot tell.
bool is_plainly_unknown(const View& view, const Asked& asked, std::string_view rest) {
  const bool may_have_shape = count_labels(rest) < 3 || rest.ends_with(".svc") ||
                              rest.ends_with(".pod") || is_special_name(asked.name);
  if (may_have_shape || asked.local != nullptr || view.lookup(asked.name)) return false;
  return is_in_cluster_domain(view, asked.name) ? !view.is_empty_non_terminal(asked.name)
                                                : zone_of(view, asked.name).empty();
}

// Returns whether the client's resolver ends at what `match` has, found for `rest`, when it walks
// the rest of its list: nothing else is known here by a name that it asks before.  Names that only
// an upstream may know do not count.
bool is_end_of_walk(const View& view, const Asked& asked, std::string_view rest,
                    std::string_view domain, const Match& match) {
  const auto& list = view.client().search;
  for (auto at = std::ranges::find(list, domain); at != list.end(); ++at) {
    if (*at == domain || rest.size() + 1 + at->size() > kMaxHostLength) continue;
    const JoinedName name({rest, ".", *at});
    Asked next = asked;
    next.name = name.text();
    next.is_absolute = true;
    next.registry_only = nullptr;  // such names do not count, refused or not
    next.trace = nullptr;
    if (is_plainly_unknown(view, next, rest)) continue;
    const Decision decision = decide(view, next);
    const bool is_denied =
        decision.verdict == Verdict::NxDomain || decision.verdict == Verdict::Denied;
    if (is_denied || (decision.verdict == Verdict::Forward && is_unknown_name(decision))) continue;
    return !is_failure(decision.verdict) && is_same(decision.match, match);
  }
  return true;
}

std::optional<Decision> decide_search_alias(const View& view, const Asked& asked,
                                            const Match& closest) {
  const bool allowed = view.settings().search_shortcut != registry::SearchShortcut::Off &&
                       !asked.is_target && !asked.is_absolute && !asked.has_odd_labels;
  if (!allowed) return {};
  const std::string_view domain = view.appended_domain(asked.name);
  if (domain.empty() || !may_be_expansion(view, asked, domain)) return {};
  const std::string_view stripped = rest_of(asked.name, domain);
  const Match match = view.lookup(stripped, asked.trace);
  if (!match || is_others_subtree(view, asked, stripped, match, closest)) return {};
  Asked target = asked;
  target.name = stripped;
  target.trace = nullptr;
  // A name below a service that has no record is unknown.
  if (match.how == Match::How::Below &&
      decide_match(view, target, match).verdict == Verdict::NxDomain)
    return {};
  if (!is_end_of_walk(view, asked, stripped, domain, match)) return {};
  return Decision{.verdict = Verdict::SearchAlias,
                  .match = match,
                  .stripped = stripped,
                  .why = "a search domain was appended to a known name"};
}

// The shape of our zones, for names without an object.
Decision decide_zone_name(const View& view, const Asked& asked) {
  Decision decision{.verdict = Verdict::NxDomain, .why = "no visible object has this name"};
  if (is_reverse_name(asked.name)) return decide_reverse(view, asked);
  const std::string_view zone = authoritative_zone_of(view, asked.name);
  if (zone.empty()) return decision;
  return zone == registry::kClusterSetDomain ? decide_cluster_set_name(view, asked)
                                             : decide_cluster_name(view, asked);
}

Decision decide_unknown(const View& view, const Asked& asked, Decision closest) {
  const Decision shaped = decide_zone_name(view, asked);
  if (shaped.verdict != Verdict::NxDomain) return shaped;
  if (const auto alias = decide_search_alias(view, asked, closest.match)) return *alias;
  if (!closest.match) closest.why = shaped.why;
  return deny(view, asked, closest);
}

bool is_short_form(const Asked& asked, const Match& match) {
  if (match.how == Match::How::Short) return true;
  return match.how == Match::How::Below &&
         asked.name.substr(match.below.size() + 1) != match.entry->host();
}

// Before a required source has delivered, what is missing may only be late.
std::optional<Decision> decide_not_ready(const View& view, const Asked& asked) {
  const std::string_view zone = zone_of(view, asked.name);
  if (zone.empty() || zone == asked.name) return {};
  if (zone == registry::kClusterSetDomain && !view.settings().cluster_set_authoritative) return {};
  return Decision{
      .verdict = Verdict::NotReady, .zone = zone, .why = "a required source has not delivered yet"};
}

Decision decide_by_registry(const View& view, const Asked& asked) {
  if (is_special_name(asked.name)) return decide_special(asked);
  if (!view.snapshot().sources.synced) [[unlikely]] {
    const std::string_view zone = is_in_cluster_domain(view, asked.name)
                                      ? std::string_view(view.settings().cluster_domain)
                                      : authoritative_zone_of(view, asked.name);
    if (!zone.empty())
      if (const auto fixed = decide_fixed_name(zone, asked)) return *fixed;
    if (const auto not_ready = decide_not_ready(view, asked)) return *not_ready;
  }
  const Match match = lookup(view, asked, asked.name);
  if (match && !(asked.is_target && is_short_form(asked, match))) {
    const Decision decision = decide_match(view, asked, match);
    if (match.how != Match::How::Below || decision.verdict != Verdict::NxDomain) return decision;
    return decide_unknown(view, asked, decision);
  }
  if (const auto port = find_host_port(view, asked)) return *port;
  if (const auto zone = authoritative_zone_of(view, asked.name); !zone.empty())
    if (const auto fixed = decide_fixed_name(zone, asked)) return *fixed;
  return decide_unknown(view, asked, {});
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::Addresses:
    case Verdict::Address:
    case Verdict::EndpointAddresses:
    case Verdict::Ports:
    case Verdict::Pointers:
    case Verdict::Version:
    case Verdict::ZoneSoa:
    case Verdict::ZoneNs:
    case Verdict::ServerAddresses:
    case Verdict::Minimal:
    case Verdict::LocalAddresses:
    case Verdict::LocalPointers:
      return "answered";
    case Verdict::Alias:
    case Verdict::AliasItself:
      return "alias";
    case Verdict::AliasLoop:
      return "SERVFAIL";
    case Verdict::SearchAlias:
      return "search alias";
    case Verdict::NoData:
      return "NODATA";
    case Verdict::NxDomain:
    case Verdict::Denied:
      return "NXDOMAIN";
    case Verdict::Refused:
      return "REFUSED";
    case Verdict::Forward:
      return "forwarded";
    case Verdict::Wait:
      return "waits for its first addresses";
    case Verdict::Unresolvable:
      return "SERVFAIL";
    case Verdict::NotReady:
      return "SERVFAIL until the first sync";
    case Verdict::Overworked:
      return "SERVFAIL";
  }
  return "";
}

wire::Rcode rcode_of(Verdict verdict) {
  if (verdict == Verdict::Refused) return wire::Rcode::Refused;
  if (is_failure(verdict)) return wire::Rcode::ServFail;
  return verdict == Verdict::NxDomain || verdict == Verdict::Denied ? wire::Rcode::NxDomain
                                                                    : wire::Rcode::NoError;
}

bool is_unknown_name(const Decision& decision) {
  if (decision.verdict != Verdict::NxDomain && decision.verdict != Verdict::Forward) return false;
  const Match& match = decision.match;
  return !match || is_foreign_below(match);
}

bool has_unresolved_names(const ServiceRecord& service) {
  return service.answer == AnswerKind::NoAddress && !service.resolved_names().empty();
}

bool is_service_name(const View& view, std::string_view name) {
  const std::string_view zone = zone_of(view, name);
  if (zone.empty() || name.size() == zone.size()) return false;
  const std::string_view relative = name.substr(0, name.size() - zone.size() - 1);
  return relative.ends_with(".svc") && count_labels(relative) == 3;
}

std::string_view walked_name(const View& view, std::string_view name) {
  if (view.settings().search_shortcut != registry::SearchShortcut::All) return {};
  const std::string_view domain = view.appended_domain(name);
  if (domain.empty() || !is_first_domain(view, domain) || zone_of(view, name).empty() ||
      is_service_name(view, name))
    return {};
  const std::string_view rest = rest_of(name, domain);
  return has_several_labels(rest) && !view.lookup(rest) ? rest : std::string_view();
}

std::string_view zone_of(const View& view, std::string_view name) {
  if (is_in_cluster_domain(view, name)) return view.settings().cluster_domain;
  if (is_below(name, registry::kClusterSetDomain)) return registry::kClusterSetDomain;
  if (is_reverse_name(name)) return reverse_zone_of(view, name);
  return {};
}

// The mesh's own names come first: no file of this machine may hide them.
Decision decide(const View& view, const Asked& asked) {
  Decision decision = decide_by_registry(view, asked);
  if (decision.verdict == Verdict::Forward && asked.local != nullptr) [[unlikely]]
    if (const auto local = asked.local->decide(asked)) decision = *local;
  if (decision.verdict == Verdict::Forward && asked.served != nullptr && !decision.match)
    if (const auto served = asked.served->decide(view, asked);
        served && !is_fallthrough(view, asked.name))
      decision = *served;
  if (decision.verdict == Verdict::Forward && view.client().is_registry_only &&
      asked.registry_only != nullptr) [[unlikely]]
    asked.registry_only->judge(view, asked, decision);
  if (view.is_exhausted()) [[unlikely]]
    decision = {.verdict = Verdict::Overworked, .why = "the question needs too much work"};
  return decision;
}

}  // namespace meshdns::dnsd
