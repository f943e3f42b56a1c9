// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/slice_search.hpp"

#include <algorithm>
#include <tuple>

namespace meshdns::registry::kubernetes {
namespace {

bool is_gone(const std::vector<std::uint64_t>& sorted, std::uint64_t key) {
  return !std::ranges::binary_search(sorted, key);
}

}  // namespace

// --- what is known -------------------------------------------------------------------------------

bool SliceSearch::note_service(std::uint64_t key, const KubeService& service, Milliseconds due) {
  if (!service.headless || service.type == ServiceType::ExternalName) {
    forget_service(key);
    return false;
  }
  return services_.try_emplace(key, Searched{service.meta.ns, service.meta.name, due}).second;
}

void SliceSearch::forget_service(std::uint64_t key) {
  const auto it = services_.find(key);
  if (it == services_.end()) return;
  if (listing_ == key) listing_.reset();
  while (!it->second.found.empty()) lose(it->second.found.begin()->first);
  services_.erase(it);
}

void SliceSearch::retain_services(std::string_view ns, const std::vector<std::uint64_t>& keys) {
  std::vector<std::uint64_t> gone;
  for (const auto& [key, service] : services_)
    if ((ns.empty() || service.ns == ns) && is_gone(keys, key)) gone.push_back(key);
  for (const std::uint64_t key : gone) forget_service(key);
}

bool SliceSearch::unlabel(std::uint64_t service, Milliseconds now) {
  const auto count = labels_.find(service);
  if (count == labels_.end() || --count->second > 0) return false;
  labels_.erase(count);
  const auto it = services_.find(service);
  if (it == services_.end()) return false;
  it->second.due = now + limits_.grace;
  return true;
}

bool SliceSearch::note_labelled(const std::string& origin, std::uint64_t slice,
                                std::uint64_t service, Milliseconds now) {
  lose(slice);
  const auto [it, is_new] = labelled_[origin].try_emplace(slice, service);
  if (!is_new && it->second == service) return false;
  const std::uint64_t before = std::exchange(it->second, service);
  ++labels_[service];
  return !is_new && unlabel(before, now);
}

bool SliceSearch::forget_labelled(const std::string& origin, std::uint64_t slice,
                                  Milliseconds now) {
  const auto node = labelled_[origin].extract(slice);
  return !node.empty() && unlabel(node.mapped(), now);
}

bool SliceSearch::retain_labelled(const std::string& origin,
                                  const std::vector<std::uint64_t>& slices, Milliseconds now) {
  bool has_work = false;
  std::erase_if(labelled_[origin], [&](const auto& item) {
    if (!is_gone(slices, item.first)) return false;
    has_work |= unlabel(item.second, now);
    return true;
  });
  return has_work;
}

bool SliceSearch::note_found(std::uint64_t slice, std::uint64_t service, const ResourceKey& key) {
  const bool is_labelled = std::ranges::any_of(
      labelled_, [slice](const auto& collection) { return collection.second.contains(slice); });
  if (service != listing_ || is_labelled) return false;
  // It has left another Service: what is added afterwards takes its place.
  if (const auto known = found_.find(slice); known != found_.end() && known->second != service)
    lose(slice);
  found_[slice] = service;
  services_.at(service).found.try_emplace(slice, key);
  return true;
}

void SliceSearch::retain_found(const std::vector<std::uint64_t>& slices) {
  if (!listing_) return;
  std::vector<std::uint64_t> gone;
  for (const auto& [slice, key] : services_.at(*listing_).found)
    if (is_gone(slices, slice)) gone.push_back(slice);
  for (const std::uint64_t slice : gone) lose(slice);
}

void SliceSearch::lose(std::uint64_t slice) {
  const auto found = found_.extract(slice);
  if (!found.empty()) lose_(std::move(services_.at(found.mapped()).found.extract(slice).mapped()));
}

std::vector<std::uint64_t> SliceSearch::found() const {
  std::vector<std::uint64_t> slices;
  for (const auto& [slice, service] : found_) slices.push_back(slice);
  std::ranges::sort(slices);
  return slices;
}

// --- turns ---------------------------------------------------------------------------------------

// One of several slices may have got the label: the others are still listed.
bool SliceSearch::is_searched_for(const Service& service) const {
  return !service.second.found.empty() || !labels_.contains(service.first);
}

std::optional<SliceSearch::Target> SliceSearch::next(Milliseconds now) {
  if (now < not_before()) return std::nullopt;
  std::erase_if(turns_, [&](const auto& turn) { return now - turn.second > limits_.repeat; });
  const auto rank = [this](const Service& service) {
    const auto turn = turns_.find(service.second.ns);
    return std::tuple(turn == turns_.end() ? Milliseconds(0) : turn->second,
                      service.second.tried_at, service.first);
  };
  Service* first = nullptr;
  for (Service& service : services_)
    if (service.second.due <= now && is_searched_for(service) &&
        (first == nullptr || rank(service) < rank(*first)))
      first = &service;
  if (first == nullptr) return std::nullopt;
  begun_at_ = now;
  if (listing_ == first->first) return std::nullopt;
  listing_ = first->first;
  Searched& target = first->second;
  target.tried_at = turns_[target.ns] = now;
  return Target{target.ns, target.name, ++turn_};
}

void SliceSearch::finish(Milliseconds now) {
  if (!listing_) return;
  services_.at(*listing_).due = now + limits_.repeat;
  listing_.reset();
}

std::optional<Milliseconds> SliceSearch::first_due() const {
  std::optional<Milliseconds> due;
  for (const Service& service : services_)
    if (is_searched_for(service))
      due = std::min(due.value_or(Milliseconds::max()), service.second.due);
  return due;
}

std::optional<Milliseconds> SliceSearch::next_due() const {
  const auto due = first_due();
  return due ? std::optional(std::max(*due, not_before())) : due;
}

bool SliceSearch::is_done(Milliseconds now) const {
  const auto due = first_due();
  return !listing_ && (!due || *due > now);
}

}  // namespace meshdns::registry::kubernetes
