// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/member_table.hpp"

#include <algorithm>

#include "registry/base/host_name.hpp"

namespace meshdns::registry {
namespace {

bool has_member_shape(std::string_view host) {
  return !is_wildcard(host) && count_labels(host) == 3;
}

std::string_view tail_of(std::string_view host) { return parent_of(parent_of(host)); }

bool has_label(const EndpointList& endpoints, std::string_view label, bool pod_names) {
  if (endpoints.index.is_made() && !endpoints.index.named(label).empty()) return true;
  return std::ranges::any_of(endpoints.entries, [&](const EndpointEntry& entry) {
    return EndpointList::label_of(entry, pod_names) == label;
  });
}

}  // namespace

bool MemberTable::is_member(std::string_view host) const {
  if (!has_member_shape(host)) return false;
  if (const auto* const own = hosts_.find(std::string(host) + ".svc." + settings_.cluster_domain);
      own != nullptr &&
      std::ranges::any_of(own->records(), [](const auto* record) { return !record->is_claim(); }))
    return true;
  const HostEntry* const entry =
      hosts_.find(std::string(parent_of(host)) + ".svc." + settings_.cluster_domain);
  if (entry == nullptr) return false;
  const std::string_view label = host.substr(0, host.find('.'));
  return std::ranges::any_of(entry->records(), [&](const ServiceRecord* record) {
    return !record->is_claim() && record->endpoints() != nullptr &&
           has_label(*record->endpoints(), label, settings_.endpoint_pod_names);
  });
}

void MemberTable::count(const ServiceRecord* record, std::string_view host, int difference) {
  if (record == nullptr || !record->is_claim()) return;
  const auto it = tails_.try_emplace(std::string(tail_of(host))).first;
  it->second += static_cast<std::uint32_t>(difference);
  if (it->second == 0) tails_.erase(it);
}

void MemberTable::visit_members(std::string_view service, const ServiceRecord* record,
                                const std::function<void(const HostKey&)>& visit) const {
  if (record == nullptr || record->is_claim() || record->endpoints() == nullptr) return;
  for (const EndpointEntry& entry : record->endpoints()->entries) {
    const HostEntry* const claimed = hosts_.find(
        EndpointList::label_of(entry, settings_.endpoint_pod_names) + "." + std::string(service));
    if (claimed == nullptr) continue;
    for (const ServiceRecord* other : claimed->records())
      visit({other->ns, std::string(claimed->host())});
  }
}

void MemberTable::exchange(const HostKey& key, const ServiceRecord* before,
                           const ServiceRecord* after,
                           const std::function<void(const HostKey&)>& visit) {
  // With strict claims the entries of other namespaces are refused.
  if (settings_.claims != Claims::Istio) return;
  if (has_member_shape(key.host)) {
    count(before, key.host, -1);
    count(after, key.host, 1);
  }
  const std::string_view host = key.host;
  const std::size_t zone = settings_.cluster_domain.size() + std::string_view(".svc.").size();
  if (tails_.empty() || host.size() <= zone || !host.ends_with(settings_.cluster_domain) ||
      !host.substr(host.size() - zone).starts_with(".svc."))
    return;
  const std::string_view service = host.substr(0, host.size() - zone);
  const auto visit_claimed = [&](std::string_view name) {
    const HostEntry* const claimed = hosts_.find(name);
    if (claimed == nullptr) return;
    for (const ServiceRecord* other : claimed->records()) visit({other->ns, std::string(name)});
  };
  // A member that is a host of its own, as in a name table.
  if (has_member_shape(service) && tails_.contains(std::string(tail_of(service))))
    return visit_claimed(service);
  if (count_labels(service) != 2 || !tails_.contains(std::string(parent_of(service)))) return;
  visit_members(service, before, visit);
  visit_members(service, after, visit);
}

}  // namespace meshdns::registry
