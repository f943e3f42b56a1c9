// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/change_batch.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace meshdns::registry::kubernetes {

bool ServerReach::may_ask(const void* who) {
  if (state_ != State::Lost || prober_ == who) return true;
  if (prober_ != nullptr) return false;
  prober_ = who;
  return true;
}

ServerReach::Change ServerReach::note(const void* who, ReflectorStatus::Trouble trouble,
                                      const std::string& error, Milliseconds now, Silence silence) {
  const bool is_lost = trouble == ReflectorStatus::Trouble::Unreachable;
  const State before = std::exchange(state_, is_lost ? State::Lost : State::Reached);
  if (is_lost) why_ = error;
  const bool is_other_silence = is_lost && std::exchange(silence_, silence) != silence;
  if (state_ == before && !is_other_silence) return Change::None;
  prober_ = is_lost ? who : nullptr;
  if (!is_lost) return before == State::Unknown ? Change::Found : Change::Regained;
  lost_at_ = now;
  return Change::Lost;
}

void ServerReach::forget(const void* who) {
  if (prober_ == who) prober_ = nullptr;
}

std::string ServerReach::error(Milliseconds now) const {
  if (state_ != State::Lost) return {};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - lost_at_);
  return (silence_ == Silence::Unasked ? "the API server could not be asked for "
                                       : "the API server has not answered for ") +
         std::to_string(seconds.count()) + " s: " + why_;
}

namespace {

std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void ChangeDelays::note_arrival(std::int64_t trigger_time_ms) {
  arrivals_.push_back({std::chrono::steady_clock::now(), trigger_time_ms});
}

void ChangeDelays::note_applied(const std::vector<Arrival>& arrivals) {
  const auto applied = std::chrono::steady_clock::now();
  const std::int64_t applied_unix_ms = arrivals.empty() ? 0 : unix_ms();
  for (const Arrival& arrival : arrivals) {
    from_arrival_.observe(std::chrono::duration<double>(applied - arrival.at).count());
    if (arrival.trigger_time_ms != 0)
      // Two clocks, of which either may be wrong or set anew.
      from_trigger_.observe(1e-3 * static_cast<double>(std::max<std::int64_t>(
                                       applied_unix_ms - arrival.trigger_time_ms, 0)));
  }
}

void ChangeBatch::upsert(const std::string& origin, const Resource& resource) {
  OriginChange& update = updates_[origin];
  if (!update.removed.empty()) std::erase(update.removed, hash_of(key_of(resource)));
  update.resources.push_back(resource, 0);
  ++size_;
}

// Removes also an object that the batch itself has added: removals come last when it is applied.
void ChangeBatch::remove(const std::string& origin, const ResourceKey& key) {
  updates_[origin].removed.push_back(hash_of(key));
  ++size_;
}

void ChangeBatch::retain(const std::string& origin, std::vector<std::uint64_t>&& retained) {
  OriginChange end;
  end.origin = origin;
  end.effect = OriginChange::Effect::Retain;
  end.kept = std::move(retained);
  ends_.push_back(std::move(end));
}

void ChangeBatch::drop(const std::string& origin) {
  updates_.erase(origin);
  std::erase_if(ends_, [&](const OriginChange& end) { return end.origin == origin; });
  OriginChange end;
  end.origin = origin;
  end.effect = OriginChange::Effect::Remove;
  ends_.push_back(std::move(end));
}

std::vector<OriginChange> ChangeBatch::take() {
  std::vector<OriginChange> changes;
  for (auto& [origin, update] : updates_) {
    update.origin = origin;
    update.effect = OriginChange::Effect::Update;
    changes.push_back(std::move(update));
  }
  for (auto& end : ends_) changes.push_back(std::move(end));
  updates_.clear();
  ends_.clear();
  size_ = 0;
  return changes;
}

}  // namespace meshdns::registry::kubernetes
