#include "registry/view/view.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "registry/base/host_name.hpp"

namespace meshdns::registry {
namespace {

constexpr std::size_t kNamespacesShown = 8;

std::string describe(const StoredRef& source, const Snapshot& snapshot) {
  if (!source) return "(unknown source)";
  std::string text = source->label();
  const auto& names = snapshot.origins->names;
  if (source->origin() < names.size() && !names[source->origin()].empty()) {
    text += " (" + names[source->origin()];
    if (source->line() != 0) text += ":" + std::to_string(source->line());
    text += ")";
  }
  return text;
}

// Whom a service is exported to; REQUIRES: not public.
std::string describe_exports(const ServiceRecord& service) {
  if (service.exports->namespaces.empty()) return "nobody";
  std::vector<std::string_view> names;
  for (const auto& ns : service.exports->namespaces) names.push_back(ns->text());
  std::ranges::sort(names);
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamespacesShown); ++i)
    text += (i == 0 ? "" : ", ") + std::string(names[i]);
  return names.size() > kNamespacesShown ? text + ", ..." : text;
}

// Joins parts into a buffer of the longest name; empty when they are longer.
class JoinedName {
 public:
  JoinedName(std::initializer_list<std::string_view> parts) {
    for (const auto part : parts) {
      if (size_ + part.size() > buffer_.size()) {
        size_ = 0;
        return;
      }
      std::memcpy(buffer_.data() + size_, part.data(), part.size());
      size_ += part.size();
    }
  }
  std::string_view text() const { return {buffer_.data(), size_}; }

 private:
  std::array<char, 320> buffer_;
  std::size_t size_ = 0;
};

// What of a reverse entry's record answers to an address.
bool has_address(std::span<const std::array<std::uint8_t, 4>> v4,
                 std::span<const std::array<std::uint8_t, 16>> v6, const IpAddress& address) {
  if (address.is_v4())
    return std::ranges::any_of(v4, [&](const auto& o) { return IpAddress::v4(o) == address; });
  return std::ranges::any_of(v6, [&](const auto& o) { return o == address.octets(); });
}

}  // namespace

std::string_view to_string(Match::How how) {
  switch (how) {
    case Match::How::None:
      return "none";
    case Match::How::Exact:
      return "exact";
    case Match::How::Wildcard:
      return "wildcard";
    case Match::How::Short:
      return "short name";
    case Match::How::Below:
      return "below";
  }
  return "";
}

bool View::sees(std::string_view host, const ServiceRecord& service, std::string* reason) const {
  if (!service.is_exported_to(client_.ns.get())) {
    if (reason != nullptr)
      *reason =
          (client_.ns ? "exportTo does not include namespace " + std::string(client_.ns->text())
                      : "exportTo is not \"*\" and the client is unknown") +
          ", only " + describe_exports(service);
    return false;
  }
  if (client_.scope && !client_.scope->imports(host, service)) {
    if (reason != nullptr)
      *reason = describe(client_.scope->source(), snapshot_) +
                " does not import it: no egress host of it matches";
    return false;
  }
  return true;
}

const ServiceRecord* View::choose(const HostEntry& entry, Trace* trace) const {
  const auto records = entry.records();
  // Almost always: one service, public, and no Sidecar.
  if (trace == nullptr && records.size() == 1) {
    const ServiceRecord& only = *records[0];
    return !only.placeholder && sees(entry.host(), only) ? &only : nullptr;
  }
  const ServiceRecord* own = nullptr;
  const ServiceRecord* kubernetes = nullptr;
  const ServiceRecord* by_name = nullptr;
  const ServiceRecord* first_public = nullptr;
  for (const ServiceRecord* record : records) {
    if (record->placeholder) {
      if (trace != nullptr && record->details && !record->details->notes.empty())
        trace->steps.push_back({describe(record->source, snapshot_), record->details->notes.back(),
                                !record->is_public()});
      continue;
    }
    std::string reason;
    if (!sees(entry.host(), *record, trace == nullptr ? nullptr : &reason)) {
      if (trace != nullptr)
        trace->steps.push_back({describe(record->source, snapshot_), "hidden: " + reason, true});
      continue;
    }
    if (record->ns == client_.ns && own == nullptr) own = record;
    if (record->provider != Provider::ServiceEntry && kubernetes == nullptr) kubernetes = record;
    if (!record->is_public() && by_name == nullptr) by_name = record;
    if (record->is_public() && first_public == nullptr) first_public = record;
  }
  const ServiceRecord* chosen = own != nullptr          ? own
                                : kubernetes != nullptr ? kubernetes
                                : by_name != nullptr    ? by_name
                                                        : first_public;
  if (trace != nullptr) {
    for (const ServiceRecord* record : records) {
      if (record->placeholder || !sees(entry.host(), *record)) continue;
      const std::string why =
          record != chosen       ? "shadowed by " + describe(chosen->source, snapshot_)
          : record == own        ? "chosen: the client's own namespace"
          : record == kubernetes ? "chosen: a Kubernetes Service"
          : record == by_name    ? "chosen: exported to the client's namespace, oldest"
                                 : "chosen: public, oldest";
      trace->steps.push_back({describe(record->source, snapshot_), why, false});
    }
  }
  return chosen;
}

