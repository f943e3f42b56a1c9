// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/upstream_follower.hpp"

#include <chrono>
#include <string>
#include <utility>

namespace meshdns::dnsd {
namespace {

constexpr std::chrono::milliseconds kResolvConfPoll{2'000};

}  // namespace

UpstreamConfig UpstreamFollower::select(std::span<const SocketAddress> listening,
                                        std::string& warning) {
  for (std::size_t i = 0; i < files_.size(); ++i) versions_[i] = FileVersion::of(files_[i]);
  return effective_upstream(config_, listening, &warning, files_);
}

void UpstreamFollower::choose(std::span<const SocketAddress> listening) {
  std::string warning;
  current_ = select(listening, warning);
  if (!warning.empty()) log_.warn(warning);
}

void UpstreamFollower::follow(std::span<const SocketAddress> listening) {
  std::string warning;
  UpstreamConfig next = select(listening, warning);
  if (!warning.empty()) log_.write_folded(LogLevel::Warn, warning);
  // A resolv.conf that is being rewritten may name no server for a moment: keep the known ones.
  if (next.servers.empty() && !current_.servers.empty() && config_.upstream.servers.empty())
    next.servers = current_.servers;
  current_ = std::move(next);
}

void UpstreamFollower::watch(uv_loop_t* loop, const std::function<void()>& on_change) {
  const auto on_file_change = [this, on_change] {
    if (config_.upstream.servers.empty()) on_change();
  };
  for (std::size_t i = 0; i < polls_.size(); ++i)
    start_or_log(polls_[i], loop, files_[i], kResolvConfPoll, versions_[i], on_file_change, log_);
}

void UpstreamFollower::stop() {
  for (FilePoll& poll : polls_) poll.close();
}

}  // namespace meshdns::dnsd
