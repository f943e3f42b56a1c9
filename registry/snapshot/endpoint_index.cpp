// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/endpoint_index.hpp"

#include <algorithm>
#include <tuple>

#include "registry/base/each_once.hpp"
#include "registry/base/hash.hpp"
#include "registry/snapshot/service_record.hpp"

namespace meshdns::registry {
namespace {

std::uint32_t hash_of_label(std::string_view label) {
  return static_cast<std::uint32_t>(hash_bytes(label) >> 32);
}

std::uint32_t hash_of_address(const IpAddress& address) {
  return static_cast<std::uint32_t>(std::hash<IpAddress>()(address));
}

}  // namespace

EndpointIndex EndpointIndex::of_large(std::span<const EndpointEntry> entries, bool pod_names) {
  return entries.size() < kWorthwhile ? EndpointIndex() : EndpointIndex(entries, pod_names);
}

EndpointIndex::EndpointIndex(std::span<const EndpointEntry> entries, bool pod_names)
    : is_made_(true) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].ready) continue;
    const auto entry = static_cast<std::uint32_t>(i);
    at_.push_back({hash_of_address(entries[i].address), entry});
    const Kind kind{entries[i].subset, entries[i].network.get()};
    if (kinds_.empty() || kinds_.back() != kind) kinds_.push_back(kind);
    const std::string label = EndpointList::label_of(entries[i], pod_names);
    if (label.size() > 255) continue;
    named_.push_back({hash_of_label(label), entry, static_cast<std::uint32_t>(labels_.size()),
                      static_cast<std::uint8_t>(label.size()), label.contains('.'),
                      entries[i].subset});
    labels_ += label;
  }
  std::ranges::sort(at_, {}, &At::hash);
  sort_each_once(kinds_);
  kinds_.shrink_to_fit();
  const auto key = [&](const Named& named) {
    const EndpointEntry& e = entries[named.entry];
    return std::tuple(named.hash, label(named), e.address, e.network.get(), e.cluster.get(),
                      e.subset);
  };
  sort_each_once(named_, key);
  const auto shared = std::ranges::adjacent_find(
      named_, [&](const Named& a, const Named& b) { return label(a) == label(b); });
  has_shared_labels_ = shared != named_.end();
  put_labels_in_order();
  at_.shrink_to_fit();
  named_.shrink_to_fit();
}

void EndpointIndex::put_labels_in_order() {
  std::string ordered;
  std::size_t size = 0;
  for (const Named& named : named_) size += named.label_size;
  ordered.reserve(size);
  for (Named& named : named_) {
    const std::string_view text = label(named);
    named.label_at = static_cast<std::uint32_t>(ordered.size());
    ordered += text;
  }
  labels_ = std::move(ordered);
}

std::span<const EndpointIndex::Named> EndpointIndex::named(std::string_view wanted) const {
  const auto [begin, end] =
      std::ranges::equal_range(named_, hash_of_label(wanted), {}, &Named::hash);
  const auto by_label = [&](const Named& named) { return label(named); };
  const auto [first, last] = std::ranges::equal_range(begin, end, wanted, {}, by_label);
  return {first, last};
}

std::span<const EndpointIndex::At> EndpointIndex::at(const IpAddress& address) const {
  const auto [first, last] = std::ranges::equal_range(at_, hash_of_address(address), {}, &At::hash);
  return {first, last};
}

}  // namespace meshdns::registry
