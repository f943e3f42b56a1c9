// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/non_terminal_table.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "registry/base/host_name.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/tables/reverse_table.hpp"

namespace meshdns::registry {
namespace {

// Sorted addresses in, so that neighbours share most of their names.
std::set<std::string> names_above(const ServiceRecord* record, std::span<const std::string> zones) {
  std::set<std::string> names;
  std::optional<IpAddress> last;
  for (const IpAddress& address : reverse_addresses(record)) {
    const std::size_t most = address.is_v4() ? 2 : 30;
    const auto prefix = [&](const IpAddress& a) {
      return std::span(a.octets()).subspan(0, a.is_v4() ? 14 : 15);
    };
    if (last && address.is_v4() == last->is_v4() &&
        std::ranges::equal(prefix(address), prefix(*last)))
      continue;
    last = address;
    for (std::size_t count = 1; count <= most; ++count) {
      if (!address.is_v4() && !is_counted_prefix(count)) continue;
      std::string name = reverse_name(address, count);
      if (std::ranges::any_of(zones, [&](const auto& zone) { return is_below(name, zone); }))
        names.insert(std::move(name));
    }
  }
  return names;
}

}  // namespace

void NonTerminalTable::exchange_addresses(const ServiceRecord* before, const ServiceRecord* after,
                                          std::span<const std::string> zones) {
  if (zones.empty()) return;
  const auto scope_of = [](const ServiceRecord* r) {
    return ExportScope{{}, r == nullptr ? nullptr : r->exports};
  };
  for (const std::string& name : names_above(after, zones)) count(name, {}, scope_of(after));
  for (const std::string& name : names_above(before, zones)) count(name, scope_of(before), {});
}

void NonTerminalTable::exchange(const HostKey& key, const ServiceRecord* before,
                                const ServiceRecord* after, std::string_view cluster_domain) {
  const bool in_cluster = is_below(key.host, cluster_domain);
  const auto scope_of = [&](const ServiceRecord* r) -> std::optional<ExportScope> {
    if (r == nullptr || r->placeholder) return std::nullopt;
    // Whether the name of such a host exists is for the upstream to say.
    if (!in_cluster && r->answer == AnswerKind::Forward) return std::nullopt;
    return ExportScope{key.ns, r->exports};
  };
  const auto was = scope_of(before);
  const auto is = scope_of(after);
  if (was == is) return;
  for (std::string_view name = parent_of(key.host); !name.empty(); name = parent_of(name))
    count(name, was, is);
}

// Returns the entry that equals `scope`, or the place for it, among the scopes of one namespace,
// which are neighbours.
std::vector<NonTerminalTable::ScopeCount>::iterator NonTerminalTable::place_of(
    const ExportScope& scope, std::vector<ScopeCount>& counts) {
  const auto of_namespace =
      std::ranges::equal_range(counts, scope.ns.get(), std::less<>(),
                               [](const ScopeCount& count) { return count.scope.ns.get(); });
  return std::ranges::find(of_namespace, scope, &ScopeCount::scope);
}

void NonTerminalTable::count(std::string_view name, const std::optional<ExportScope>& before,
                             const std::optional<ExportScope>& after) {
  auto& counts = counts_[std::string(name)];
  bool changed = false;
  const auto note_change = [&](std::size_t place) { changed |= place < kMaxPublished; };
  if (before) {
    const auto count = place_of(*before, counts);
    if (--count->records == 0) {
      note_change(static_cast<std::size_t>(count - counts.begin()));
      counts.erase(count);
    }
  }
  if (after) {
    const auto count = place_of(*after, counts);
    if (count != counts.end() && count->scope == *after) {
      ++count->records;
    } else {
      note_change(static_cast<std::size_t>(count - counts.begin()));
      counts.insert(count, {*after, 1});
    }
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
  for (const auto& count : std::span(counts).first(std::min(counts.size(), kMaxPublished)))
    entry->scopes.push_back(count.scope);
  entries_.put(hash, replacement, same);
}

}  // namespace meshdns::registry
