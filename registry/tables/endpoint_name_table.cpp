// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/endpoint_name_table.hpp"

#include "registry/base/host_name.hpp"

namespace meshdns::registry {
namespace {

// Uses that the changes of one commit list one by one.  Beyond, all are listed as one: a wildcard
// may concern every name that there is.
constexpr std::size_t kMaxTouched = 4'096;

const std::vector<std::string>& names_of_record(const ServiceRecord* record) {
  static const std::vector<std::string> kNone;
  return record == nullptr ? kNone : record->resolved_names();
}

bool is_used_by(const std::set<HostKey>& users, const SymbolRef& ns) {
  const auto first = users.lower_bound({ns, ""});
  return first != users.end() && first->ns == ns;
}

std::string reversed(std::string_view name) { return {name.rbegin(), name.rend()}; }

// The entries of names below `suffix`, in a map by reversed names.
template <typename Map, typename Visit>
void for_each_below(const Map& map, std::string_view suffix, const Visit& visit) {
  const std::string prefix = reversed(suffix) + ".";
  for (auto it = map.lower_bound(prefix); it != map.end() && it->first.starts_with(prefix); ++it)
    if (!visit(*it)) return;
}

bool is_service(const ServiceRecord* record) {
  return record != nullptr && record->is_of_cluster();
}

}  // namespace

void EndpointNameTable::take_resolved(const EndpointNameTable& other) {
  resolved_ = other.resolved_;
  followed_ = other.followed_;
}

void EndpointNameTable::begin_use(const Users::value_type& name, const NameUse& use,
                                  const SymbolRef& ns) {
  ++changed_[use];
  by_namespace_.emplace(ns.get(), &name);
}

void EndpointNameTable::end_use(const Users::value_type& name, const NameUse& use,
                                const SymbolRef& ns) {
  --changed_[use];
  by_namespace_.erase({ns.get(), &name});
}

void EndpointNameTable::exchange(const HostKey& key, const ServiceRecord* before,
                                 const ServiceRecord* after) {
  const auto& old_names = names_of_record(before);
  const auto& new_names = names_of_record(after);
  // Most commits bring other addresses of the same names.
  if (old_names == new_names) return;
  const std::string ns(key.ns->text());
  for (const auto& name : new_names) {
    auto& entry = *users_.try_emplace(reversed(name)).first;
    if (!is_used_by(entry.second, key.ns)) begin_use(entry, {name, ns}, key.ns);
    entry.second.insert(key);
  }
  const TextViewSet kept(new_names.begin(), new_names.end());
  for (const auto& name : old_names) {
    if (kept.contains(name)) continue;
    const auto it = users_.find(reversed(name));
    if (it == users_.end()) continue;
    it->second.erase(key);
    if (!is_used_by(it->second, key.ns)) end_use(*it, {name, ns}, key.ns);
  }
}

void EndpointNameTable::note_host(const HostKey& key, const ServiceRecord* before,
                                  const ServiceRecord* after, std::string_view cluster_domain) {
  if (users_.empty() || all_touched_) return;
  const Symbol* const ns = key.ns.get();
  const bool sees_itself_as_before = before == nullptr || after == nullptr ||
                                     before->is_exported_to(ns) == after->is_exported_to(ns);
  // If a host has several entries, those without this endpoint name may answer it.
  const bool is_split = (before != nullptr && before->split) || (after != nullptr && after->split);
  const HostKey* const except = sees_itself_as_before && !is_split ? &key : nullptr;
  if (is_wildcard(key.host)) return touch_below(std::string_view(key.host).substr(2), except);
  touch(key.host, except);
  if (!is_service(before) && !is_service(after)) return;
  touch_below(key.host, except);
  note_short_names(key, cluster_domain);
}

// "web", "web.shop", "web.shop.svc" and what lies below the last.  The first Service of a namespace
// also makes the names of its Pods exist.
void EndpointNameTable::note_short_names(const HostKey& key, std::string_view cluster_domain) {
  if (!is_below(key.host, cluster_domain)) return;
  const std::string_view relative =
      std::string_view(key.host).substr(0, key.host.size() - cluster_domain.size() - 1);
  if (!relative.ends_with(".svc")) return;
  const std::string_view qualified = relative.substr(0, relative.size() - 4);
  touch(relative, nullptr);
  touch_below(relative, nullptr);
  touch(qualified, nullptr);
  const std::size_t dot = qualified.rfind('.');
  if (dot == std::string_view::npos) return;
  const std::string_view ns = qualified.substr(dot + 1);
  touch(qualified.substr(0, qualified.size() - ns.size() - 1), nullptr);
  note_below(std::string(ns) + ".pod." + std::string(cluster_domain));
}

void EndpointNameTable::note_below(std::string_view suffix) { touch_below(suffix, nullptr); }

void EndpointNameTable::note_namespace(std::string_view ns) { touched_namespaces_.emplace(ns); }

void EndpointNameTable::touch(std::string_view name, const HostKey* except) {
  const std::string key = reversed(name);
  if (const auto it = users_.find(key); it != users_.end()) touch_users(*it, except);
  if (followed_.empty()) return;
  if (const auto it = followed_.find(key); it != followed_.end())
    for (const NameUse& use : it->second) touch_use(use);
}

void EndpointNameTable::touch_below(std::string_view suffix, const HostKey* except) {
  for_each_below(users_, suffix, [&](const auto& entry) {
    touch_users(entry, except);
    return !all_touched_;
  });
  for_each_below(followed_, suffix, [&](const auto& entry) {
    for (const NameUse& use : entry.second) touch_use(use);
    return !all_touched_;
  });
}

void EndpointNameTable::touch_users(const Users::value_type& name, const HostKey* except) {
  const auto& users = name.second;
  for (auto it = users.begin(); it != users.end();) {
    const SymbolRef& ns = it->ns;
    auto next = std::next(it);
    const bool is_only = next == users.end() || next->ns != ns;
    if (!is_only || except == nullptr || *it != *except)
      touch_use({reversed(name.first), std::string(ns->text())});
    while (next != users.end() && next->ns == ns) ++next;
    it = next;
  }
}

void EndpointNameTable::touch_use(NameUse use) {
  if (all_touched_) return;
  touched_.insert(std::move(use));
  if (touched_.size() > kMaxTouched) all_touched_ = true;
}

EndpointNameTable::Difference EndpointNameTable::take_difference() {
  Difference difference;
  for (const auto& [use, sum] : std::exchange(changed_, {})) {
    if (sum > 0) difference.added.push_back(use);
    if (sum < 0) difference.removed.push_back(use);
    if (sum != 0) touched_.erase(use);
    const auto users = users_.find(reversed(use.name));
    const bool is_unused = users == users_.end() || users->second.empty();
    if (sum < 0 || is_unused) forget_result(use);
    if (users != users_.end() && is_unused) users_.erase(users);
  }
  difference.all_touched = std::exchange(all_touched_, false);
  const auto touched = std::exchange(touched_, {});
  if (!difference.all_touched) difference.touched.assign(touched.begin(), touched.end());
  for (auto& ns : std::exchange(touched_namespaces_, {}))
    difference.touched_namespaces.push_back(ns);
  return difference;
}

std::set<NameUse> EndpointNameTable::uses() const {
  std::set<NameUse> uses;
  for (const auto& [name, users] : users_)
    for (const auto& key : users) uses.insert({reversed(name), std::string(key.ns->text())});
  return uses;
}

std::vector<std::string> EndpointNameTable::names_of(const SymbolRef& ns) const {
  std::vector<std::string> names;
  for (auto it = by_namespace_.lower_bound({ns.get(), nullptr});
       it != by_namespace_.end() && it->first == ns.get(); ++it)
    names.push_back(reversed(it->second->first));
  return names;
}

std::vector<std::string> EndpointNameTable::namespaces() const {
  std::vector<std::string> namespaces;
  const Symbol* last = nullptr;
  for (const auto& [ns, name] : by_namespace_)
    if (std::exchange(last, ns) != ns) namespaces.emplace_back(ns->text());
  return namespaces;
}

void EndpointNameTable::forget_result(const NameUse& use) {
  const auto resolved = resolved_.find(use);
  if (resolved == resolved_.end()) return;
  unfollow(use, resolved->second.via);
  resolved_.erase(resolved);
}

void EndpointNameTable::unfollow(const NameUse& use, const std::vector<std::string>& via) {
  for (const auto& target : via) {
    const auto it = followed_.find(reversed(target));
    if (it == followed_.end()) continue;
    it->second.erase(use);
    if (it->second.empty()) followed_.erase(it);
  }
}

template <typename Visit>
void EndpointNameTable::for_each_user(const SymbolRef& ns, std::string_view name,
                                      const Visit& visit) const {
  const auto users = users_.find(reversed(name));
  if (users == users_.end()) return;
  for (auto key = users->second.lower_bound({ns, ""}); key != users->second.end() && key->ns == ns;
       ++key)
    visit(*key);
}

std::vector<std::string> EndpointNameTable::users_of(const SymbolRef& ns,
                                                     std::string_view name) const {
  std::vector<std::string> hosts;
  for_each_user(ns, name, [&](const HostKey& key) { hosts.push_back(key.host); });
  return hosts;
}

void EndpointNameTable::resolve(const SymbolRef& ns, ResolvedName name, std::set<HostKey>& users) {
  bool is_used = false;
  for_each_user(ns, name.host, [&](const HostKey& key) {
    users.insert(key);
    is_used = true;
  });
  if (!is_used) return;
  const NameUse use{name.host, std::string(ns->text())};
  ResolvedName& resolved = resolved_[use];
  unfollow(use, resolved.via);
  resolved = std::move(name);
  for (const auto& target : resolved.via) followed_[reversed(target)].insert(use);
}

const ResolvedName* EndpointNameTable::find(std::string_view ns, std::string_view name) const {
  const auto it = resolved_.find(NameUse{std::string(name), std::string(ns)});
  return it == resolved_.end() ? nullptr : &it->second;
}

}  // namespace meshdns::registry
