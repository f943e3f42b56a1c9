// SPDX-License-Identifier: Apache-2.0
#include "registry/analysis/mesh_objects.hpp"

#include <algorithm>

#include "registry/base/did_you_mean.hpp"
#include "registry/base/host_name.hpp"

namespace meshdns::registry {
namespace {

// One Namespace object beside the objects of one application is usual in a tree of files; it does
// not show that there are no other namespaces.
constexpr std::size_t kFewNamespaces = 2;

const HostEntry* with_records(const HostEntry* entry) {
  if (entry == nullptr) return nullptr;
  return std::ranges::any_of(entry->records(),
                             [](const ServiceRecord* record) { return !record->placeholder; })
             ? entry
             : nullptr;
}

bool is_clustered(Kind kind) { return kind == Kind::Namespace; }

}  // namespace

MeshObjects::MeshObjects(const Snapshot& snapshot) : snapshot_(snapshot) {
  std::size_t namespace_objects = 0;
  snapshot.resources.for_each([&](const StoredResource& stored) {
    const Kind kind = stored.kind();
    kinds_ |= bit_of(kind);
    const std::string_view ns = is_clustered(kind) ? stored.name() : stored.ns();
    if (ns.empty()) return;
    kinds_by_namespace_[ns] |= bit_of(kind);
    namespace_objects += kind == Kind::Namespace ? 1 : 0;
  });
  all_namespaces_known_ = namespace_objects >= kFewNamespaces &&
                          std::ranges::all_of(kinds_by_namespace_, [](const auto& item) {
                            return (item.second & bit_of(Kind::Namespace)) != 0;
                          });
  const auto note = [this](const HostEntry& entry) { note_host(entry); };
  snapshot.hosts.for_each(note);
  snapshot.wildcards.for_each(note);
}

void MeshObjects::note_host(const HostEntry& entry) {
  for (const ServiceRecord* record : entry.records()) {
    if (record->placeholder || !record->ns) continue;
    const std::string_view ns = record->ns->text();
    auto& ports = ports_by_namespace_[ns];
    if (record->ports)
      for (const std::uint16_t port : record->ports->numbers)
        if (ports.insert(port).second) all_ports_.insert(port);
    if (record->provider == Provider::Kubernetes && record->answer != AnswerKind::Alias)
      real_services_.insert(ns);
  }
}

ObjectPlace MeshObjects::place_of(const StoredResource& stored) const {
  ObjectPlace place;
  if (snapshot_.origins) place.path = snapshot_.origins->of(stored.origin());
  place.line = stored.line();
  place.kind = to_string(stored.kind());
  if (!stored.ns().empty()) place.object = std::string(stored.ns()) + "/";
  place.object += stored.name();
  return place;
}

Existence MeshObjects::namespace_existence(std::string_view ns) const {
  if (ns == settings().root_namespace || kinds_by_namespace_.contains(ns)) return Existence::Exists;
  return all_namespaces_known_ ? Existence::Missing : Existence::Unseen;
}

std::string MeshObjects::guess_of_namespace(std::string_view ns) const {
  std::vector<std::string_view> known;
  for (const auto& [name, kinds] : kinds_by_namespace_) known.push_back(name);
  const auto guess = nearest_word(ns, known);
  return guess ? " (did you mean \"" + *guess + "\"?)" : std::string();
}

bool MeshObjects::has(Kind kind, std::string_view ns) const {
  const auto found = kinds_by_namespace_.find(ns);
  return found != kinds_by_namespace_.end() && (found->second & bit_of(kind)) != 0;
}

bool MeshObjects::has(Kind kind) const { return (kinds_ & bit_of(kind)) != 0; }

bool MeshObjects::has_real_service(std::string_view ns) const {
  return real_services_.contains(ns);
}

const StoredResource* MeshObjects::find_service(std::string_view ns, std::string_view name,
                                                std::string_view cluster) const {
  const ResourceKey key{Kind::Service, std::string(cluster), std::string(ns), std::string(name)};
  return snapshot_.resources.find(
      hash_of(key), [&](const StoredResource& stored) { return stored.has_key(key); });
}

std::optional<MeshObjects::ServiceName> MeshObjects::service_name_of(std::string_view host) const {
  const std::string_view domain = settings().cluster_domain;
  if (!is_below(host, domain)) return std::nullopt;
  host.remove_suffix(domain.size() + 1);
  if (!host.ends_with(".svc")) return std::nullopt;
  host.remove_suffix(4);
  const auto dot = host.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  const std::string_view rest = host.substr(0, dot);
  const auto before = rest.rfind('.');
  return ServiceName{host.substr(dot + 1),
                     before == std::string_view::npos ? rest : rest.substr(before + 1)};
}

const HostEntry* MeshObjects::find_exact(std::string_view host) const {
  return with_records(host.starts_with("*.") ? snapshot_.find_wildcard(host.substr(2))
                                             : snapshot_.find_host(host));
}

const HostEntry* MeshObjects::find_host(std::string_view host) const {
  if (const HostEntry* entry = with_records(snapshot_.find_host(host)); entry != nullptr)
    return entry;
  for (std::string_view suffix = parent_of(host); !suffix.empty(); suffix = parent_of(suffix))
    if (const HostEntry* entry = with_records(snapshot_.find_wildcard(suffix)); entry != nullptr)
      return entry;
  return nullptr;
}

const ServiceRecord* MeshObjects::record_of(const HostEntry& entry, std::string_view ns) {
  for (const ServiceRecord* record : entry.records())
    if (!record->placeholder && record->ns && record->ns->text() == ns) return record;
  return nullptr;
}

bool MeshObjects::is_visible_in(const ServiceRecord& record, std::string_view ns) {
  return record.is_public() ||
         std::ranges::any_of(record.exports->namespaces,
                             [&](const SymbolRef& symbol) { return symbol->text() == ns; });
}

const std::set<std::uint16_t>& MeshObjects::ports_of(std::string_view ns) const {
  static const std::set<std::uint16_t> kNoPorts;
  const auto found = ports_by_namespace_.find(ns);
  return found == ports_by_namespace_.end() ? kNoPorts : found->second;
}

bool MeshObjects::has_hosts(std::string_view ns) const { return ports_by_namespace_.contains(ns); }

void MeshFindings::add(MeshFinding finding) {
  if (counts_[static_cast<std::size_t>(finding.kind)]++ < kMaxOfKind)
    list_.push_back(std::move(finding));
}

ExportTo effective_exports(const ExportTo& declared, std::string_view ns,
                           const MeshSettings& settings) {
  ExportTo exports = declared.empty() ? settings.default_export_to : declared;
  for (auto& target : exports)
    if (target == ".") target = ns;
  std::ranges::sort(exports);
  return exports;
}

bool exports_include(const ExportTo& effective, std::string_view ns) {
  return std::ranges::any_of(effective,
                             [&](const std::string& to) { return to == "*" || to == ns; });
}

}  // namespace meshdns::registry
