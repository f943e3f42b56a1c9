// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "registry/analysis/rules.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"
#include "registry/view/view.hpp"

namespace meshdns::registry {
namespace {

// Limit of claims of one host that are compared, each with each.
constexpr std::size_t kMaxClaimsCompared = 32;

// Returns whether clients of a third namespace see both services, so that the order of the objects
// decides. Clients of the two namespaces get their own.
bool compete(const ServiceRecord& a, const ServiceRecord& b) {
  if (a.is_public() && b.is_public()) return true;
  const ServiceRecord& narrow = a.is_public() ? b : a;
  const ServiceRecord& other = a.is_public() ? a : b;
  return std::ranges::any_of(narrow.exports->namespaces, [&](const SymbolRef& ns) {
    return ns != a.ns && ns != b.ns && other.is_exported_to(ns.get());
  });
}

std::string text_of(const SymbolRef& ns) { return std::string(ns->text()); }

const StoredResource* entry_of(const ServiceRecord& record) {
  const StoredResource* found = nullptr;
  record.for_each_source([&](const StoredRef& source) {
    if (found == nullptr &&
        (source->kind() == Kind::ServiceEntry || source->kind() == Kind::NameTableEntry))
      found = source.get();
  });
  return found;
}

std::string field_of(const StoredResource& stored, std::string_view host) {
  if (stored.kind() != Kind::ServiceEntry) return {};
  const Resource resource = stored.decode();
  const auto& hosts = std::get<ServiceEntry>(resource).hosts;
  const auto at = std::ranges::find(hosts, host);
  return at == hosts.end()
             ? "spec.hosts"
             : list_element("spec.hosts", static_cast<std::size_t>(at - hosts.begin()));
}

// A client prefers the service that is exported to it by name to a public one.
bool is_preferred(const ServiceRecord& a, const ServiceRecord& b) {
  return a.is_public() == b.is_public() || !a.is_public();
}

void judge_claims(const MeshObjects& mesh, const HostEntry& host, MeshFindings& out) {
  std::vector<const ServiceRecord*> claims;
  for (const ServiceRecord* record : host.records())
    if (!record->placeholder && record->is_claim() && record->ns &&
        claims.size() < kMaxClaimsCompared)
      claims.push_back(record);
  for (std::size_t i = 1; i < claims.size(); ++i) {
    const ServiceRecord& later = *claims[i];
    const auto rival = std::find_if(claims.begin(), claims.begin() + static_cast<long>(i),
                                    [&](const ServiceRecord* r) { return compete(*r, later); });
    if (rival == claims.begin() + static_cast<long>(i)) continue;
    const ServiceRecord& earlier = **rival;
    const StoredResource* mine = entry_of(later);
    const StoredResource* theirs = entry_of(earlier);
    if (mine == nullptr || theirs == nullptr) continue;
    const bool is_first = is_preferred(earlier, later);
    const ServiceRecord& winner = is_first ? earlier : later;
    const std::string why = earlier.is_public() != later.is_public()
                                ? ", which is exported to them by name"
                                : ", which comes first by age and name of the namespace";
    out.add({FindingKind::HostClaimedTwice, Weight::Warning, mesh.place_of(*mine),
             field_of(*mine, host.host()),
             in_quotes(std::string(host.host())) + " is a host of namespace " +
                 text_of(earlier.ns) + ", too: clients of " + text_of(later.ns) +
                 " get this one, clients of " + text_of(earlier.ns) +
                 " that one, and clients of other namespaces that see both get that of " +
                 text_of(winner.ns) + why + "; remove one, or narrow exportTo",
             mesh.place_of(*theirs)});
  }
}

void judge_squatters(const MeshObjects& mesh, const HostEntry& host, MeshFindings& out) {
  const ServiceRecord* service = nullptr;
  for (const ServiceRecord* record : host.records())
    if (!record->placeholder && record->provider == Provider::Kubernetes && service == nullptr)
      service = record;
  if (service == nullptr || !service->source) return;
  for (const ServiceRecord* record : host.records()) {
    if (!record->is_claim() || !record->ns || record->ns == service->ns) continue;
    if (record->placeholder && !record->refused) continue;
    const StoredResource* entry = entry_of(*record);
    if (entry == nullptr || entry->kind() != Kind::ServiceEntry) continue;
    const std::string effect = record->refused ? "the claim is refused (mesh.claims: strict)"
                                               : "clients of " + text_of(record->ns) +
                                                     " get this entry instead of the Service";
    out.add({FindingKind::ServiceNameSquatted, Weight::Warning, mesh.place_of(*entry),
             field_of(*entry, host.host()),
             in_quotes(std::string(host.host())) + " is the name of a Service of namespace " +
                 text_of(service->ns) + ": " + effect + "; use a name of your own",
             mesh.place_of(*service->source)});
  }
}

// Entries of one namespace for one host.
void judge_mixed_exports(const MeshObjects& mesh, const HostEntry& host,
                         const ServiceRecord& record, MeshFindings& out) {
  if (!record.split || out.is_full(FindingKind::MixedExportTo)) return;
  const StoredResource* first = nullptr;
  ExportTo first_exports;
  bool is_said = false;
  record.for_each_source([&](const StoredRef& source) {
    if (is_said || source->kind() != Kind::ServiceEntry) return;
    const Resource resource = source->decode();
    const auto& entry = std::get<ServiceEntry>(resource);
    ExportTo exports = effective_exports(entry.export_to, entry.meta.ns, mesh.settings());
    if (first == nullptr) {
      first = source.get();
      first_exports = std::move(exports);
      return;
    }
    if (exports == first_exports) return;
    is_said = true;
    out.add({FindingKind::MixedExportTo, Weight::Warning, mesh.place_of(*source), "spec.exportTo",
             "differs from that of another entry for " + in_quotes(std::string(host.host())) +
                 " in the same namespace: clients get different addresses and ports, each those of "
                 "the entries that it sees; use one exportTo for all",
             mesh.place_of(*first)});
  });
}

// The most work of a look at the service (View::limit_work): look-ups of the namespace's own
// endpoint names look at each part.
std::size_t work_of(const ServiceRecord& record) {
  constexpr std::size_t kUnitsPerPart = 3;
  const ServiceParts* const parts = record.parts();
  return 1 + (parts == nullptr ? 0 : kUnitsPerPart * parts->all().size());
}

// The work of a query that looks at the host and at all wildcards above it.
class WorkOfQuery {
 public:
  WorkOfQuery(const Snapshot& snapshot, const HostEntry& host) {
    add(host);
    if (total_ < kWorthALook) return;
    for (std::string_view suffix = parent_of(host.host()); !suffix.empty();
         suffix = parent_of(suffix)) {
      const HostEntry* const above = snapshot.find_wildcard(suffix);
      if (above != nullptr && above != &host) add(*above);
    }
  }

