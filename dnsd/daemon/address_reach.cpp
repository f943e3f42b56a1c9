// SPDX-License-Identifier: Apache-2.0
#include "dnsd/daemon/address_reach.hpp"

#include <algorithm>
#include <utility>

#include "dnsd/config/resolv_conf.hpp"
#include "dnsd/net/open_socket.hpp"
#include "dnsd/net/port_owner.hpp"

namespace meshdns::dnsd {
namespace {

bool is_v6_link_local(const IpAddress& ip) {
  return ip.is_v6() && ip.octets()[0] == 0xfe && (ip.octets()[1] & 0xc0) == 0x80;
}

// The addresses that clients use: for a wildcard, those of this machine.
std::vector<SocketAddress> addresses_of(std::span<const SocketAddress> listening) {
  std::vector<SocketAddress> all;
  for (const SocketAddress& address : listening) {
    if (!address.ip.is_unspecified()) {
      all.push_back(address);
      continue;
    }
    for (const IpAddress& ip : local_addresses())
      if ((address.ip.is_v6() || ip.is_v4()) && !is_v6_link_local(ip))
        all.push_back({ip, address.port, ""});
  }
  if (all.size() > ReachProbes::kMaxAddresses) all.resize(ReachProbes::kMaxAddresses);
  return all;
}

std::string reason_for(const SocketAddress& address) {
  if (const auto other = other_owner(address, Protocol::Udp))
    return "process " + std::to_string(other->pid) + " (" + other->program + ") has the port, too";
  if (!is_on_this_machine(address)) return "no interface of this machine has the address";
  return "a rule of this machine takes them: the hostPort of a Pod, kube-proxy in IPVS mode, or a "
         "firewall";
}

}  // namespace

void AddressReach::tick(Time now, std::span<const SocketAddress> listening, bool is_sure) {
  if (!std::ranges::equal(listening, listening_)) {
    set_targets(listening);
    due_ = now;
  }
  if (std::exchange(is_asked_, false)) read_arrived(is_sure);
  const bool is_lost = std::ranges::any_of(targets_, [](const Target& t) { return t.lost > 0; });
  if (now < due_ && !is_lost) return;
  due_ = now + kPause;
  is_asked_ = is_sure;
  if (!is_sure) return;
  for (std::size_t i = 0; i < targets_.size(); ++i) probes_->send(targets_[i].address, i);
}

void AddressReach::set_targets(std::span<const SocketAddress> listening) {
  listening_.assign(listening.begin(), listening.end());
  targets_.clear();
  troubles_.clear();
  is_asked_ = false;
  for (SocketAddress& address : addresses_of(listening))
    targets_.push_back({std::move(address), 0, ""});
}

void AddressReach::read_arrived(bool is_sure) {
  const std::uint64_t arrived = probes_->take_arrived();
  troubles_.clear();
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    Target& target = targets_[i];
    if ((arrived >> i & 1) == 0) {
      if (is_sure) note_lost(target);
    } else {
      target.lost = 0;
      if (!std::exchange(target.trouble, "").empty())
        log_.info("queries reach an address again", {{"address", target.address.to_string()}});
    }
    if (!target.trouble.empty())
      troubles_.push_back("queries to " + target.address.to_string() +
                          " do not reach this daemon: " + target.trouble);
  }
}

void AddressReach::note_lost(Target& target) {
  if (++target.lost < kLost || !target.trouble.empty()) return;
  target.trouble = reason_for(target.address);
  log_.warn("queries to an address do not reach this daemon",
            {{"address", target.address.to_string()}, {"reason", target.trouble}});
}

}  // namespace meshdns::dnsd
