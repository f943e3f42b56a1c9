// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/server_reach.hpp"

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
                                      const std::string& error, Milliseconds now) {
  const bool is_lost = trouble == ReflectorStatus::Trouble::Unreachable;
  const State before = std::exchange(state_, is_lost ? State::Lost : State::Reached);
  if (state_ == before) return Change::None;
  prober_ = is_lost ? who : nullptr;
  if (!is_lost) return before == State::Unknown ? Change::Found : Change::Regained;
  why_ = error;
  lost_at_ = now;
  return Change::Lost;
}

void ServerReach::forget(const void* who) {
  if (prober_ == who) prober_ = nullptr;
}

std::string ServerReach::error(Milliseconds now) const {
  if (state_ != State::Lost) return {};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - lost_at_);
  return "the API server has not answered for " + std::to_string(seconds.count()) + " s: " + why_;
}

}  // namespace meshdns::registry::kubernetes