  std::size_t total() const { return total_; }
  // The most expensive service of the namespace that makes most of the work, and that work.
  struct Busiest {
    const ServiceRecord* record = nullptr;
    std::size_t units = 0;
  };
  Busiest busiest() const {
    Busiest busiest;
    for (const auto& [ns, of_namespace] : by_namespace_)
      if (of_namespace.units > busiest.units) busiest = of_namespace;
    return busiest;
  }

 private:
  // Nearly all hosts cost less, and wildcards above them are judged by themselves.
  static constexpr std::size_t kWorthALook = 32;

  void add(const HostEntry& host) {
    for (const ServiceRecord* record : host.records()) {
      if (record->placeholder || !record->ns) continue;
      const std::size_t units = work_of(*record);
      Busiest& of_namespace = by_namespace_[record->ns->text()];
      if (of_namespace.record == nullptr || work_of(*of_namespace.record) < units)
        of_namespace.record = record;
      of_namespace.units += units;
      total_ += units;
    }
  }

  std::map<std::string_view, Busiest> by_namespace_;
  std::size_t total_ = 0;
};

void judge_work(const MeshObjects& mesh, const HostEntry& host, MeshFindings& out) {
  const WorkOfQuery work(mesh.snapshot(), host);
  if (work.total() < kMaxWorkOfQuery) return;
  const auto [record, units] = work.busiest();
  const StoredResource* const entry = record == nullptr ? nullptr : entry_of(*record);
  if (entry == nullptr) return;
  out.add({FindingKind::TooMuchWork,
           Weight::Note,
           mesh.place_of(*entry),
           {},
           "queries for " + in_quotes(std::string(host.host())) +
               " may be answered with SERVFAIL: clients may have to look at objects that cost " +
               std::to_string(work.total()) + " units of work, of which one query may cause " +
               std::to_string(kMaxWorkOfQuery) + "; " + std::to_string(units) +
               " of them are made by namespace " + text_of(record->ns) +
               ": give its entries of one host the same exportTo and ports"});
}

}  // namespace

void judge_host(const MeshObjects& mesh, const HostEntry& host, MeshFindings& out) {
  for (const ServiceRecord* record : host.records())
    if (!record->placeholder) judge_mixed_exports(mesh, host, *record, out);
  if (!out.is_full(FindingKind::TooMuchWork)) judge_work(mesh, host, out);
  if (host.records().size() < 2) return;
  if (!out.is_full(FindingKind::HostClaimedTwice)) judge_claims(mesh, host, out);
  if (!out.is_full(FindingKind::ServiceNameSquatted)) judge_squatters(mesh, host, out);
}

void judge_short_names(const MeshObjects& mesh, Judged<ServiceEntry> judged, MeshFindings& out) {
  const ServiceEntry& entry = judged.object;
  for (std::size_t i = 0; i < entry.hosts.size(); ++i) {
    const std::string& host = entry.hosts[i];
    const std::size_t labels = count_labels(host);
    if (host.starts_with("*") || labels < 2 || labels > 3) continue;
    std::string_view name = host;
    if (labels == 3) {
      if (!name.ends_with(".svc")) continue;
      name.remove_suffix(4);
    }
    const auto dot = name.find('.');
    const std::string_view ns = name.substr(dot + 1);
    if (ns == entry.meta.ns) continue;
    const StoredResource* service = mesh.find_service(ns, name.substr(0, dot), entry.meta.cluster);
    if (service == nullptr) continue;
    out.add({FindingKind::ServiceNameSquatted, Weight::Warning, mesh.place_of(judged.stored),
             list_element("spec.hosts", i),
             in_quotes(host) + " is a short name of a Service of namespace " + std::string(ns) +
                 ", and the Service wins where a client sees both; use a name of your own",
             mesh.place_of(*service)});
  }
}

void SingleLabelHosts::add(Judged<ServiceEntry> judged) {
  for (std::size_t i = 0; i < judged.object.hosts.size(); ++i) {
    const std::string& host = judged.object.hosts[i];
    if (host.find('.') == std::string::npos) entries_[host].push_back({&judged.stored, i});
  }
}

void SingleLabelHosts::judge(const MeshObjects& mesh, MeshFindings& out) const {
  mesh.snapshot().resources.for_each([&](const StoredResource& stored) {
    if (stored.kind() != Kind::Service || out.is_full(FindingKind::SingleLabelHost)) return;
    const auto found = entries_.find(std::string(stored.name()));
    if (found == entries_.end()) return;
    for (const Entry& entry : found->second)
      out.add({FindingKind::SingleLabelHost, Weight::Warning, mesh.place_of(*entry.stored),
               list_element("spec.hosts", entry.index),
               in_quotes(found->first) +
                   " is the short name of a Service for clients of namespace " +
                   std::string(stored.ns()) +
                   ": one of the two hides the other; use a host with a domain",
               mesh.place_of(stored)});
  });
}

DeniedNames::DeniedNames(const MeshObjects& mesh, std::span<const std::string> names) {
  const Snapshot& snapshot = mesh.snapshot();
  const std::string zone = "svc." + mesh.settings().cluster_domain;
  for (const std::string& name : names) {
    std::vector<std::string> search;
    if (snapshot.default_client) search = snapshot.default_client->search;
    // Other clients append the domain of their namespace, which is the label in front of "svc".
    if (is_below(name, zone)) {
      const auto front = std::string_view(name).substr(0, name.size() - zone.size() - 1);
      search.push_back(std::string(front.substr(front.rfind('.') + 1)) + "." + zone);
    }
    MeantName meant(name, mesh.settings().cluster_domain, search);
    // A name that exists fails for other reasons, and a search list makes names that do not.
    const bool exists = std::ranges::any_of(meant.spellings(), [&](std::string_view spelling) {
      return mesh.find_host(spelling) != nullptr;
    });
    if (!exists) names_.push_back(std::move(meant));
  }
}

void DeniedNames::judge(const MeshObjects& mesh, const HostEntry& host, MeshFindings& out) const {
  if (host.records().empty() || out.is_full(FindingKind::NearFailingName)) return;
  for (const MeantName& name : names_) {
    if (name.typing_errors(host.host()) != 1U) continue;
    const ServiceRecord& record = *host.records().front();
    const StoredResource* const entry = entry_of(record);
    const StoredResource* const object = entry != nullptr ? entry : record.source.get();
    if (object == nullptr) continue;
    out.add({FindingKind::NearFailingName, Weight::Note, mesh.place_of(*object),
             entry == nullptr ? std::string() : field_of(*entry, host.host()),
             in_quotes(std::string(host.host())) + " is one letter from " +
                 in_quotes(std::string(name.spellings().front())) +
                 ", which clients ask for often and which does not exist; correct the one that is "
                 "misspelt"});
  }
}

}  // namespace meshdns::registry
