// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "registry/analysis/rules.hpp"
#include "registry/base/did_you_mean.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::registry {
namespace {

constexpr std::size_t kExportsShown = 4;

// The service that the entry's namespace has under one of its hosts; null if there is none.
const ServiceRecord* record_for(const MeshObjects& mesh, const ServiceEntry& entry,
                                std::string_view host) {
  const HostEntry* found = mesh.find_exact(host);
  return found == nullptr ? nullptr : MeshObjects::record_of(*found, entry.meta.ns);
}

bool is_answered(const ServiceRecord* record) {
  return record != nullptr &&
         (record->answer == AnswerKind::Vips || record->answer == AnswerKind::Endpoints ||
          record->answer == AnswerKind::Alias || record->answer == AnswerKind::Pending ||
          record->answer == AnswerKind::Unresolvable);
}

template <typename Predicate>
bool for_some_host(const MeshObjects& mesh, const ServiceEntry& entry, Predicate predicate) {
  return std::ranges::any_of(entry.hosts, [&](const std::string& host) {
    return predicate(record_for(mesh, entry, host));
  });
}

// `meshdnsd check` has no allocator of persistent VIPs, whose addresses are the daemon's to know.
bool gets_vip(const MeshObjects& mesh, const ServiceEntry& entry) {
  return mesh.settings().auto_allocate == AutoAllocate::Persistent && entry.auto_allocate &&
         entry.addresses.empty();
}

void judge_endpoints(const MeshObjects& mesh, Judged<ServiceEntry> judged, MeshFindings& out) {
  const ServiceEntry& entry = judged.object;
  if (entry.resolution != Resolution::Static || !entry.endpoints.empty() || entry.workload_selector)
    return;
  // Another entry, or the Service, of the host has some.
  const bool has_others = for_some_host(mesh, entry, [](const ServiceRecord* record) {
    if (record == nullptr) return false;
    const EndpointList* endpoints = record->endpoints();
    return record->provider != Provider::ServiceEntry ||
           (endpoints != nullptr && !endpoints->entries.empty());
  });
  if (has_others) return;
  const bool is_known = gets_vip(mesh, entry) || for_some_host(mesh, entry, is_answered);
  // An entry without ports is there for DNS alone.
  if (is_known && entry.ports.empty()) return;
  out.add({FindingKind::StaticWithoutEndpoints, is_known ? Weight::Note : Weight::Warning,
           mesh.place_of(judged.stored), "spec.endpoints",
           is_known
               ? "resolution STATIC without endpoints and workloadSelector: DNS answers the "
                 "addresses, but a proxy has nothing to send connections to; add endpoints, or "
                 "use resolution NONE"
               : "resolution STATIC without endpoints, workloadSelector and addresses: nothing "
                 "answers the hosts, and their queries are forwarded; add endpoints or "
                 "addresses"});
}

void judge_addresses(const MeshObjects& mesh, Judged<ServiceEntry> judged, MeshFindings& out) {
  const ServiceEntry& entry = judged.object;
  for (std::size_t i = 0; i < entry.addresses.size(); ++i) {
    const IpPrefix& prefix = entry.addresses[i];
    if (prefix.is_single() || prefix.network() == prefix) continue;
    out.add({FindingKind::HostBitsSet, Weight::Warning, mesh.place_of(judged.stored),
             list_element("spec.addresses", i),
             in_quotes(prefix.to_string()) + " means the whole prefix " +
                 prefix.network().to_string() + "; write that, or the single address " +
                 prefix.address.to_string()});
  }
  const bool has_prefixes_only =
      !entry.addresses.empty() &&
      std::ranges::none_of(entry.addresses, [](const IpPrefix& p) { return p.is_single(); });
  if (!has_prefixes_only || for_some_host(mesh, entry, is_answered)) return;
  // Proxies route by a prefix, too: with NONE that may be all that is meant.
  const bool may_be_meant = entry.resolution == Resolution::None;
  out.add({FindingKind::AddressesWithoutAnswer, may_be_meant ? Weight::Note : Weight::Warning,
           mesh.place_of(judged.stored), "spec.addresses",
           "all are prefixes, which are never an answer: queries for the hosts are forwarded; add "
           "the single addresses that clients connect to"});
}

// Returns whether a certificate for `name` ("*.example.org") is one for `host`, or the other way
// round.
bool covers(std::string_view name, std::string_view host) {
  if (name == host) return true;
  if (name.starts_with("*.")) return is_below(host, name.substr(2));
  return host.starts_with("*.") && is_below(name, host.substr(2));
}

void judge_alt_names(const MeshObjects& mesh, Judged<ServiceEntry> judged, MeshFindings& out) {
  const ServiceEntry& entry = judged.object;
  if (entry.subject_alt_names.empty()) return;
  // Identities of workloads, and addresses, say nothing about hosts.
  const auto is_host = [](const std::string& name) {
    return name.find('/') == std::string::npos && name.find(':') == std::string::npos &&
           !IpAddress::parse(name);
  };
  if (!std::ranges::all_of(entry.subject_alt_names, is_host)) return;
  std::vector<std::string> names = entry.hosts;
  for (const auto& endpoint : entry.endpoints)
    if (!endpoint.address.empty() && !IpAddress::parse(endpoint.address) &&
        is_host(endpoint.address))
      names.push_back(endpoint.address);
  for (const auto& alt_name : entry.subject_alt_names) {
    const std::string canonical = canonical_host(alt_name);
    if (std::ranges::any_of(names, [&](const auto& name) { return covers(canonical, name); }))
      return;
  }
  const auto guess = nearest_word(canonical_host(entry.subject_alt_names.front()), names);
  out.add({FindingKind::SubjectAltNamesMismatch,
           Weight::Note,  // a server may have a certificate of another name
           mesh.place_of(judged.stored), "spec.subjectAltNames",
           "none of them matches a host or an endpoint of the entry; proxies accept only "
           "certificates with one of these names" +
               (guess ? " (did you mean " + in_quotes(*guess) + "?)" : std::string())});
}

void judge_dynamic_dns(const MeshObjects& mesh, Judged<ServiceEntry> judged, MeshFindings& out) {
  const ServiceEntry& entry = judged.object;
  if (entry.resolution != Resolution::DynamicDns || gets_vip(mesh, entry)) return;
  for (std::size_t i = 0; i < entry.hosts.size(); ++i) {
    if (is_answered(record_for(mesh, entry, entry.hosts[i]))) continue;
    const std::string_view remedy =
        !entry.auto_allocate
            ? "the label networking.istio.io/enable-autoallocate-ip switches it off; remove the "
              "label"
            : "status.addresses has none; let istiod allocate one, or set mesh.auto_allocate: "
              "persistent";
    out.add({FindingKind::DynamicDnsWithoutVip, Weight::Warning, mesh.place_of(judged.stored),
             list_element("spec.hosts", i),
             in_quotes(entry.hosts[i]) +
                 " has no virtual address, so its queries are forwarded and connections pass by "
                 "the proxy: " +
                 std::string(remedy)});
  }
}

void judge_location(const MeshObjects& mesh, Judged<ServiceEntry> judged, MeshFindings& out) {
  const ServiceEntry& entry = judged.object;
  if (!entry.workload_selector || entry.location != Location::MeshExternal) return;
  out.add({FindingKind::SelectorOfExternalEntry, Weight::Note, mesh.place_of(judged.stored),
           "spec.location",
           "MESH_EXTERNAL (the default) with a workloadSelector: proxies use no mutual TLS of the "
           "mesh for the selected workloads; use MESH_INTERNAL if they are part of the mesh"});
}

}  // namespace

