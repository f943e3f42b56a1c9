// SPDX-License-Identifier: Apache-2.0
#include "registry/model/name_owners.hpp"

#include <algorithm>
#include <array>

#include "registry/base/host_name.hpp"

namespace meshdns::registry {
namespace {

using LabelList = std::vector<std::string_view>;

// The text of a wildcard behind "*.".
std::string_view suffix_of(std::string_view host) {
  return host.starts_with("*.") ? host.substr(2) : host;
}

LabelList labels_of(std::string_view name) {
  LabelList labels;
  while (!name.empty()) {
    const auto dot = name.find('.');
    labels.push_back(name.substr(0, dot));
    name = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
  }
  return labels;
}

// Returns whether the host has names in the zone: it lies there, or is a wildcard over it.
bool reaches_into(std::string_view host, std::string_view zone) {
  if (is_at_or_below(suffix_of(host), zone)) return true;
  return host.starts_with("*.") && is_below(zone, host.substr(2));
}

bool is_in_cluster_zone(std::string_view host, const MeshSettings& settings) {
  return reaches_into(host, settings.cluster_domain) || reaches_into(host, kClusterSetDomain);
}

bool is_reserved(std::string_view host) {
  constexpr std::array<std::string_view, 3> kReserved = {"localhost", "in-addr.arpa", "ip6.arpa"};
  return std::ranges::any_of(kReserved, [&](auto zone) { return reaches_into(host, zone); });
}

// The last two labels, "db.bank" of "db-0.db.bank".
std::string_view last_two(std::string_view name) {
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return name;
  const auto before = name.rfind('.', dot - 1);
  return before == std::string_view::npos ? name : name.substr(before + 1);
}

// A name of the form of a Service's full name in the domain of another cluster, which is not
// configured: "db.bank.svc.DOMAIN".  Domains below "local" are not for names of the outside.
Claim claim_in_other_domain(const LabelList& labels, std::string_view ns, const NameOwners& owners,
                            bool is_wildcard) {
  const bool is_local = labels.back() == "local";
  if (is_local && is_wildcard) return Claim::ClusterName;
  for (std::size_t i = 1; i + 1 < labels.size(); ++i) {
    if (labels[i] != "svc" && labels[i] != "pod") continue;
    if (is_local) return Claim::ClusterName;
    if (labels[i - 1] != ns && owners.has_namespace(labels[i - 1])) return Claim::ClusterName;
  }
  return Claim::OutsideName;
}

}  // namespace

void NameOwners::count(const Resource& resource, int difference,
                       const std::function<void(std::string_view key)>& changed) {
  const auto touch = [&](std::string key) {
    const auto it = counts_.try_emplace(std::move(key)).first;
    const bool was = it->second != 0;
    it->second += static_cast<std::uint32_t>(difference);
    const bool is = it->second != 0;
    const std::string name = it->first;
    if (!is) counts_.erase(it);
    if (was != is) changed(name);
  };
  const ObjectMeta& meta = meta_of(resource);
  switch (kind_of(resource)) {
    case Kind::Namespace:
      return touch(meta.name);
    case Kind::Service:
      touch(to_lower(meta.name) + "." + meta.ns);
      return touch(meta.ns);
    case Kind::Pod:
    case Kind::ServiceImport:
      return touch(meta.ns);
    case Kind::NameTableEntry: {
      const auto& name = std::get<NameTableEntry>(resource);
      if (!name.kubernetes || meta.ns.empty()) return;
      if (!name.short_name.empty()) touch(to_lower(name.short_name) + "." + meta.ns);
      return touch(meta.ns);
    }
    default:
      return;
  }
}

void NameOwners::add(const Resource& resource,
                     const std::function<void(std::string_view key)>& changed) {
  count(resource, 1, changed);
}

void NameOwners::remove(const Resource& resource,
                        const std::function<void(std::string_view key)>& changed) {
  count(resource, -1, changed);
}

Claim claim_of(std::string_view host, std::string_view ns, const MeshSettings& settings,
               const NameOwners& owners) {
  if (is_in_cluster_zone(host, settings)) return Claim::ClusterName;
  if (is_reserved(host)) return Claim::ReservedName;
  const std::string_view name = suffix_of(host);
  const LabelList labels = labels_of(name);
  if (labels.size() < 2) return Claim::TopLevelName;
  // No name of the outside ends in "svc" or "pod".
  if (labels.back() == "svc" || labels.back() == "pod")
    return labels[labels.size() - 2] == ns ? Claim::OutsideName : Claim::OthersShortName;
  if (labels.back() != ns) {
    if (labels.size() == 2 ? owners.has_namespace(labels.back())
                           : owners.has_service(last_two(name)))
      return Claim::OthersShortName;
  }
  return claim_in_other_domain(labels, ns, owners, host.starts_with("*."));
}

Claim gateway_claim_of(std::string_view host, std::string_view ns, const MeshSettings& settings,
                       const NameOwners& owners) {
  switch (claim_of(host, ns, settings, owners)) {
    case Claim::ClusterName:
    case Claim::ReservedName:
    case Claim::TopLevelName:
      return Claim::GatewayNameOfAll;
    case Claim::OthersShortName:
      return Claim::GatewayShortName;
    default:
      return Claim::GatewayName;
  }
}

std::vector<std::string_view> owner_keys_of(std::string_view host) {
  const std::string_view name = suffix_of(host);
  const LabelList labels = labels_of(name);
  std::vector<std::string_view> keys;
  if (labels.size() == 2) keys.push_back(labels.back());
  if (labels.size() > 2) keys.push_back(last_two(name));
  for (std::size_t i = 1; i + 1 < labels.size(); ++i)
    if (labels[i] == "svc" || labels[i] == "pod") keys.push_back(labels[i - 1]);
  return keys;
}

bool can_be_short_name(std::string_view host, const MeshSettings& settings) {
  if (is_in_cluster_zone(host, settings)) return true;
  const std::string_view name = suffix_of(host);
  return count_labels(name) <= 2 || name == "svc" || is_below(name, "svc");
}

}  // namespace meshdns::registry
