// SPDX-License-Identifier: Apache-2.0
#include "resolver/names/result_batches.hpp"

#include <algorithm>

namespace meshdns::resolver {

bool ResultBatches::add(std::string_view ns, std::string_view host) {
  auto& tenant = tenants_[std::string(ns)];
  if (!tenant) {
    tenant = std::make_unique<Tenant>();
    tenant->ns = ns;
  }
  if (tenant->hosts.empty()) queue_of(*tenant).emplace(tenant->due, tenant.get());
  return tenant->hosts.emplace(host).second;
}

void ResultBatches::remove(std::string_view ns, std::string_view host) {
  const auto found = tenants_.find(ns);
  if (found == tenants_.end()) return;
  Tenant& tenant = *found->second;
  const auto noted = tenant.hosts.find(host);
  if (noted == tenant.hosts.end()) return;
  tenant.hosts.erase(noted);
  if (tenant.hosts.empty()) queue_of(tenant).erase({tenant.due, &tenant});
}

std::optional<ResultBatches::Batch> ResultBatches::take_due(TimePoint now) {
  Queue* queue = nullptr;
  if (!short_.empty() && short_.begin()->first <= now)
    queue = &short_;
  else if (!long_.empty() && std::max(long_.begin()->first, long_due_) <= now)
    queue = &long_;
  if (queue == nullptr) return std::nullopt;
  Tenant& tenant = *queue->begin()->second;
  queue->erase(queue->begin());
  Batch batch{tenant.ns, {}};
  while (!tenant.hosts.empty())
    batch.hosts.push_back(std::move(tenant.hosts.extract(tenant.hosts.begin()).value()));
  return batch;
}

void ResultBatches::told(std::string_view ns, Duration cost, TimePoint now) {
  const auto found = tenants_.find(ns);
  if (found == tenants_.end()) return;
  Tenant& tenant = *found->second;
  const bool waits = !tenant.hosts.empty();
  if (waits) queue_of(tenant).erase({tenant.due, &tenant});
  tenant.is_long = cost > kLong;
  tenant.due = now + std::max<Duration>(kShortestPause, kPausePerCost * cost);
  if (tenant.is_long) long_due_ = now + kCommonPausePerCost * cost;
  if (waits) queue_of(tenant).emplace(tenant.due, &tenant);
  // A namespace whose pause is over and that has nothing to tell needs no memory.
  if (tenants_.size() > 2 * (short_.size() + long_.size()) + 64)
    std::erase_if(tenants_, [&](const auto& item) {
      return item.second->hosts.empty() && item.second->due <= now;
    });
}

std::optional<TimePoint> ResultBatches::next() const {
  std::optional<TimePoint> next;
  if (!short_.empty()) next = short_.begin()->first;
  if (!long_.empty())
    next = std::min(next.value_or(TimePoint::max()), std::max(long_.begin()->first, long_due_));
  return next;
}

}  // namespace meshdns::resolver
