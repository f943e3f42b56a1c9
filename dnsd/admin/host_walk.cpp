// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/host_walk.hpp"

#include <algorithm>
#include <utility>

#include "registry/base/host_name.hpp"

namespace meshdns::dnsd {

using registry::HostEntry;

HostWalk::HostWalk(std::shared_ptr<const registry::Snapshot> snapshot, std::string_view host)
    : snapshot_(std::move(snapshot)) {
  if (host.empty()) {
    const auto add = [&](const HostEntry& entry) { hosts_.push_back(&entry); };
    hosts_.reserve(snapshot_->hosts.size() + snapshot_->wildcards.size());
    snapshot_->hosts.for_each(add);
    snapshot_->wildcards.for_each(add);
    return;
  }
  const HostEntry* entry = host.starts_with("*.") ? snapshot_->find_wildcard(host.substr(2))
                                                  : snapshot_->find_host(host);
  if (entry != nullptr) hosts_.push_back(entry);
}

const HostEntry* HostWalk::step() {
  if (!is_sorted()) {
    sort_run();
    return nullptr;
  }
  if (runs_.empty()) return nullptr;
  const auto later = [this](const Run& a, const Run& b) { return comes_later(a, b); };
  std::ranges::pop_heap(runs_, later);
  Run& run = runs_.back();
  const HostEntry* entry = hosts_[run.next++];
  if (run.next == run.end)
    runs_.pop_back();
  else
    std::ranges::push_heap(runs_, later);
  return entry;
}

void HostWalk::sort_run() {
  const std::size_t end = std::min(sorted_ + kRun, hosts_.size());
  std::sort(hosts_.begin() + static_cast<std::ptrdiff_t>(sorted_),
            hosts_.begin() + static_cast<std::ptrdiff_t>(end),
            [](const HostEntry* a, const HostEntry* b) { return a->host() < b->host(); });
  runs_.push_back({sorted_, end});
  sorted_ = end;
  std::ranges::push_heap(runs_, [this](const Run& a, const Run& b) { return comes_later(a, b); });
}

bool HostWalk::comes_later(const Run& a, const Run& b) const {
  return hosts_[a.next]->host() > hosts_[b.next]->host();
}

}  // namespace meshdns::dnsd
