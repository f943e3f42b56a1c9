// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/slice_search.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace meshdns::registry::kubernetes {
namespace {

// Of a Service's name in a URL: a label, and what size_in_url() adds.
constexpr std::size_t kMaxNameSize = 66;

// In a URL: the name, and the comma in front of it as "%2C".
std::size_t size_in_url(std::string_view name) { return name.size() + 3; }

bool is_gone(const std::vector<std::uint64_t>& sorted, std::uint64_t key) {
  return !std::ranges::binary_search(sorted, key);
}

// One less of `key`; returns whether none is left.
bool count_down(std::unordered_map<std::uint64_t, std::uint32_t>& counts, std::uint64_t key) {
  const auto it = counts.find(key);
  if (it == counts.end() || --it->second > 0) return false;
  counts.erase(it);
  return true;
}

}  // namespace

// --- what is known -------------------------------------------------------------------------------

bool SliceSearch::note_service(std::uint64_t key, const KubeService& service) {
  if (!service.headless || service.type == ServiceType::ExternalName) {
    services_.erase(key);
    return false;
  }
  const auto [it, is_new] = services_.try_emplace(key);
  if (!is_new) return false;
  it->second.ns = service.meta.ns;
  it->second.name = service.meta.name;
  return true;
}

void SliceSearch::retain_services(std::string_view ns, const std::vector<std::uint64_t>& keys) {
  std::erase_if(services_, [&](const Service& service) {
    return (ns.empty() || service.second.ns == ns) && is_gone(keys, service.first);
  });
}

bool SliceSearch::forget_labelled_of(std::uint64_t service) {
  if (!count_down(labels_, service)) return false;
  const auto it = services_.find(service);
  return it != services_.end() && !it->second.group;
}

bool SliceSearch::note_labelled(const std::string& origin, std::uint64_t slice,
                                std::uint64_t service) {
  const auto [it, is_new] = labelled_[origin].try_emplace(slice, service);
  if (!is_new && it->second == service) return false;
  const std::uint64_t before = std::exchange(it->second, service);
  ++labels_[service];
  return !is_new && forget_labelled_of(before);
}

bool SliceSearch::forget_labelled(const std::string& origin, std::uint64_t slice) {
  const auto node = labelled_[origin].extract(slice);
  return !node.empty() && forget_labelled_of(node.mapped());
}

bool SliceSearch::retain_labelled(const std::string& origin,
                                  const std::vector<std::uint64_t>& slices) {
  bool has_work = false;
  std::erase_if(labelled_[origin], [&](const auto& item) {
    if (!is_gone(slices, item.first)) return false;
    has_work |= forget_labelled_of(item.second);
    return true;
  });
  return has_work;
}

bool SliceSearch::note_found(std::size_t group, std::uint64_t slice, std::uint64_t service) {
  forget_found(group, slice);
  const auto it = services_.find(service);
  if (it == services_.end()) return false;
  Searched& searched = it->second;
  // The watch still has the name of a Service that has left.  One that has come again since lacks
  // the slices that came while it was gone: the group is listed again.
  if (!searched.group) {
    searched.group = group;
    groups_[group].has_joined |= !searched.was_checked;
  }
  if (searched.group != group) return false;
  groups_[group].members.insert(service);
  groups_[group].slices[slice] = service;
  ++groups_[group].found[service];
  return true;
}

void SliceSearch::forget_found(std::size_t group, std::uint64_t slice) {
  const auto node = groups_[group].slices.extract(slice);
  if (!node.empty()) count_down(groups_[group].found, node.mapped());
}

void SliceSearch::retain_found(std::size_t group, const std::vector<std::uint64_t>& slices,
                               Milliseconds now) {
  Group& retained = groups_[group];
  std::erase_if(retained.slices, [&](const auto& item) {
    if (!is_gone(slices, item.first)) return false;
    count_down(retained.found, item.second);
    return true;
  });
  retained.listed_at = now;
}

// --- groups --------------------------------------------------------------------------------------

bool SliceSearch::is_searched_for(const Service& service) const {
  return !service.second.was_checked || !labels_.contains(service.first);
}

bool SliceSearch::is_checked(const Service& service, Milliseconds now) const {
  return groups_[*service.second.group].listed_at && now >= service.second.joined_at + kGrace;
}

bool SliceSearch::has_found(const Service& service) const {
  return groups_[*service.second.group].found.contains(service.first);
}

void SliceSearch::release_settled(Group& group, std::size_t index, Milliseconds now) {
  std::erase_if(group.members, [&](std::uint64_t key) {
    const auto it = services_.find(key);
    // It is gone, or has come again since.
    if (it == services_.end() || it->second.group != index) return true;
    it->second.was_checked |= is_checked(*it, now);
    if (index < kStandingGroups || is_searched_for(*it) || has_found(*it)) return false;
    it->second.group.reset();
    return true;
  });
  measure(group);
}

// The URL gets room for others at the group's next list.
void SliceSearch::measure(Group& group) const {
  group.names_size = 0;
  for (const std::uint64_t key : group.members)
    group.names_size += size_in_url(services_.at(key).name);
}

std::vector<SliceSearch::Service*> SliceSearch::settled() {
  std::vector<Service*> found;
  for (Service& service : services_)
    if (!service.second.group && !is_searched_for(service)) found.push_back(&service);
  return found;
}

