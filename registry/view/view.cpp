// SPDX-License-Identifier: Apache-2.0
#include "registry/view/view.hpp"

#include <functional>

#include "registry/base/enum_text.hpp"
#include "registry/base/host_name.hpp"
#include "registry/view/view_explanation.hpp"

namespace meshdns::registry {
namespace {

// Limit of services of one host that are looked at, in their order, for a client with a Sidecar.
// The service of its own namespace is found at once.
constexpr std::size_t kMaxNamespacesLookedAt = 1000;
// Units of work (View::limit_work).  A look at a record costs one unit.
constexpr std::size_t kPartUnits = 2;
constexpr std::size_t kExportsPerUnit = 16;  // parts that name a client's namespace
constexpr std::size_t kWildcardUnits = 2;    // a look for the wildcard over one name
constexpr std::size_t kShortNameUnits = 20;  // a look for the Service that has a short name
constexpr std::size_t kDomainsPerUnit = 2;   // search domains that a name is compared with

// "_port._protocol.host" without the labels of the port; other names as they are.
std::string_view without_port_labels(std::string_view name) {
  const std::string_view parent = parent_of(name);
  return name.starts_with('_') && parent.starts_with('_') ? parent_of(parent) : name;
}

// REQUIRES: the scope does not import the service.
std::string_view why_not_imported(const SidecarScope& scope, std::string_view host,
                                  const ServiceRecord& service) {
  const Symbol* const ns = service.ns.get();
  const PortList* const ports = service.ports.get();
  const bool is_excluded =
      std::ranges::any_of(scope.listeners(), [&](const ListenerScope& listener) {
        return listener.excluded.allows(host, ns, ports) &&
               (listener.imports_namespace(ns) || listener.included.allows(host, ns, ports));
      });
  return is_excluded ? "one of its egress hosts with ~ excludes it"
                     : "none of its egress hosts matches";
}

}  // namespace

std::string_view to_string(Match::How how) {
  return enum_text<Match::How::Below>(how, {"none", "exact", "wildcard", "short name", "below"});
}

// A service with parts is left out part by part.
bool View::has_endpoint_name(const ServiceRecord& record) const {
  return record.ns == client_.ns && record.details && record.parts() == nullptr &&
         std::ranges::find(record.details->resolved_names, endpoint_name_) !=
             record.details->resolved_names.end();
}

bool View::sees(std::string_view host, const ServiceRecord& service, std::string* reason) const {
  if (is_left_out(service)) [[unlikely]] {
    if (reason != nullptr) *reason = "the name is one of its own endpoints";
    return false;
  }
  if (!service.is_exported_to(client_.ns.get())) {
    if (reason != nullptr)
      *reason =
          (client_.ns ? "exportTo does not include namespace " + std::string(client_.ns->text())
                      : "exportTo is not \"*\" and the client is unknown") +
          ", only " + exported_namespaces(service);
    return false;
  }
  // A Sidecar is about services; a name of a gateway is none.
  if (client_.scope && service.provider != Provider::Gateway &&
      !client_.scope->imports(host, service.ns.get(), service.ports.get())) {
    if (reason != nullptr)
      *reason = describe_source(client_.scope->source(), snapshot_) + " does not import it: " +
                std::string(why_not_imported(*client_.scope, host, service));
    return false;
  }
  return true;
}

bool View::Seen::precedes(const Seen& other) const {
  if (!other || rank != other.rank) return !other || rank < other.rank;
  if (creation_time != other.creation_time) return creation_time < other.creation_time;
  return service->ns->text() < other.service->ns->text();
}

View::Seen::Rank View::rank_of(const ServiceRecord& record) const {
  if (record.provider == Provider::Gateway)
    return record.ns == client_.ns ? Seen::Rank::OwnGateway : Seen::Rank::Gateway;
  if (record.ns == client_.ns) return Seen::Rank::Own;
  if (record.is_of_cluster()) return Seen::Rank::Kubernetes;
  return record.is_public() ? Seen::Rank::Public : Seen::Rank::ByName;
}

bool View::sees(const ServiceRecord& record, ScopedHost& scoped) const {
  return !record.placeholder && record.is_exported_to(client_.ns.get()) && !is_left_out(record) &&
         (record.provider == Provider::Gateway ||
          scoped.imports(record.ns.get(), record.ports.get()));
}

View::Seen View::see(const ServiceRecord& record, ScopedHost& scoped) const {
  if (!sees(record, scoped)) return {};
  if (record.split) {
    if (const ServiceParts* const parts = record.parts()) return see_parts(*parts, scoped);
    if (!is_of_client_cluster(record)) return {};
  }
  return {&record, nullptr, rank_of(record), record.creation_time};
}

// The oldest part of each kind of export stands for all, unless some may be left out.  The parts
// are in the order of their age: the first of them that is seen does.
View::Seen View::see_parts(const ServiceParts& parts, ScopedHost& scoped) const {
  const auto all = parts.all();
  const bool is_by_cluster = !parts.clusters().empty();
  const bool has_service = all[0]->provider != Provider::ServiceEntry;
  Seen best;
  std::size_t first = all.size();
  const auto look_at = [&](std::size_t i) {
    if (i >= all.size()) return;
    const ServiceRecord& part = *all[i];
    if (!sees(part, scoped) || (best && part.provider == Provider::Gateway)) return;
    const Seen seen{&part, &parts, rank_of(part), part.creation_time};
    if (seen.precedes(best)) best = seen;
    first = std::min(first, i);
  };
  if (has_service) look_at(is_by_cluster ? service_part(parts) : 0);
  const bool is_by_port = client_.scope && client_.scope->depends_on_ports();
  const bool may_lack_users = !endpoint_name_.empty() && all[0]->ns == client_.ns;
  if (is_by_port && parts.are_many() && !may_lack_users) {
    look_by_port(parts, look_at);
  } else if (is_by_port || may_lack_users) {
    for (std::size_t i = is_by_cluster ? parts.clusters().size() + 1 : 0; i < all.size(); ++i) {
      spend(kPartUnits);
      look_at(i);
    }
  } else {
    spend(kPartUnits);
    look_at(parts.first_public());
    look_at(parts.first_exported_to(client_.ns.get()));
  }
  if (is_exhausted()) return {};
  if (all.back()->provider == Provider::Gateway) look_at(all.size() - 1);
  if (best) best.service = all[first].get();
  return best;
}

// The first part that is seen is imported for every port, or is the first with one of its ports.
// The cost of a crowd does not depend on its size.
template <typename LookAt>
void View::look_by_port(const ServiceParts& parts, const LookAt& look_at) const {
  const ServiceParts::Set exported = parts.all_exported_to(client_.ns.get());
  spend(kPartUnits + exported.count() / kExportsPerUnit);
  look_at(parts.first_public());
  look_at(parts.first_exported_to(client_.ns.get()));
  for (const std::uint16_t port : client_.scope->ports()) {
    spend(1);
    const ServiceParts::Set* const with_port = parts.all_with_port(port);
    if (with_port == nullptr) continue;
    spend(kPartUnits);
    look_at((*with_port & parts.all_public())._Find_first());
    look_at((*with_port & exported)._Find_first());
  }
}

template <typename Visit>
void View::for_each_visible_part(const ServiceParts& parts, ScopedHost& scoped,
                                 const Visit& visit) const {
  const auto all = parts.all();
  std::size_t i = 0;
  if (!parts.clusters().empty()) {
    if (const std::size_t part = service_part(parts); part != kNoPart && sees(*all[part], scoped))
      visit(part);
    i = parts.clusters().size() + 1;
  }
  bool has_any = false;
  for (; i < all.size(); ++i) {
    if (!sees(*all[i], scoped) || (has_any && all[i]->provider == Provider::Gateway)) continue;
    has_any = true;
    visit(i);
  }
}

const ServiceRecord* View::whole(const HostEntry& entry, const Seen& seen) const {
  // A Service takes the place of entries, and a gateway's name is a part of its own.
  if (seen.parts == nullptr || seen.service->provider != Provider::ServiceEntry)
    return seen.service;
  if (whole_of_ == seen.parts) return whole_;
  spend(seen.parts->all().size());
  note_work(seen.service->ns.get(), seen.parts->all().size());
  if (is_exhausted()) return nullptr;
  ScopedHost scoped(client_.scope.get(), entry.host());
  ServiceParts::Set visible;
  for_each_visible_part(*seen.parts, scoped, [&](std::size_t i) { visible.set(i); });
  whole_of_ = seen.parts;
  whole_ = &seen.parts->merged(visible);
  return whole_;
}

View::Seen View::choose(const HostEntry& entry) const {
  if (!is_alone(entry)) [[unlikely]]
    return choose_of_several(entry);
  const ServiceRecord* const only = choose_alone(entry);
  // Nobody asks for the rank.
  return {only, nullptr, Seen::Rank::Own, 0};
}

View::Seen View::choose_of_several(const HostEntry& entry) const {
  const auto records = entry.records();
  const RecordIndex* const index = entry.index();
  ScopedHost scoped(client_.scope.get(), entry.host());
  Seen best;
  const auto look_at = [&](const ServiceRecord& record) {
    const std::size_t before = work_left_;
    spend(1);
    if (const Seen seen = see(record, scoped); seen && seen.precedes(best)) best = seen;
    note_work(record.ns.get(), before - work_left_);
  };
  if (index != nullptr) {
    if (const auto* own = index->own(client_.ns.get())) look_at(*records[*own]);
  } else if (const auto own = std::ranges::find_if(
                 records, [&](const auto* r) { return r->ns == client_.ns && !r->placeholder; });
             own != records.end()) {
    look_at(**own);
  }
  if (best && best.rank == Seen::Rank::Own) return best;
  std::size_t others = 0;
  for (; others < records.size() && records[others]->is_of_cluster(); ++others) {
    if (others == kMaxNamespacesLookedAt || is_exhausted()) return {};
    look_at(*records[others]);
  }
  if (best && best.rank == Seen::Rank::Kubernetes) return best;
  if (index != nullptr) {
    choose_of_others(entry, *index, scoped, best);
  } else {
    for (const ServiceRecord* record : records.subspan(others)) look_at(*record);
  }
  return best;
}

// The older come first.  A record with parts stands where its oldest object does; the client may
// see younger ones only.  So the first that the client sees is the best unless it is such a record.
void View::choose_of_others(const HostEntry& entry, const RecordIndex& index, ScopedHost& scoped,
                            Seen& best) const {
  const auto records = entry.records();
  const auto look_at = [&](const auto& positions, const auto& position_of, Seen::Rank rank) {
    for (const auto& each : positions.first(std::min(positions.size(), kMaxNamespacesLookedAt))) {
      if (is_exhausted()) return;
      const std::size_t before = work_left_;
      spend(1);
      const ServiceRecord& record = *records[std::invoke(position_of, each)];
      const bool is_late =
          best && (record.provider == Provider::Gateway || best.rank < rank ||
                   (best.rank == rank && best.creation_time < record.creation_time));
      if (is_late) return;
      if (const Seen seen = see(record, scoped); seen && seen.precedes(best)) best = seen;
      note_work(record.ns.get(), before - work_left_);
    }
  };
  look_at(index.exported_to(client_.ns.get()), &RecordIndex::Keyed::position, Seen::Rank::ByName);
  look_at(std::span(index.is_public), std::identity(), Seen::Rank::Public);
}

template <typename IsWanted>
Match View::match_entry(const HostEntry* entry, Match::How how, Trace* trace,
                        const IsWanted& is_wanted) const {
  if (entry == nullptr) return {};
  if (is_alone(*entry)) [[likely]] {
    const ServiceRecord* const only = choose_alone(*entry);
    if (trace != nullptr) explain_choice(*entry, only, *trace);
    if (only == nullptr || !std::invoke(is_wanted, *only)) return {};
    return {how, entry, only, {}};
  }
  const Seen seen = choose_of_several(*entry);
  if (trace != nullptr) explain_choice(*entry, seen.service, *trace);
  if (!seen || !std::invoke(is_wanted, *seen.service)) return {};
  const ServiceRecord* const service = whole(*entry, seen);
  if (service == nullptr) return {};
  return {how, entry, service, {}};
}

Match View::lookup(std::string_view name, Trace* trace) const {
  if (name.empty() || name.size() > kMaxHostLength || is_exhausted()) return {};
  if (Match match = lookup_exact(name, trace)) return match;
  if (Match match = lookup_below_service(name, trace)) return match;
  if (Match match = lookup_wildcard(name, trace)) return match;
  if (Match match = lookup_short(name, trace)) return match;
  return lookup_ports(name, trace);
}

Match View::lookup_exact(std::string_view name, Trace* trace) const {
  const bool is_likely = likely_ != nullptr && likely_->host() == name;
  note_read(name);
  return match_entry(is_likely ? likely_ : snapshot_.find_host(name), Match::How::Exact, trace,
                     [&](const ServiceRecord& service) { return !yields(service, name, trace); });
}

// Outside "svc", only a member has the short form of its name: a Service "com" must not hide names
// of the outside.
bool View::is_short_form(std::string_view name, const Match& owner) const {
  return owner.how != Match::How::Below || name.ends_with(".svc") ||
         reaches_endpoint(*owner.service, owner.below);
}

template <typename IsMeant>
bool View::has_ready_endpoint(const ServiceRecord& service, std::string_view label,
                              const IsMeant& is_meant) const {
  const EndpointList* const endpoints = service.endpoints();
  if (endpoints == nullptr) return false;
  if (endpoints->index.is_made()) {
    const auto named = endpoints->index.named(label);
    return std::ranges::any_of(
        named.first(std::min(named.size(), kMaxReverseHosts)),
        [&](const auto& n) { return is_meant(endpoints->entries[n.entry]); });
  }
  return std::ranges::any_of(endpoints->entries, [&](const EndpointEntry& entry) {
    return entry.ready && is_meant(entry) &&
           EndpointList::label_of(entry, settings().endpoint_pod_names) == label;
  });
}

bool View::has_endpoint(const ServiceRecord& service, std::string_view label) const {
  return has_ready_endpoint(service, label, [](const EndpointEntry&) { return true; });
}

bool View::reaches_endpoint(const ServiceRecord& service, std::string_view label) const {
  return has_ready_endpoint(service, label, [&](const EndpointEntry& entry) {
    return reaches(entry) || !gateways_to(entry).empty();
  });
}

bool View::yields(const ServiceRecord& service, std::string_view name, Trace* trace) const {
  if (!service.can_shadow) [[likely]]
    return false;
  const std::size_t units = kShortNameUnits + client_.search.size() / kDomainsPerUnit;
  spend(units);
  note_work(service.ns.get(), units);
  const auto stands_back_behind = [&](std::string_view short_name) {
    const Match owner = lookup_short(short_name, nullptr);
    // A Service's full name is not a short one: of that name, services are chosen as of any other.
    if (!owner || owner.service->ns == service.ns || is_at_or_below(name, owner.entry->host()) ||
        !is_short_form(short_name, owner))
      return false;
    if (trace != nullptr)
      trace->steps.push_back({describe_source(service.source, snapshot_),
                              "shadowed by " + describe_source(owner.service->source, snapshot_) +
                                  ": this is its short name",
                              false});
    return true;
  };
  // A host of one label comes before the short name: a search list asks for the Service first.
  if (count_labels(name) > 1 && stands_back_behind(without_port_labels(name))) return true;
  const std::string_view rest = name_without_domain(name);
  return !rest.empty() && stands_back_behind(without_port_labels(rest));
}

// `labels.svc.ns.svc.domain`: something below a Service that exists.
Match View::lookup_below_service(std::string_view name, Trace* trace) const {
  const std::string_view domain = settings().cluster_domain;
  for (const std::string_view zone : {domain, kClusterSetDomain}) {
    if (!is_below(name, zone)) continue;
    const std::string_view relative = name.substr(0, name.size() - zone.size() - 1);
    if (!relative.ends_with(".svc")) return {};
    // The last two labels in front of "svc" are service and namespace.
    std::size_t cut = relative.size() - 4;
    for (int i = 0; i < 2; ++i) {
      if (cut == 0) return {};
      cut = relative.rfind('.', cut - 1);
      if (cut == std::string_view::npos) return {};
    }
    if (cut == 0) return {};
    // Below an entry that merely claims the name there is nothing but its ports.
    Match match = match_entry(find_host(name.substr(cut + 1)), Match::How::Below, trace,
                              &ServiceRecord::is_of_cluster);
    if (!match) return {};
    match.below = name.substr(0, cut);
    settle_cluster(match, trace);
    return match;
  }
  return {};
}

Match View::lookup_wildcard(std::string_view name, Trace* trace) const {
  if (snapshot_.wildcards.empty() && reads_ == nullptr) return {};
  for (std::string_view suffix = parent_of(name); !suffix.empty() && !is_exhausted();
       suffix = parent_of(suffix)) {
    note_read(suffix);
    if (!snapshot_.wildcard_suffixes.may_have(suffix)) continue;
    spend(kWildcardUnits);
    const HostEntry* const entry = snapshot_.find_wildcard(suffix);
    if (entry != nullptr && !entry->records().empty())
      note_work(entry->records()[0]->ns.get(), kWildcardUnits);
    const auto is_wanted = [&](const ServiceRecord& service) {
      return !yields(service, name, trace);
    };
    if (const Match match = match_entry(entry, Match::How::Wildcard, trace, is_wanted))
      return match;
  }
  return {};
}

// `name` (of the client's namespace), `name.ns`, `name.ns.svc`, and names below these: `web-0.web`,
// `web-0.web.shop`, `web-0.web.shop.svc`, `_http._tcp.web.shop.svc`.  A name table has the members
// of headless Services as hosts of their own, which come before what lies below the Service.
Match View::lookup_short(std::string_view name, Trace* trace) const {
  const std::string_view domain = settings().cluster_domain;
  const auto find = [&](std::string_view full) -> Match {
    if (full.empty()) return {};
    // Only Kubernetes Services have short names.
    const Match match =
        match_entry(find_host(full), Match::How::Short, trace, &ServiceRecord::is_of_cluster);
    if (match && match.service->provider == Provider::NameTable &&
        (!match.service->details || match.service->details->short_name.empty()))
      return {};
    return match;
  };
  const auto find_own = [&](std::string_view service) -> Match {
    if (!client_.ns) return {};
    return find(JoinedName({service, ".", client_.ns->text(), ".svc.", domain}).text());
  };
  // Turns the match of the end of the name, a service, into that of the name below it.
  const auto below = [&](Match match, std::string_view service) -> Match {
    if (!match) return {};
    match.how = Match::How::Below;
    match.below = name.substr(0, name.size() - service.size() - 1);
    settle_cluster(match, trace);
    return match;
  };
  // Services without members are read, too, where reads are noted: they may get some.
  const auto may_have_members = [&](std::string_view service) {
    return reads_ != nullptr || snapshot_.members.may_have(service);
  };
  const std::string_view parent = parent_of(name);
  if (parent.empty()) return find_own(name);
  const std::size_t parent_dot = parent.find('.');
  const bool has_three_labels = parent_dot != std::string_view::npos &&
                                parent.find('.', parent_dot + 1) == std::string_view::npos;
  if (parent_dot == std::string_view::npos) {  // two labels
    if (const Match match = find(JoinedName({name, ".svc.", domain}).text())) return match;
    if (!may_have_members(parent)) return {};
    if (const Match member = find_own(name)) return member;
    return below(find_own(parent), parent);
  }
  if (!name.ends_with(".svc")) {
    if (!has_three_labels || !may_have_members(parent.substr(0, parent_dot))) return {};
    if (const Match member = find(JoinedName({name, ".svc.", domain}).text())) return member;
    return below(find(JoinedName({parent, ".svc.", domain}).text()), parent);
  }
  if (has_three_labels) return find(JoinedName({name, ".", domain}).text());
  const std::size_t ns = name.rfind('.', name.size() - 5);
  const std::size_t dot = name.rfind('.', ns - 1);
  if (dot == std::string_view::npos) return {};
  if (const Match member = find(JoinedName({name, ".", domain}).text())) return member;
  const std::string_view service = name.substr(dot + 1);
  return below(find(JoinedName({service, ".", domain}).text()), service);
}

// `_port._proto.host`. A wildcard above the host is above this name too, and lookup_wildcard() has
// found it already.
Match View::lookup_ports(std::string_view name, Trace* trace) const {
  if (!name.starts_with('_')) return {};
  const std::string_view proto = parent_of(name);
  if (!proto.starts_with('_')) return {};
  const std::string_view host = parent_of(proto);
  if (host.empty() || host.starts_with('_')) return {};
  Match match = lookup_exact(host, trace);
  if (!match) match = lookup_short(host, trace);
  if (!match) return {};
  match.how = Match::How::Below;
  match.below = name.substr(0, name.size() - host.size() - 1);
  return match;
}

std::string_view View::appended_domain(std::string_view name) const {
  std::string_view longest;
  for (const auto& domain : client_.search)
    if (domain.size() > longest.size() && is_below(name, domain)) longest = domain;
  return longest;
}

std::string_view View::name_without_domain(std::string_view name) const {
  const std::string_view domain = appended_domain(name);
  return domain.empty() ? domain : name.substr(0, name.size() - domain.size() - 1);
}

std::uint32_t View::ttl(const ServiceRecord& service) const {
  const TtlSettings& ttl = settings().ttl;
  switch (service.ttl_class) {
    case TtlClass::Vip:
      return ttl.vip;
    case TtlClass::Endpoint:
      return ttl.endpoint;
    case TtlClass::Kubernetes:
      return ttl.kubernetes;
    case TtlClass::Own:
      return service.details->ttl;
  }
  return ttl.endpoint;
}

bool View::namespace_exists(std::string_view ns) const {
  if (snapshot_.find_namespace(ns) != nullptr) return true;
  return is_empty_non_terminal(JoinedName({ns, ".svc.", settings().cluster_domain}).text());
}

bool View::is_counted(std::string_view reverse_name) const {
  if (is_exhausted()) return true;
  const NonTerminal* const entry = snapshot_.find_non_terminal(reverse_name);
  spend(kWildcardUnits);
  if (entry == nullptr) return false;
  return std::ranges::any_of(entry->scopes, [&](const ExportScope& exports) {
    spend(1);
    return is_exhausted() || exports.includes(client_.ns.get());
  });
}

bool View::pod_exists(const IpAddress& address, std::string_view ns) const {
  const PodEntry* entry = snapshot_.find_pod(address);
  return entry != nullptr && std::ranges::any_of(entry->namespaces, [&](const SymbolRef& s) {
           return s->text() == ns;
         });
}

}  // namespace meshdns::registry
