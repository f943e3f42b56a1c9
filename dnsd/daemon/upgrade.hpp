// SPDX-License-Identifier: Apache-2.0
// The upgrade from one daemon to the next, from both sides: this daemon as the next one, which
// takes over the sockets of the one that runs, and this daemon as the one that runs.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dnsd/config/config.hpp"
#include "dnsd/daemon/served_addresses.hpp"
#include "dnsd/daemon/worker_pool.hpp"
#include "dnsd/log/log.hpp"
#include "dnsd/net/handover.hpp"

namespace meshdns::dnsd {

// The daemon's life after its start.  Lameduck: it has been told to stop, says so to health checks,
// and still answers new queries.  Draining: it answers only the queries that it has.
enum class Phase : std::uint8_t { Serving, Lameduck, Draining };

// Control thread.
class Upgrade {
 public:
  struct Hooks {
    // The daemon before this one has ended, while this one serves: its files are free.
    std::function<void()> on_alone;
    // The next daemon answers in place of this one, or has ended.  The sockets and the workers of
    // this one have been told.
    std::function<void()> on_successor_changed;
  };
  // REQUIRES: all outlive it.
  Upgrade(uv_loop_t* loop, const Config& config, const Phase& phase, ServedAddresses& addresses,
          WorkerPool& workers, Log& log, Hooks hooks);

  // --- this daemon as the next one

  // Looks for a daemon that can hand over its sockets.  Every trouble with it is logged once, and
  // followed by a start without it, which fails if the addresses are in use.
  void find_predecessor();
  // Returns whether a daemon lives that has the same sockets, or is to give them.
  bool has_predecessor() const { return predecessor_.has_value(); }
  bool has_predecessor_ended() const { return predecessor_->has_ended(); }
  // Its sockets; nullopt: it does not hand them over, and counts no more.  REQUIRES:
  // has_predecessor().
  std::optional<std::vector<HandedListener>> take_sockets();
  // From here on this daemon answers.  REQUIRES: has_predecessor(), and the workers run.
  void replace_predecessor();
  // It answers again as soon as it hears of that.
  void leave_to_predecessor() { predecessor_.reset(); }

  // --- this daemon as the one that runs

  // Waits for the next daemon where the configuration says so now.
  void listen_for_successor();
  bool has_successor() const { return handover_.has_successor(); }
  bool successor_serves() const { return handover_.successor_serves(); }
  // Why no later daemon can take over from this one; empty if one can.
  const std::string& trouble() const { return trouble_; }
  // Ends all calls.
  void stop() { handover_.stop(); }

 private:
  Handover::Hooks handover_hooks();
  void on_predecessor_ended();
  void on_successor_serving();
  void on_successor_lost(bool has_served);

  uv_loop_t* loop_;
  const Config& config_;
  const Phase& phase_;
  ServedAddresses& addresses_;
  WorkerPool& workers_;
  Log& log_;
  const Hooks hooks_;
  Handover handover_;
  std::optional<Predecessor> predecessor_;
  std::string trouble_;
};

}  // namespace meshdns::dnsd