// Such that each of them has its turn within kRecheck.
Milliseconds SliceSearch::pause_between_rechecks(const std::vector<Service*>& settled) const {
  std::map<std::string, std::size_t> sizes;
  for (const Service* service : settled)
    sizes[scope_of(service->second)] += size_in_url(service->second.name);
  std::size_t turns = 0;
  // A name that does not fit ends a turn before the group is full.
  constexpr std::size_t per_turn = kMaxNamesSize - kMaxNameSize;
  for (const auto& [scope, size] : sizes) turns += (size + per_turn - 1) / per_turn;
  return std::max(kMinPause, kRecheck / static_cast<Milliseconds::rep>(turns));
}

// Lets one group of settled Services, those that were looked for the longest ago, wait again.
void SliceSearch::recheck_settled(Milliseconds now) {
  std::vector<Service*> waiting = settled();
  if (waiting.empty()) return next_recheck_.reset();
  const Milliseconds pause = pause_between_rechecks(waiting);
  if (!next_recheck_) next_recheck_ = now + pause;
  if (now < *next_recheck_) return;
  next_recheck_ = now + pause;
  std::ranges::sort(waiting, {}, [](const Service* service) {
    const Searched& searched = service->second;
    return std::tie(searched.joined_at, searched.ns, searched.name);
  });
  const std::string scope = scope_of(waiting.front()->second);
  std::size_t size = 0;
  for (Service* service : waiting) {
    if (scope_of(service->second) != scope) continue;
    size += size_in_url(service->second.name);
    if (size > kMaxNamesSize) return;
    service->second.was_checked = false;
    service->second.is_recheck = true;
  }
}

// Makes room for those that wait: Services without a find leave, if they were searched for.
void SliceSearch::release_idle(Milliseconds now) {
  for (Group& group : groups_) {
    std::erase_if(group.members, [&](std::uint64_t key) {
      Service& service = *services_.find(key);
      if (!is_checked(service, now) || has_found(service)) return false;
      service.second.group.reset();
      return true;
    });
    measure(group);
  }
}

std::vector<SliceSearch::Service*> SliceSearch::find_waiting() {
  std::vector<Service*> waiting;
  for (Service& service : services_)
    if (!service.second.group && is_searched_for(service)) waiting.push_back(&service);
  // New ones first, then those whose turn was the longest ago.
  std::ranges::sort(waiting, {}, [](const Service* service) {
    const Searched& searched = service->second;
    return std::tie(searched.was_checked, searched.joined_at, searched.ns, searched.name);
  });
  return waiting;
}

bool SliceSearch::has_room(std::size_t group, const Searched& service) const {
  return !groups_[group].members.empty() && plan_[group].ns == scope_of(service) &&
         groups_[group].names_size + size_in_url(service.name) <= kMaxNamesSize;
}

// A group that must be listed anyway comes first, then any with room, then a new one.
std::optional<std::size_t> SliceSearch::place_for(const Searched& service) {
  for (const bool has_joined : {true, false})
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (groups_[i].has_joined == has_joined && has_room(i, service)) return i;
  for (std::size_t i = 0; i < groups_.size(); ++i)
    if (groups_[i].members.empty()) return i;
  if (groups_.size() >= std::max(kMaxGroups, namespaces_.size())) return {};
  groups_.emplace_back();
  plan_.emplace_back();
  return groups_.size() - 1;
}

bool SliceSearch::join(Service& service, Milliseconds now) {
  const auto place = place_for(service.second);
  if (!place) return false;
  Group& group = groups_[*place];
  if (group.members.empty()) group.names_size = 0;
  plan_[*place].ns = scope_of(service.second);
  group.members.insert(service.first);
  group.names_size += size_in_url(service.second.name);
  group.has_joined = true;
  service.second.group = place;
  service.second.joined_at = std::exchange(service.second.is_recheck, false) ? now - kGrace : now;
  return true;
}

void SliceSearch::place_waiting(Milliseconds now) {
  const std::vector<Service*> waiting = find_waiting();
  waiting_ = waiting.size();
  for (Service* service : waiting)
    if (join(*service, now)) --waiting_;
}

void SliceSearch::rebuild(std::size_t index) {
  Group& group = groups_[index];
  SliceGroup& plan = plan_[index];
  if (group.members.empty()) {
    group = {};
    plan.names.clear();
    return;
  }
  if (!std::exchange(group.has_joined, false)) return;
  plan.names.clear();
  for (const std::uint64_t key : group.members) plan.names.push_back(services_.at(key).name);
  std::ranges::sort(plan.names);
  const auto duplicates = std::ranges::unique(plan.names);
  plan.names.erase(duplicates.begin(), duplicates.end());
  ++plan.revision;
  group.listed_at.reset();
}

const std::vector<SliceGroup>& SliceSearch::regroup(Milliseconds now) {
  regrouped_at_ = now;
  for (std::size_t i = 0; i < groups_.size(); ++i) release_settled(groups_[i], i, now);
  recheck_settled(now);
  place_waiting(now);
  if (waiting_ > 0) {
    release_idle(now);
    place_waiting(now);
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) rebuild(i);
  return plan_;
}

std::optional<Milliseconds> SliceSearch::next_change() const {
  std::optional<Milliseconds> next;
  if (waiting_ > 0) next = regrouped_at_ + kGrace;
  if (next_recheck_) next = next ? std::min(*next, *next_recheck_) : *next_recheck_;
  for (const Group& group : groups_) {
    if (!group.listed_at) continue;
    for (const std::uint64_t key : group.members) {
      const auto it = services_.find(key);
      if (it == services_.end() || it->second.was_checked) continue;
      const Milliseconds due = it->second.joined_at + kGrace;
      next = next ? std::min(*next, due) : due;
    }
  }
  return next;
}

}  // namespace meshdns::registry::kubernetes