Match View::match_entry(const HostEntry* entry, Match::How how, Trace* trace) const {
  if (entry == nullptr) return {};
  const ServiceRecord* service = choose(*entry, trace);
  if (service == nullptr) return {};
  return {how, entry, service, {}};
}

Match View::lookup(std::string_view name, Trace* trace) const {
  if (name.empty() || name.size() > kMaxHostLength) return {};
  if (Match match = lookup_exact(name, trace)) return match;
  if (Match match = lookup_below_service(name, trace)) return match;
  if (Match match = lookup_wildcard(name, trace)) return match;
  if (Match match = lookup_short(name, trace)) return match;
  return lookup_ports(name, trace);
}

Match View::lookup_exact(std::string_view name, Trace* trace) const {
  const bool is_likely = likely_ != nullptr && likely_->host() == name;
  return match_entry(is_likely ? likely_ : snapshot_.find_host(name), Match::How::Exact, trace);
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
    Match match = match_entry(snapshot_.find_host(name.substr(cut + 1)), Match::How::Below, trace);
    // Below an entry that merely claims the name there is nothing but its ports.
    if (!match || match.service->provider == Provider::ServiceEntry) return {};
    match.below = name.substr(0, cut);
    return match;
  }
  return {};
}

Match View::lookup_wildcard(std::string_view name, Trace* trace) const {
  if (snapshot_.wildcards.empty()) return {};
  for (std::string_view suffix = parent_of(name); !suffix.empty(); suffix = parent_of(suffix))
    if (Match match = match_entry(snapshot_.find_wildcard(suffix), Match::How::Wildcard, trace))
      return match;
  return {};
}

// `name` (of the client's namespace), `name.ns`, `name.ns.svc`, and the same below a headless
// Service.
Match View::lookup_short(std::string_view name, Trace* trace) const {
  const std::string_view domain = settings().cluster_domain;
  const auto find = [&](std::string_view full) -> Match {
    if (full.empty()) return {};
    Match match = match_entry(snapshot_.find_host(full), Match::How::Short, trace);
    // Only Kubernetes Services have short names.
    if (match && match.service->provider == Provider::ServiceEntry) return {};
    if (match && match.service->provider == Provider::NameTable &&
        (!match.service->details || match.service->details->short_name.empty()))
      return {};
    return match;
  };
  const std::size_t labels = count_labels(name);
  if (labels == 1) {
    if (!client_.ns) return {};
    return find(JoinedName({name, ".", client_.ns->text(), ".svc.", domain}).text());
  }
  if (labels == 2) return find(JoinedName({name, ".svc.", domain}).text());
  if (!name.ends_with(".svc")) return {};
  if (labels == 3) return find(JoinedName({name, ".", domain}).text());
  // `web-0.web.shop.svc`, `_http._tcp.web.shop.svc`
  const std::size_t svc = name.size() - 4;
  const std::size_t ns = name.rfind('.', svc - 1);
  const std::size_t service = name.rfind('.', ns - 1);
  if (service == std::string_view::npos) return {};
  Match match = find(JoinedName({name.substr(service + 1), ".", domain}).text());
  if (!match) return {};
  match.how = Match::How::Below;
  match.below = name.substr(0, service);
  return match;
}

// `_port._proto.host`
Match View::lookup_ports(std::string_view name, Trace* trace) const {
  if (!name.starts_with('_')) return {};
  const std::string_view proto = parent_of(name);
  if (!proto.starts_with('_')) return {};
  const std::string_view host = parent_of(proto);
  if (host.empty() || host.starts_with('_')) return {};
  Match match = lookup_exact(host, trace);
  if (!match) match = lookup_wildcard(host, trace);
  if (!match) match = lookup_short(host, trace);
  if (!match) return {};
  match.how = Match::How::Below;
  match.below = name.substr(0, name.size() - host.size() - 1);
  return match;
}

Match View::lookup_search(std::string_view name, std::string_view* stripped, Trace* trace) const {
  // The longest suffix that matches leaves the shortest name: what the client's resolver has
  // appended.
  for (const auto& suffix : client_.search) {
    if (!is_below(name, suffix)) continue;
    const std::string_view rest = name.substr(0, name.size() - suffix.size() - 1);
    if (Match match = lookup(rest, trace)) {
      *stripped = rest;
      return match;
    }
  }
  return {};
}

