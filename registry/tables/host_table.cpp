// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/host_table.hpp"

#include <algorithm>
#include <utility>

#include "registry/base/host_name.hpp"

namespace meshdns::registry {

void SourceChange::note(const StoredRef& source, bool is_added) {
  auto& other = is_added ? removed : added;
  std::erase(other, source);
  (is_added ? added : removed).push_back(source);
}

void HostMarks::mark(const SymbolRef& ns, std::string_view host, StoredRef source, bool added) {
  auto* text = static_cast<char*>(texts_.allocate(host.size(), 1));
  host.copy(text, host.size());
  marks_.push_back({ns, {text, host.size()}, std::move(source), added});
}

void HostMarks::take(const std::function<void(const HostKey&, const SourceChange&)>& visit) {
  const auto marks = std::exchange(marks_, {});
  std::vector<const Mark*> order;
  order.reserve(marks.size());
  for (const auto& mark : marks) order.push_back(&mark);
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) {
    return a->host != b->host ? a->host < b->host : a->ns.get() < b->ns.get();
  });
  std::ranges::stable_partition(
      order, [](const auto* mark) { return !is_below(mark->host, kClusterSetDomain); });
  for (std::size_t i = 0; i < order.size();) {
    const Mark& first = *order[i];
    SourceChange sources;
    for (; i < order.size() && order[i]->ns == first.ns && order[i]->host == first.host; ++i)
      if (order[i]->source) sources.note(order[i]->source, order[i]->added);
    visit({first.ns, std::string(first.host)}, sources);
  }
}

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

void ClaimantTable::note_owner(const Resource& resource, bool add,
                               const std::function<void(const HostKey&)>& changed) {
  const auto visit_claimants = [&](std::string_view key) {
    if (const auto it = claimants_.find(key); it != claimants_.end())
      for (const auto& [host, objects] : it->second) changed(host);
  };
  if (add)
    owners_.add(resource, visit_claimants);
  else
    owners_.remove(resource, visit_claimants);
}

void ClaimantTable::note_claimant(const HostKey& host, bool add) {
  for (const std::string_view key : owner_keys_of(host.host)) {
    if (add) {
      ++claimants_[std::string(key)][host];
      continue;
    }
    const auto hosts = claimants_.find(key);
    if (hosts == claimants_.end()) continue;
    if (const auto it = hosts->second.find(host); it != hosts->second.end() && --it->second == 0)
      hosts->second.erase(it);
    if (hosts->second.empty()) claimants_.erase(hosts);
  }
}

namespace {

std::uint64_t hash_of_host(std::string_view host) {
  return hash_bytes(is_wildcard(host) ? host.substr(2) : host);
}

// The order in which a client without a service of its own chooses (docs/semantics-istio.md).
bool precedes(const ServiceRecord& a, const ServiceRecord& b) {
  const auto rank = [](const ServiceRecord& record) {
    return record.is_of_cluster() ? 0 : record.provider == Provider::Gateway ? 2 : 1;
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  if (a.creation_time != b.creation_time) return a.creation_time < b.creation_time;
  return a.ns->text() < b.ns->text();
}

}  // namespace

const HostEntry* HostTable::find(std::string_view host) const {
  return (is_wildcard(host) ? wildcards_ : hosts_)
      .find(hash_of_host(host), [&](const HostEntry& e) { return e.host() == host; });
}

Ref<const ServiceRecord> HostTable::find(const HostKey& key) const {
  const HostEntry* entry = find(key.host);
  if (entry == nullptr) return {};
  // The index leaves out placeholders.
  const RecordIndex* index = entry->index();
  if (const auto* position = index == nullptr ? nullptr : index->own(key.ns.get()))
    return Ref<const ServiceRecord>(entry->records()[*position]);
  const auto record = std::ranges::find(entry->records(), key.ns, &ServiceRecord::ns);
  return record == entry->records().end() ? Ref<const ServiceRecord>()
                                          : Ref<const ServiceRecord>(*record);
}

std::size_t HostTable::put(std::string_view host, std::span<const Replacement> replacements) {
  const auto symbol = [](const Replacement& r) { return r.ns.get(); };
  std::vector<Ref<const ServiceRecord>> records;
  if (const HostEntry* entry = find(host))
    for (const ServiceRecord* other : entry->records())
      if (!std::ranges::binary_search(replacements, other->ns.get(), {}, symbol))
        records.emplace_back(other);
  for (const Replacement& replacement : replacements)
    if (replacement.record) records.push_back(replacement.record);
  std::ranges::sort(records, [](const auto& a, const auto& b) { return precedes(*a, *b); });
  if (is_wildcard(host)) wildcard_suffixes_.add(host.substr(2));
  auto& index = is_wildcard(host) ? wildcards_ : hosts_;
  const std::uint64_t hash = hash_of_host(host);
  const auto same = [&](const HostEntry& e) { return e.host() == host; };
  if (records.empty())
    index.erase(hash, same);
  else
    index.put(hash, HostEntry::create(host, records), same);
  return records.size();
}

void HostTable::for_each(const std::function<void(const HostEntry&)>& visit) const {
  hosts_.for_each(visit);
  wildcards_.for_each(visit);
}

void HostTable::for_each(const AddressUse& use,
                         const std::function<void(const HostEntry&)>& visit) const {
  hosts_.for_each_candidate(use.host_hash(), [&](const HostEntry& host) {
    if (use.is_of_host(hash_bytes(host.host()))) visit(host);
  });
}

void HostTable::publish_to(Snapshot& snapshot) const {
  snapshot.hosts = hosts_;
  snapshot.wildcards = wildcards_;
  snapshot.wildcard_suffixes = wildcard_suffixes_;
}

}  // namespace meshdns::registry
