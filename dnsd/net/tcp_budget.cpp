#include "dnsd/net/tcp_budget.hpp"

#include <algorithm>

namespace meshdns::dnsd {

TcpBudget::TcpBudget(const TcpLimits& limits) : limits_(limits) {}

TcpBudget::Verdict TcpBudget::acquire(const IpAddress& client) {
  const std::scoped_lock lock(mutex_);
  const auto held = by_client_.find(client);
  if (held != by_client_.end() && held->second >= limits_.max_connections_per_client)
    return Verdict::ClientShareInUse;
  const std::uint32_t open = open_.load(std::memory_order_relaxed);
  if (open >= limits_.max_connections) return Verdict::AllInUse;
  open_.store(open + 1, std::memory_order_relaxed);
  held == by_client_.end() ? void(by_client_.emplace(client, 1)) : void(++held->second);
  return Verdict::Granted;
}

void TcpBudget::release(const IpAddress& client) {
  const std::scoped_lock lock(mutex_);
  open_.store(open_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  const auto held = by_client_.find(client);
  if (held != by_client_.end() && --held->second == 0) by_client_.erase(held);
}

void TcpBudget::set_limits(const TcpLimits& limits) {
  const std::scoped_lock lock(mutex_);
  limits_ = limits;
}

TcpLimits TcpBudget::limits() const {
  const std::scoped_lock lock(mutex_);
  return limits_;
}

std::chrono::milliseconds TcpBudget::idle_timeout() const { return idle_timeout_at(limits()); }

std::chrono::milliseconds TcpBudget::idle_timeout_at(const TcpLimits& limits) const {
  const std::uint64_t open = open_.load(std::memory_order_relaxed);
  const bool busy = open * 5 > std::uint64_t{limits.max_connections} * 4;
  return busy ? std::min(limits.busy_idle_timeout, limits.idle_timeout) : limits.idle_timeout;
}

}  // namespace meshdns::dnsd
