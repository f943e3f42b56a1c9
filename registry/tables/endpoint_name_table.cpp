// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/endpoint_name_table.hpp"

#include <unordered_set>
#include <utility>

namespace meshdns::registry {
namespace {

const std::vector<std::string>& names_of(const ServiceRecord* record) {
  static const std::vector<std::string> kNone;
  return record != nullptr && record->details ? record->details->resolved_names : kNone;
}

bool is_used_by(const std::set<HostKey>& users, const SymbolRef& ns) {
  const auto first = users.lower_bound({ns, ""});
  return first != users.end() && first->ns == ns;
}

}  // namespace

void EndpointNameTable::exchange(const HostKey& key, const ServiceRecord* before,
                                 const ServiceRecord* after) {
  const auto& old_names = names_of(before);
  const auto& new_names = names_of(after);
  // Most commits bring other addresses of the same names.
  if (old_names == new_names) return;
  for (const auto& name : new_names) {
    auto& users = users_[name];
    if (!is_used_by(users, key.ns)) ++changed_[{name, std::string(key.ns->text())}];
    users.insert(key);
  }
  const std::unordered_set<std::string_view> kept(new_names.begin(), new_names.end());
  for (const auto& name : old_names) {
    if (kept.contains(name)) continue;
    const auto it = users_.find(name);
    if (it == users_.end()) continue;
    it->second.erase(key);
    if (!is_used_by(it->second, key.ns)) --changed_[{name, std::string(key.ns->text())}];
  }
}

EndpointNameTable::Difference EndpointNameTable::take_difference() {
  Difference difference;
  for (const auto& [use, sum] : std::exchange(changed_, {})) {
    if (sum > 0) difference.added.push_back(use);
    if (sum < 0) difference.removed.push_back(use);
    const auto users = users_.find(use.name);
    if (users == users_.end() || !users->second.empty()) continue;
    users_.erase(users);
    resolved_.erase(use.name);
  }
  return difference;
}

std::set<NameUse> EndpointNameTable::uses() const {
  std::set<NameUse> uses;
  for (const auto& [name, users] : users_)
    for (const auto& key : users) uses.insert({name, std::string(key.ns->text())});
  return uses;
}

void EndpointNameTable::resolve(const SymbolRef& ns, ResolvedName name, std::set<HostKey>& users) {
  const auto using_it = users_.find(name.host);
  if (using_it == users_.end()) return;
  for (auto key = using_it->second.lower_bound({ns, ""});
       key != using_it->second.end() && key->ns == ns; ++key)
    users.insert(*key);
  std::string host = name.host;
  resolved_[std::move(host)] = std::move(name);
}

const ResolvedName* EndpointNameTable::find(std::string_view name) const {
  const auto it = resolved_.find(std::string(name));
  return it == resolved_.end() ? nullptr : &it->second;
}

}  // namespace meshdns::registry
