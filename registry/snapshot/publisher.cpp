// SPDX-License-Identifier: Apache-2.0
#include "registry/snapshot/publisher.hpp"

#include <algorithm>

namespace meshdns::registry {

Publisher::Publisher(std::shared_ptr<const Snapshot> first)
    : generation_(1), current_(std::move(first)) {}

Publisher::Reader::Reader(Publisher& publisher) : publisher_(publisher) {
  {
    const std::lock_guard lock(publisher_.mutex_);
    publisher_.readers_.push_back(this);
  }
  refresh();
}

Publisher::Reader::~Reader() {
  const std::lock_guard lock(publisher_.mutex_);
  std::erase(publisher_.readers_, this);
}

void Publisher::Reader::refresh() {
  const std::lock_guard lock(publisher_.mutex_);
  seen_ = publisher_.generation_.load(std::memory_order_relaxed);
  snapshot_ = publisher_.current_.get();
  held_ = snapshot_;
}

void Publisher::publish(std::shared_ptr<const Snapshot> next) {
  {
    const std::lock_guard lock(mutex_);
    retired_.push_back(std::move(current_));
    current_ = std::move(next);
    generation_.fetch_add(1, std::memory_order_release);
  }
  collect();
  if (listener_) listener_();
}

void Publisher::collect() {
  std::vector<std::shared_ptr<const Snapshot>> unused;  // outlives the lock: freed without it
  const std::lock_guard lock(mutex_);
  const auto in_use = [&](const std::shared_ptr<const Snapshot>& s) {
    return std::ranges::any_of(readers_, [&](const Reader* r) { return r->held_ == s.get(); });
  };
  const auto kept = std::stable_partition(retired_.begin(), retired_.end(), in_use);
  unused.assign(std::make_move_iterator(kept), std::make_move_iterator(retired_.end()));
  retired_.erase(kept, retired_.end());
}

std::shared_ptr<const Snapshot> Publisher::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

}  // namespace meshdns::registry
