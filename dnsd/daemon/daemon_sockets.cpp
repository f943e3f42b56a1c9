// SPDX-License-Identifier: Apache-2.0
// The sockets that a daemon listens on: at its start, in an upgrade from one daemon to the next,
// and after a reload.
#include <thread>

#include "dnsd/admin/listening_socket.hpp"
#include "dnsd/daemon/daemon.hpp"
#include "dnsd/daemon/daemon_shared.hpp"

namespace meshdns::dnsd {
namespace {

// The interval of tries to bind an address that is in use: its other user may be about to end.
constexpr std::chrono::seconds kBindAgain{5};
// The time that a start waits for an address that another process has: the daemon that this one
// replaces may be draining its queries.
constexpr std::chrono::seconds kBindWait{3};
constexpr std::chrono::milliseconds kBindRetry{50};
// The interval at which a start looks whether the daemon that it replaces still lives.
constexpr std::chrono::milliseconds kPredecessorPoll{50};

// All addresses that cannot be used, so that a person sees every conflict at once: with another
// daemon on the ports for DNS, the port of the admin endpoint is often taken, too.
Error all_of(const std::vector<Error>& failures, const std::optional<AdminAddress>& admin) {
  std::string text;
  for (const Error& failure : failures) text += (text.empty() ? "" : "; and ") + failure.message;
  if (admin && std::holds_alternative<SocketAddress>(*admin))
    if (const auto opened = ListeningSocket::open(*admin, 1); !opened)
      text += "; and admin.listen: " + opened.error().message;
  return {std::move(text)};
}

}  // namespace

Result<void> Daemon::open_listeners() {
  auto inherited = ListenerSet::adopt(std::move(activated_), worker_count(config_.server));
  if (!inherited) return std::unexpected(inherited.error());
  return open_beside(*inherited);
}

// Opens what the configuration has and `present` has not.
Result<void> Daemon::open_beside(const ListenerSet& present) {
  auto change = present.change_to(config_.server.listen);
  if (change.is_in_use) {
    log_.warn("waiting for another process to release an address",
              {{"reason", change.failures.front().message}});
    bind_until_ = std::chrono::steady_clock::now() + kBindWait;
  }
  while (change.is_in_use && may_wait_to_bind()) change = present.change_to(config_.server.listen);
  if (!change.failures.empty())
    return std::unexpected(all_of(change.failures, config_.admin.listen));
  listeners_ = std::move(change.set);
  choose_upstream(listeners_.addresses());
  return {};
}

void Daemon::choose_upstream(std::span<const SocketAddress> listening) {
  std::string warning;
  upstream_ = effective_upstream(config_, listening, &warning);
  if (!warning.empty()) log_.warn(warning);
}

// Waits a moment.  False: the time is up, or the process is to end.
bool Daemon::may_wait_to_bind() const {
  if (std::chrono::steady_clock::now() >= bind_until_ || is_end_pending()) return false;
  std::this_thread::sleep_for(kBindRetry);
  return true;
}

// Those of the configuration; what cannot be bound is said once, and tried again.
void Daemon::bind() {
  if (handover_.successor_serves()) return;  // the addresses are its own
  const std::vector<std::string> said = std::exchange(unbound_, {});
  apply_listeners();
  for (const auto& opened :
       {admin_.serve_at(config_.admin.listen), metrics_.serve_at(config_.admin.metrics_listen)})
    if (!opened) unbound_.push_back(opened.error().message);
  for (const auto& failure : unbound_)
    if (std::ranges::find(said, failure) == said.end()) log_.error(failure);
  bind_again_at_ = std::chrono::steady_clock::now() + kBindAgain;
  publish_health();
}

void Daemon::apply_listeners() {
  auto change = listeners_.change_to(config_.server.listen);
  for (const auto& failure : change.failures) unbound_.push_back(failure.message);
  if (change.opened.empty() && change.closed.empty()) return;
  if (!change.opened.empty()) log_.info("listening", {{"address", joined(change.opened)}});
  if (!change.closed.empty())
    log_.info("no longer listening", {{"address", joined(change.closed)}});
  listeners_ = change.set;
  workers_.change_listeners(listeners_);
}

// --- upgrades: this daemon is the next one -------------------------------------------------------

// Every trouble with it is said once, and followed by a start without it, which fails if the
// addresses are in use.
void Daemon::find_predecessor() {
  if (config_.server.handover.empty()) return;
  if (!activated_.empty())
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

// No limit: the other daemon answers meanwhile.
void Daemon::wait_beside_predecessor() {
  bool is_told = false;
  loop::Timer timer(&loop_, [] {});
  timer.repeat(kPredecessorPoll);
  while (!sources_.are_complete() && !predecessor_->has_ended() && !is_end_pending()) {
    uv_run(&loop_, UV_RUN_ONCE);
    if (is_told || std::chrono::steady_clock::now() - started_ < kServingAnyway) continue;
    is_told = true;
    log_.warn("still reading the sources; the other daemon answers meanwhile",
              {{"reason", first_reason(readiness())}});
  }
}

Result<void> Daemon::take_over_listeners() {
  if (is_end_pending()) return fail("told to end before the sockets were taken over");
  auto handed = predecessor_->take(config_.server.listen);
  if (!handed) {
    log_.warn("the daemon that ran does not hand over its sockets; opening new ones",
              {{"reason", std::string_view(handed.error().message)}});
    predecessor_.reset();
    follow_state_dir();
    return open_listeners();
  }
  auto taken = ListenerSet::take_over(*std::move(handed), worker_count(config_.server));
  if (!taken) return std::unexpected(taken.error());
  const std::size_t missing = config_.server.listen.size() - taken->listeners().size();
  if (missing > 0)
    log_.warn("the other daemon listens on other addresses; opening those that it does not have",
              {{"listen", std::string_view(joined(config_.server.listen))},
               {"handed_over", std::string_view(joined(taken->addresses()))}});
  return open_beside(*taken);
}

// From here on this daemon answers.
void Daemon::replace_predecessor() {
  if (auto stopped = predecessor_->tell_serving(); !stopped)
    log_.warn("the other daemon does not say that it stops reading; both answer",
              {{"reason", std::string_view(stopped.error().message)}});
  log_.info("took over from the other daemon",
            {{"listen", std::string_view(joined(listeners_.addresses()))}});
  bind_until_ = std::chrono::steady_clock::now() + kBindWait;  // for its admin address
  predecessor_->watch(&loop_, [this] { on_predecessor_ended(); });
}

void Daemon::on_predecessor_ended() {
  predecessor_.reset();
  log_.info("the daemon that this one has replaced has ended");
  if (phase_ != Phase::Serving) return;
  follow_state_dir();
  listen_for_successor();
}

// --- upgrades: this daemon is the one that runs --------------------------------------------------

Handover::Hooks Daemon::handover_hooks() {
  return {.share =
              [this](std::span<const std::string> wanted) {
                log_.info("handing the sockets to the next daemon");
                return listeners_.share(wanted);
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
void Daemon::listen_for_successor() {
  handover_trouble_.clear();
  const std::string& path = config_.server.handover;
  if (path.empty() || is_activated_) return handover_.stop_listening();
  if (predecessor_ || handover_.successor_serves() || phase_ != Phase::Serving) return;
  auto listening = handover_.listen(&loop_, path);
  if (listening) return;
  handover_trouble_ = listening.error().message;
  log_.error("no later daemon can take over from this one",
             {{"reason", std::string_view(handover_trouble_)}});
}

// The next daemon opens its admin endpoint at the address of ours.
void Daemon::on_successor_serving() {
  workers_.stop_reading();
  admin_.close();
  metrics_.close();
  log_.info("the next daemon answers; this one waits for SIGTERM, and answers again if that ends");
  if (phase_ == Phase::Lameduck) drain_workers();
}

void Daemon::on_successor_lost(bool has_served) {
  log_.warn(has_served ? "the next daemon has ended; answering again"
                       : "the next daemon ended before it answered; this one goes on");
  if (phase_ == Phase::Lameduck) return drain_workers();
  if (phase_ != Phase::Serving || !has_served) return;
  workers_.read_again();
  bind();
  listen_for_successor();
}

}  // namespace meshdns::dnsd
