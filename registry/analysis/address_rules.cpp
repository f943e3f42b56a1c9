// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "registry/analysis/rules.hpp"
#include "registry/base/each_once.hpp"
#include "registry/base/printable.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {
namespace {

// Objects of one address that are compared with the first.
constexpr std::size_t kMaxOfAddress = 64;

// Proxies tell the hosts of one address and port apart by the Host header or the server name.
bool is_told_apart(const ServicePort& a, const ServicePort& b) {
  const ProtocolClass kind = protocol_class(a.protocol);
  return kind == protocol_class(b.protocol) &&
         (kind == ProtocolClass::Http || kind == ProtocolClass::Tls);
}

// The number of a port that both have and at which a proxy cannot tell them apart; 0 = none.
std::uint16_t clash_of(const ServiceEntry& a, const ServiceEntry& b) {
  for (const ServicePort& port : a.ports)
    for (const ServicePort& other : b.ports)
      if (port.number == other.number && !is_told_apart(port, other)) return port.number;
  return 0;
}

bool have_common_client(const ServiceEntry& a, const ServiceEntry& b,
                        const MeshSettings& settings) {
  const ExportTo to_a = effective_exports(a.export_to, a.meta.ns, settings);
  const ExportTo to_b = effective_exports(b.export_to, b.meta.ns, settings);
  const auto is_nobody = [](const ExportTo& to) { return to.empty() || to.front() == "~"; };
  if (is_nobody(to_a) || is_nobody(to_b)) return false;
  if (exports_include(to_a, "*") || exports_include(to_b, "*")) return true;
  return std::ranges::any_of(to_a,
                             [&](const std::string& ns) { return exports_include(to_b, ns); });
}

bool have_common_host(const ServiceEntry& a, const ServiceEntry& b) {
  return std::ranges::any_of(a.hosts, [&](const std::string& host) {
    return std::ranges::find(b.hosts, host) != b.hosts.end();
  });
}

// Entries may add to the Service of their own namespace.
bool adds_to(const ServiceEntry& entry, const KubeService& service, const MeshSettings& settings) {
  return entry.meta.ns == service.meta.ns &&
         std::ranges::find(entry.hosts, service.meta.name + "." + service.meta.ns + ".svc." +
                                            settings.cluster_domain) != entry.hosts.end();
}

std::string field_of_address(const ServiceEntry& entry, const IpAddress& address) {
  for (std::size_t i = 0; i < entry.addresses.size(); ++i)
    if (entry.addresses[i].is_single() && entry.addresses[i].address == address)
      return list_element("spec.addresses", i);
  return "spec.addresses";
}

void compare(const MeshObjects& mesh, const IpAddress& address, Judged<Resource> first,
             Judged<Resource> second, MeshFindings& out) {
  const auto* service = std::get_if<KubeService>(&first.object);
  const auto* entry = std::get_if<ServiceEntry>(&second.object);
  const std::string text = address.to_string();
  if (service != nullptr && entry != nullptr) {
    if (adds_to(*entry, *service, mesh.settings())) return;
    return out.add({FindingKind::VipOfTwoHosts, Weight::Warning, mesh.place_of(second.stored),
                    field_of_address(*entry, address),
                    text + " is the address of a Service, which gets the connections; use an "
                           "address of your own",
                    mesh.place_of(first.stored)});
  }
  if (service != nullptr) {
    const auto* other = std::get_if<KubeService>(&second.object);
    if (other == nullptr || other->meta.cluster != service->meta.cluster) return;
    return out.add({FindingKind::VipOfTwoHosts, Weight::Warning, mesh.place_of(second.stored),
                    "spec.clusterIP", text + " is the address of another Service, too; correct one",
                    mesh.place_of(first.stored)});
  }
  const auto* older = std::get_if<ServiceEntry>(&first.object);
  if (older == nullptr || entry == nullptr || have_common_host(*older, *entry) ||
      !have_common_client(*older, *entry, mesh.settings()))
    return;
  const std::uint16_t port = clash_of(*older, *entry);
  out.add({FindingKind::VipOfTwoHosts, port != 0 ? Weight::Warning : Weight::Note,
           mesh.place_of(second.stored), field_of_address(*entry, address),
           text + " is the address of another host, too" +
               (port != 0 ? ": a proxy cannot tell their connections to port " +
                                std::to_string(port) + " apart; give each host its own address"
                          : ", so its reverse name is that of the older one; give each host its "
                            "own address if that matters"),
           mesh.place_of(first.stored)});
}

// Proxies tell the connections to such a port apart by their address alone.
bool is_plain(const ServicePort& port) {
  const ProtocolClass kind = protocol_class(port.protocol);
  return kind == ProtocolClass::Tcp || kind == ProtocolClass::Unset;
}

enum class Allocation : std::uint8_t { Known, Possible, None };

// Returns whether all hosts of the entry get virtual addresses, as far as that is known: istiod
// allocates them for objects of the API, and `meshdnsd check` reads files and allocates none.
Allocation allocation_of(const MeshObjects& mesh, const ServiceEntry& entry) {
  auto result = Allocation::Known;
  for (const std::string& host : entry.hosts) {
    const HostEntry* const found = mesh.find_exact(host);
    const ServiceRecord* const record =
        found == nullptr ? nullptr : MeshObjects::record_of(*found, entry.meta.ns);
    if (record != nullptr && record->answer == AnswerKind::Vips) continue;
    if (!wants_vip(entry, host)) return Allocation::None;
    if (mesh.settings().auto_allocate == AutoAllocate::Off) result = Allocation::Possible;
  }
  return result;
}

void compare_ports(const MeshObjects& mesh, std::uint16_t number, Judged<ServiceEntry> older,
                   Judged<ServiceEntry> younger, MeshFindings& out) {
  const auto& ports = younger.object.ports;
  const auto at = std::ranges::find(ports, number, &ServicePort::number);
  // With NONE, connections of both go where they were meant to go.
  const bool is_harmless =
      older.object.resolution == Resolution::None && younger.object.resolution == Resolution::None;
  const bool is_certain = allocation_of(mesh, older.object) == Allocation::None &&
                          allocation_of(mesh, younger.object) == Allocation::None;
  out.add({FindingKind::TcpPortOfTwoHosts,
           is_certain && !is_harmless ? Weight::Warning : Weight::Note,
           mesh.place_of(younger.stored),
           list_element("spec.ports", static_cast<std::size_t>(at - ports.begin())),
           "TCP port " + std::to_string(number) + " of " + in_quotes(younger.object.hosts.front()) +
               " and of " + in_quotes(older.object.hosts.front()) +
               " has no address of its own: proxies take all connections to it for those of the "
               "latter, which is older; specify addresses",
           mesh.place_of(older.stored)});
}

// The order in which the objects of an address are compared: Services first, then the older.
bool comes_before(const Resource& a, const Resource& b) {
  const bool is_service = std::holds_alternative<KubeService>(a);
  if (is_service != std::holds_alternative<KubeService>(b)) return is_service;
  return is_older(meta_of(a), meta_of(b));
}

}  // namespace

