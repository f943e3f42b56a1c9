// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/non_terminal_table.hpp"

#include <algorithm>

#include "registry/base/host_name.hpp"

namespace meshdns::registry {

void NonTerminalTable::exchange(const HostKey& key, const ServiceRecord* before,
                                const ServiceRecord* after, std::string_view cluster_domain) {
  if (!is_below(key.host, cluster_domain)) return;
  const auto scope_of = [&](const ServiceRecord* r) -> std::optional<ExportScope> {
    if (r == nullptr || r->placeholder) return std::nullopt;
    return ExportScope{key.ns, r->exports};
  };
  const auto was = scope_of(before);
  const auto is = scope_of(after);
  if (was == is) return;
  const std::string svc = "svc." + std::string(cluster_domain);
  for (std::string_view name = parent_of(key.host); is_below(name, cluster_domain) && name != svc;
       name = parent_of(name))
    count(name, was, is);
}

void NonTerminalTable::count(std::string_view name, const std::optional<ExportScope>& before,
                             const std::optional<ExportScope>& after) {
  auto& counts = counts_[std::string(name)];
  const auto count_of = [&](const ExportScope& scope) {
    return std::ranges::find(counts, scope, &ScopeCount::scope);
  };
  const std::size_t size = counts.size();
  if (before)
    if (const auto count = count_of(*before); --count->records == 0) counts.erase(count);
  bool changed = counts.size() != size;
  if (after) {
    const auto count = count_of(*after);
    changed |= count == counts.end();
    if (count == counts.end())
      counts.push_back({*after, 1});
    else
      ++count->records;
  }
  if (changed) put(name, counts);
  if (counts.empty()) counts_.erase(std::string(name));
}

void NonTerminalTable::put(std::string_view name, const std::vector<ScopeCount>& counts) {
  const std::uint64_t hash = hash_bytes(name);
  const auto same = [&](const NonTerminal& e) { return e.name == name; };
  if (counts.empty()) {
    entries_.erase(hash, same);
    return;
  }
  auto* entry = new NonTerminal;
  const Ref<const NonTerminal> replacement(entry);
  entry->name = name;
  for (const auto& count : counts) entry->scopes.push_back(count.scope);
  entries_.put(hash, replacement, same);
}

}  // namespace meshdns::registry
