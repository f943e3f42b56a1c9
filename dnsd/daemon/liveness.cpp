// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/liveness.hpp"

namespace meshdns::dnsd {

void Liveness::observe(std::span<const std::uint64_t> heartbeats, Time now) {
  // The observer itself may have been held up, the whole machine asleep: then nobody is to blame
  // before the workers had their time again.
  const bool late = now - observed_ > kStuckAfter;
  observed_ = now;
  workers_.resize(heartbeats.size(), Worker{~std::uint64_t{0}, now});
  for (std::size_t i = 0; i < heartbeats.size(); ++i) {
    Worker& worker = workers_[i];
    if (worker.heartbeat != heartbeats[i] || late) worker = {heartbeats[i], now};
  }
}

std::vector<std::size_t> Liveness::still_for(std::chrono::seconds time) const {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < workers_.size(); ++i)
    if (observed_ - workers_[i].moved >= time) list.push_back(i);
  return list;
}

std::string Liveness::complaint() const {
  std::string text;
  for (const std::size_t index : stuck())
    text += (text.empty() ? "" : ", ") + ("worker " + std::to_string(index) + " hangs");
  return text;
}

}  // namespace meshdns::dnsd