void AddressBook::add(Judged<ServiceEntry> judged) {
  for (const IpPrefix& prefix : judged.object.addresses)
    if (prefix.is_single() && !prefix.address.is_unspecified())
      uses_.push_back({prefix.address, &judged.stored});
}

void AddressBook::add(Judged<KubeService> judged) {
  for (const IpAddress& address : judged.object.cluster_ips)
    if (!address.is_unspecified()) uses_.push_back({address, &judged.stored});
}

void AddressBook::judge(const MeshObjects& mesh, MeshFindings& out) {
  // An entry may give an address twice.
  sort_each_once(uses_, [](const Use& use) { return std::pair(use.address, use.stored); });
  for (auto use = uses_.begin(); use != uses_.end();) {
    const auto next = std::find_if(use, uses_.end(),
                                   [&](const Use& other) { return other.address != use->address; });
    const auto count = std::min(static_cast<std::size_t>(next - use), kMaxOfAddress);
    if (count > 1 && !out.is_full(FindingKind::VipOfTwoHosts)) {
      std::vector<std::pair<const StoredResource*, Resource>> objects;
      for (std::size_t i = 0; i < count; ++i) {
        const StoredResource* stored = (use + static_cast<long>(i))->stored;
        objects.emplace_back(stored, stored->decode());
      }
      std::ranges::sort(
          objects, [](const auto& a, const auto& b) { return comes_before(a.second, b.second); });
      for (std::size_t i = 1; i < objects.size(); ++i)
        compare(mesh, use->address, {*objects[0].first, objects[0].second},
                {*objects[i].first, objects[i].second}, out);
    }
    use = next;
  }
}

void TcpPorts::add(const MeshObjects& mesh, Judged<ServiceEntry> judged) {
  const ServiceEntry& entry = judged.object;
  if (!entry.addresses.empty() || allocation_of(mesh, entry) == Allocation::Known) return;
  for (const ServicePort& port : entry.ports)
    if (is_plain(port)) entries_[port.number].push_back(&judged.stored);
}

void TcpPorts::judge(const MeshObjects& mesh, MeshFindings& out) const {
  for (const auto& [number, stored] : entries_) {
    if (stored.size() < 2 || out.is_full(FindingKind::TcpPortOfTwoHosts)) continue;
    std::vector<std::pair<const StoredResource*, ServiceEntry>> entries;
    for (std::size_t i = 0; i < std::min(stored.size(), kMaxOfAddress); ++i)
      entries.emplace_back(stored[i], std::get<ServiceEntry>(stored[i]->decode()));
    std::ranges::sort(entries, is_older, [](const auto& e) -> auto& { return e.second.meta; });
    for (auto younger = entries.begin(); younger != entries.end(); ++younger) {
      const auto older = std::find_if(entries.begin(), younger, [&](const auto& other) {
        return !have_common_host(other.second, younger->second) &&
               have_common_client(other.second, younger->second, mesh.settings());
      });
      if (older != younger)
        compare_ports(mesh, number, {*older->first, older->second},
                      {*younger->first, younger->second}, out);
    }
  }
}

}  // namespace meshdns::registry
