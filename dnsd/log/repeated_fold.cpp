// SPDX-License-Identifier: Apache-2.0
#include "dnsd/log/repeated_fold.hpp"

#include <utility>

namespace meshdns::dnsd {

namespace {
constexpr std::string_view kOtherKeys = "other repeated messages";
}

RepeatedFold::RepeatedFold(std::chrono::milliseconds window, std::size_t max_keys)
    : window_(window), max_keys_(max_keys) {}

std::optional<std::uint64_t> RepeatedFold::admit(std::string_view key, Time now) {
  const std::scoped_lock lock(mutex_);
  auto entry = entries_.find(key);
  if (entry == entries_.end() && entries_.size() >= max_keys_) {
    key = kOtherKeys;
    entry = entries_.find(key);
  }
  if (entry == entries_.end()) {
    entries_.emplace(key, Entry{now, 0});
    return 0;
  }
  if (now - entry->second.written < window_) {
    ++entry->second.folded;
    return std::nullopt;
  }
  entry->second.written = now;
  return std::exchange(entry->second.folded, 0);
}

std::vector<RepeatedFold::Folded> RepeatedFold::take_expired(Time now) {
  const std::scoped_lock lock(mutex_);
  std::vector<Folded> folded;
  std::erase_if(entries_, [&](const auto& entry) {
    const bool expired = now - entry.second.written >= window_;
    if (expired && entry.second.folded > 0) folded.push_back({entry.first, entry.second.folded});
    return expired;
  });
  return folded;
}

}  // namespace meshdns::dnsd