bool View::reaches(const EndpointEntry& endpoint) const {
  return !client_.network || !endpoint.network || endpoint.network == client_.network;
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
  }
  return ttl.endpoint;
}

bool View::namespace_exists(std::string_view ns) const {
  if (snapshot_.find_namespace(ns) != nullptr) return true;
  return is_empty_non_terminal(JoinedName({ns, ".svc.", settings().cluster_domain}).text());
}

// The services that a Sidecar imports by whole namespaces are known by what exports them; those of
// a narrower import are looked for by its hosts.  Where an egress listener's port or an exclusion
// of single hosts leaves it open, the name is there: denying it would deny what may be below.
bool View::is_empty_non_terminal(std::string_view name) const {
  const NonTerminal* entry = snapshot_.find_non_terminal(name);
  if (entry == nullptr) return false;
  const SidecarScope* scope = client_.scope.get();
  const auto is_imported = [&](const ExportScope& exports) {
    return may_see_below(*entry, exports) &&
           (scope == nullptr || scope->imports_namespace(exports.ns.get()));
  };
  if (std::ranges::any_of(entry->scopes, is_imported)) return true;
  return scope != nullptr && scope->any_host([&](const SidecarScope::HostPattern& pattern) {
    return may_import_below(*entry, pattern);
  });
}

bool View::may_see_below(const NonTerminal& entry, const ExportScope& exports) const {
  return exports.includes(client_.ns.get()) &&
         (!client_.scope || !client_.scope->excludes_below(entry.name, exports.ns.get()));
}

bool View::may_import_below(const NonTerminal& entry,
                            const SidecarScope::HostPattern& pattern) const {
  if (!pattern.wildcard) {
    if (!is_below(pattern.suffix, entry.name)) return false;
    const HostEntry* host = snapshot_.find_host(pattern.suffix);
    return host != nullptr && choose(*host, nullptr) != nullptr;
  }
  const bool is_narrower = is_below(pattern.suffix, entry.name);
  if (!is_narrower && !pattern.suffix.empty() && !is_at_or_below(entry.name, pattern.suffix))
    return false;
  const NonTerminal* const below =
      is_narrower ? snapshot_.find_non_terminal(pattern.suffix) : &entry;
  return below != nullptr && std::ranges::any_of(below->scopes, [&](const ExportScope& exports) {
           return (!pattern.ns || pattern.ns == exports.ns) && may_see_below(*below, exports);
         });
}

bool View::pod_exists(const IpAddress& address, std::string_view ns) const {
  const PodEntry* entry = snapshot_.find_pod(address);
  return entry != nullptr && std::ranges::any_of(entry->namespaces, [&](const SymbolRef& s) {
           return s->text() == ns;
         });
}

std::vector<View::ReverseName> View::reverse(const IpAddress& address) const {
  const std::uint64_t hash = hash_of(address);
  const ReverseEntry* entry =
      snapshot_.reverse.find(hash, [&](const ReverseEntry& e) { return e.address_hash() == hash; });
  if (entry == nullptr) return {};
  std::vector<ReverseName> vips;
  std::vector<ReverseName> endpoints;
  const bool pod_names = settings().endpoint_pod_names;
  const auto visit = [&](const HostEntry& host) {
    const ServiceRecord* service = choose(host, nullptr);
    if (service == nullptr) return;
    const AddressView view = addresses(*service);
    const bool headless =
        service->answer == AnswerKind::Endpoints && service->provider != Provider::ServiceEntry;
    if (!headless && has_address(view.v4, view.v6, address)) {
      vips.push_back({std::string(host.host()), service});
      return;
    }
    if (service->provider == Provider::ServiceEntry || service->endpoints() == nullptr) return;
    for (const auto& endpoint : service->endpoints()->entries)
      if (endpoint.address == address && endpoint.ready && reaches(endpoint))
        endpoints.push_back(
            {EndpointList::label_of(endpoint, pod_names) + "." + std::string(host.host()),
             service});
  };
  for (const std::uint64_t host_hash : entry->host_hashes())
    snapshot_.hosts.for_each_candidate(host_hash, [&](const HostEntry& host) {
      if (hash_bytes(host.host()) == host_hash) visit(host);
    });
  // A cluster IP hides endpoints that have the same address.
  auto& names = vips.empty() ? endpoints : vips;
  std::ranges::sort(names, {}, &ReverseName::name);
  const auto duplicates = std::ranges::unique(names, {}, &ReverseName::name);
  names.erase(duplicates.begin(), duplicates.end());
  return names;
}

}  // namespace meshdns::registry
