// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/host_table.hpp"

#include <algorithm>
#include <vector>

namespace meshdns::registry {
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
