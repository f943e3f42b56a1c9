// SPDX-License-Identifier: Apache-2.0
#include "dnsd/net/tcp_budget.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "registry/base/ip_address.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint64_t kBusy = std::numeric_limits<std::uint64_t>::max();
// Connections that one new one may push out: more than one only after a limit was lowered.
constexpr int kClosedForOne = 4;
// Connections, and clients, that are looked at for one new one.
constexpr int kLooks = 1024;
constexpr std::size_t kClients = 256;
// A worker that does not close what it was asked to is not asked for more.
constexpr unsigned kMaxPending = 512;

}  // namespace

struct TcpBudget::Held {
  Held(const IpAddress& of, const ConnectionId& name, std::uint64_t now_ms)
      : client(of), id(name), activity(now_ms), idle_since(now_ms) {}

  const IpAddress client;  // its network
  const ConnectionId id;
  std::uint64_t number = 0;  // in the order of admission; guarded by the budget's mutex
  std::uint64_t activity;    // the key in by_activity; guarded by the budget's mutex
  bool is_closing = false;   // counted no more; guarded by the budget's mutex
  std::atomic<std::uint64_t> idle_since;  // written by the connection's worker; or kBusy
};

TcpBudget::Place::Place(TcpBudget& budget, std::unique_ptr<Held> held)
    : budget_(&budget), held_(std::move(held)) {}

TcpBudget::Place::Place() = default;
TcpBudget::Place::Place(Place&& other) noexcept = default;

TcpBudget::Place::~Place() {
  if (held_) budget_->release(*held_);
}

TcpBudget::Place& TcpBudget::Place::operator=(Place&& other) noexcept {
  if (held_) budget_->release(*held_);
  budget_ = other.budget_;
  held_ = std::move(other.held_);
  return *this;
}

void TcpBudget::Place::set_idle_since(std::uint64_t ms) {
  held_->idle_since.store(ms, std::memory_order_relaxed);
}

void TcpBudget::Place::set_busy() { set_idle_since(kBusy); }

void TcpBudget::Place::keep(std::uint64_t now_ms) {
  const std::scoped_lock lock(budget_->mutex_);
  if (!held_->is_closing) return;
  held_->is_closing = false;
  budget_->note_asked(held_->id.worker);
  held_->activity = now_ms;
  budget_->insert(*held_);
}

bool TcpBudget::ByRank::operator()(const ClientShare* a, const ClientShare* b) const {
  return std::tuple(b->rank.first, a->rank.second, a) <
         std::tuple(a->rank.first, b->rank.second, b);
}

TcpBudget::TcpBudget(const TcpLimits& limits) : limits_(limits) {}
TcpBudget::~TcpBudget() = default;

TcpBudget::Admission TcpBudget::admit(const IpAddress& client, const ConnectionId& id,
                                      std::uint64_t now_ms) {
  auto held = std::make_unique<Held>(limit_key_of(client), id, now_ms);
  const std::scoped_lock lock(mutex_);
  const auto share_is_used = [&] {
    const auto found = by_client_.find(held->client);
    return found != by_client_.end() &&
           found->second.by_activity.size() >= limits_.max_connections_per_client;
  };
  const auto all_are_used = [&] { return open() >= limits_.max_connections; };
  int looks = kLooks;
  for (int i = 0; i < kClosedForOne && share_is_used(); ++i)
    if (!make_room(by_client_.at(held->client), now_ms, looks)) break;
  if (share_is_used()) return {Verdict::ClientShareInUse, {}};
  for (int i = 0; i < kClosedForOne && all_are_used(); ++i)
    if (!make_room_in_all(now_ms, looks)) break;
  if (all_are_used()) return {Verdict::AllInUse, {}};
  held->number = ++admitted_;
  insert(*held);
  return {Verdict::Granted, Place(*this, std::move(held))};
}

void TcpBudget::insert(Held& held) {
  ClientShare& share = by_client_[held.client];
  share.by_activity.emplace(std::pair(held.activity, held.number), &held);
  rank(share);
  open_.store(open() + 1, std::memory_order_relaxed);
}

void TcpBudget::erase(Held& held) {
  const auto found = by_client_.find(held.client);
  ClientShare& share = found->second;
  share.by_activity.erase({held.activity, held.number});
  rank(share);
  if (share.by_activity.empty()) by_client_.erase(found);
  open_.store(open() - 1, std::memory_order_relaxed);
}

// Puts the share where it belongs now; one without connections stands nowhere.
void TcpBudget::rank(ClientShare& share) {
  by_rank_.erase(&share);
  if (share.by_activity.empty()) return;
  share.rank = {share.by_activity.size(), share.by_activity.begin()->first.first};
  by_rank_.insert(&share);
}

// Has the longest idle connection of the share closed, or the next one if its worker does not keep
// up.  The share may be gone after it.
bool TcpBudget::make_room(ClientShare& share, std::uint64_t now_ms, int& looks) {
  for (auto at = share.by_activity.begin(); at != share.by_activity.end() && looks-- > 0;) {
    const auto [key, held] = *at;
    const std::uint64_t activity = key.first;
    const std::uint64_t idle_since = held->idle_since.load(std::memory_order_relaxed);
    if (idle_since <= activity) {
      if (ask_to_close(*held)) return true;
      ++at;
      continue;
    }
    // Busy ones stand behind all that rest, so that each is looked at once.
    if (idle_since == kBusy && activity > now_ms) return false;
    const auto next = share.by_activity.erase(at);
    held->activity = idle_since == kBusy ? now_ms + 1 : idle_since;
    const auto moved = share.by_activity.emplace(std::pair(held->activity, held->number), held);
    rank(share);
    const bool is_next = next == share.by_activity.end() || moved.first->first < next->first;
    at = is_next ? moved.first : next;
  }
  return false;
}

bool TcpBudget::make_room_in_all(std::uint64_t now_ms, int& looks) {
  // Looking at a share moves it, so the largest are noted first.
  std::vector<ClientShare*> largest;
  for (auto at = by_rank_.begin(); at != by_rank_.end() && largest.size() < kClients; ++at)
    largest.push_back(*at);
  return std::ranges::any_of(largest, [&](ClientShare* s) { return make_room(*s, now_ms, looks); });
}

bool TcpBudget::ask_to_close(Held& held) {
  const auto worker = workers_.find(held.id.worker);
  if (worker == workers_.end() || worker->second.pending >= kMaxPending) return false;
  ++worker->second.pending;
  held.is_closing = true;
  erase(held);
  worker->second.ask(held.id);
  return true;
}

void TcpBudget::release(Held& held) {
  const std::scoped_lock lock(mutex_);
  held.is_closing ? note_asked(held.id.worker) : erase(held);
}

void TcpBudget::note_asked(unsigned worker) {
  const auto asked = workers_.find(worker);
  if (asked != workers_.end()) --asked->second.pending;
}

void TcpBudget::join(unsigned worker, AskToClose ask) {
  const std::scoped_lock lock(mutex_);
  workers_[worker].ask = std::move(ask);
}

void TcpBudget::leave(unsigned worker) {
  const std::scoped_lock lock(mutex_);
  workers_.erase(worker);
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
