// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/upgrade.hpp"

#include <span>
#include <string_view>
#include <utility>

#include "dnsd/mesh/configured_sources.hpp"

namespace meshdns::dnsd {

Upgrade::Upgrade(uv_loop_t* loop, const Config& config, const Phase& phase,
                 ServedAddresses& addresses, WorkerPool& workers, Log& log, Hooks hooks)
    : loop_(loop),
      config_(config),
      phase_(phase),
      addresses_(addresses),
      workers_(workers),
      log_(log),
      hooks_(std::move(hooks)),
      handover_(handover_hooks()) {}

// --- this daemon is the next one -----------------------------------------------------------------

void Upgrade::find_predecessor() {
  if (config_.server.handover.empty()) return;
  if (addresses_.are_inherited())
    return log_.warn(
        "server.handover is not used with sockets from systemd, which keep queries "
        "during a restart");
  auto found = Predecessor::find(config_.server.handover);
  if (!found)
    return log_.warn("cannot take over the sockets of the daemon that runs; opening new ones",
                     {{"handover", std::string_view(config_.server.handover)},
                      {"reason", std::string_view(found.error().message)}});
  if (!*found) return;
  predecessor_.emplace(*std::move(*found));
  log_.info("another daemon runs; it answers until this one has read all sources",
            {{"pid", predecessor_->pid()}});
}

std::optional<std::vector<HandedListener>> Upgrade::take_sockets() {
  auto handed = predecessor_->take(config_.server.listen);
  if (handed) return *std::move(handed);
  log_.warn("the daemon that ran does not hand over its sockets; opening new ones",
            {{"reason", std::string_view(handed.error().message)}});
  predecessor_.reset();
  return std::nullopt;
}

void Upgrade::replace_predecessor() {
  if (auto stopped = predecessor_->tell_serving(); !stopped)
    log_.warn("the other daemon does not say that it stops reading; both answer",
              {{"reason", std::string_view(stopped.error().message)}});
  log_.info("took over from the other daemon",
            {{"listen", std::string_view(joined(addresses_.addresses()))}});
  addresses_.replace_admin_of(predecessor_->pid());
  predecessor_->watch(loop_, [this] { on_predecessor_ended(); });
}

void Upgrade::on_predecessor_ended() {
  predecessor_.reset();
  log_.info("the daemon that this one has replaced has ended");
  if (phase_ != Phase::Serving) return;
  // First: a daemon that starts now would find nobody, and the addresses in use.
  listen_for_successor();
  hooks_.on_alone();
}

// --- this daemon is the one that runs ------------------------------------------------------------

Handover::Hooks Upgrade::handover_hooks() {
  return {.share =
              [this](std::span<const std::string> wanted) {
                log_.info("handing the sockets to the next daemon");
                return addresses_.listeners().share(wanted);
              },
          .on_serving = [this] { on_successor_serving(); },
          .on_lost = [this](bool has_served) { on_successor_lost(has_served); },
          .on_refused =
              [this](const std::string& reason) {
                log_.write_folded(LogLevel::Warn, "refused to hand the sockets over",
                                  {{"reason", std::string_view(reason)}});
              }};
}

// Not while the daemon before this one lives: three of them would share the sockets.
void Upgrade::listen_for_successor() {
  trouble_.clear();
  const std::string& path = config_.server.handover;
  if (path.empty() || addresses_.are_inherited()) return handover_.stop_listening();
  if (predecessor_ || handover_.successor_serves() || phase_ != Phase::Serving) return;
  auto listening = handover_.listen(loop_, path);
  if (listening) return;
  trouble_ = listening.error().message;
  log_.error("no later daemon can take over from this one",
             {{"reason", std::string_view(trouble_)}});
}

// The next daemon opens its admin endpoint at the ports of ours.
void Upgrade::on_successor_serving() {
  workers_.stop_reading();
  addresses_.leave_admin_ports();
  log_.info("the next daemon answers; this one waits for SIGTERM, and answers again if that ends");
  hooks_.on_successor_changed();
}

void Upgrade::on_successor_lost(bool has_served) {
  log_.warn(has_served ? "the next daemon has ended; answering again"
                       : "the next daemon ended before it answered; this one goes on");
  if (phase_ == Phase::Serving && has_served) {
    workers_.read_again();
    addresses_.bind();
    listen_for_successor();
  }
  hooks_.on_successor_changed();
}

}  // namespace meshdns::dnsd
