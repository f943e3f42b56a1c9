// SPDX-License-Identifier: Apache-2.0
// Finds addresses of ours whose queries go elsewhere: a hostPort of a Pod (a DNAT rule of the CNI
// plugin), kube-proxy in IPVS mode, a firewall, or a socket of another process.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dnsd/log/log.hpp"
#include "dnsd/net/reach_probes.hpp"

namespace meshdns::dnsd {

// Control thread.
class AddressReach {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Lost probes in a row, one a second, until an address is in trouble: longer than a worker may
  // stand still without a complaint.
  static constexpr unsigned kLost = 6;
  // The pause while all probes arrive.
  static constexpr std::chrono::seconds kPause{60};

  explicit AddressReach(Log& log) : log_(log) {}

  // For the workers.
  const std::shared_ptr<ReachProbes>& probes() const { return probes_; }

  // Call every second.  `listening`: for UDP.  `is_sure`: a probe that is lost is nobody else's
  // fault; false while workers stand still, the kernel drops queries, or another daemon has the
  // same sockets.
  void tick(Time now, std::span<const SocketAddress> listening, bool is_sure);

  // One line for each address.
  const std::vector<std::string>& troubles() const { return troubles_; }

 private:
  struct Target {
    SocketAddress address;
    unsigned lost = 0;
    std::string trouble;
  };

  void set_targets(std::span<const SocketAddress> listening);
  void read_arrived(bool is_sure);
  void note_lost(Target& target);

  Log& log_;
  const std::shared_ptr<ReachProbes> probes_ = std::make_shared<ReachProbes>();
  std::vector<SocketAddress> listening_;
  std::vector<Target> targets_;
  std::vector<std::string> troubles_;
  bool is_asked_ = false;  // probes are on their way
  Time due_{};
};

}  // namespace meshdns::dnsd