void judge_entry(const MeshObjects& mesh, Judged<ServiceEntry> entry, MeshFindings& out) {
  judge_endpoints(mesh, entry, out);
  judge_addresses(mesh, entry, out);
  judge_alt_names(mesh, entry, out);
  judge_dynamic_dns(mesh, entry, out);
  judge_location(mesh, entry, out);
}

void judge_export_names(const MeshObjects& mesh, const StoredResource& stored,
                        const ExportTo& declared, std::string_view field, MeshFindings& out) {
  const auto is_word = [](std::string_view to) { return to == "." || to == "*" || to == "~"; };
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const std::string& to = declared[i];
    if (is_word(to)) continue;
    const Existence existence = mesh.namespace_existence(to);
    if (existence == Existence::Exists) continue;
    const std::string guess = mesh.guess_of_namespace(to);
    out.add({FindingKind::ExportToUnknownNamespace,
             existence == Existence::Missing ? Weight::Warning : Weight::Note,
             mesh.place_of(stored), list_element(field, i),
             (existence == Existence::Missing
                  ? "there is no namespace " + in_quotes(to)
                  : "none of the objects that were read is in the namespace " + in_quotes(to)) +
                 guess + "; nobody sees the object because of this element"});
  }
}

void judge_exports(const MeshObjects& mesh, const StoredResource& stored, const ExportTo& declared,
                   std::string_view field, MeshFindings& out) {
  if (declared.empty()) return;
  judge_export_names(mesh, stored, declared, field, out);
  const std::string_view own = stored.ns();
  const ExportTo effective = effective_exports(declared, own, mesh.settings());
  if (exports_include(effective, own) || declared.front() == "~") return;
  std::string known;
  for (std::size_t i = 0; i < std::min(effective.size(), kExportsShown); ++i)
    known += (i == 0 ? "" : ", ") + effective[i];
  if (effective.size() > kExportsShown) known += ", ...";
  out.add({FindingKind::HiddenFromOwnNamespace,
           mesh.has_clients(own) ? Weight::Warning : Weight::Note, mesh.place_of(stored),
           std::string(field),
           "is visible in " + known + " only, and not to clients of its own namespace " +
               std::string(own) + "; add \".\""});
}

}  // namespace meshdns::registry
