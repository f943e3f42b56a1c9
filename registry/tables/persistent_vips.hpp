// SPDX-License-Identifier: Apache-2.0
// auto_allocate: persistent.  An assigned VIP never moves, neither when other hosts are added or
// removed nor after a restart.  The only exception is a resource that claims the same address.
//
// Places come from a hash of namespace and host, so that two fresh nodes with the same resources
// agree; where two hosts collide, the older takes the place and the next free one is recorded for
// the other.  The record is on disk (written whole, fsync, rename, checksum) before assign()
// returns, hence before any client gets an address.  A released address is not assigned
// to other hosts for `quarantine`, until caches have dropped it.  Later its host gets it back
// unless another host needed it; slots that were never used are assigned first.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/base/result.hpp"
#include "registry/tables/slot_set.hpp"
#include "registry/tables/vip_allocator.hpp"
#include "registry/tables/vip_range.hpp"

namespace meshdns::registry {

struct PersistentVipOptions {
  IpPrefix v4 = *IpPrefix::parse("240.240.0.0/16");
  IpPrefix v6 = *IpPrefix::parse("2001:2::/48");
  // Most addresses that the hosts of one namespace hold, those in quarantine included, so that no
  // namespace can take the whole range; 0 = no limit.  A lower limit takes no address away.
  std::uint32_t namespace_quota = 16384;
  std::string file;                      // empty = nothing survives a restart
  std::chrono::seconds quarantine{300};  // ten TTLs
  std::function<std::int64_t()> clock;   // Unix seconds
  // Receives messages for the operator: a renamed damaged file, a range without free addresses, a
  // failed write.
  std::function<void(const std::string& message)> report;
};

// Control thread.  A change costs time linear in the number of hosts, also when the range is full.
class PersistentVips final : public VipAllocator {
 public:
  // Reads the file.  If it cannot be read, is damaged or belongs to another program, no address is
  // assigned and the file does not change: new addresses would lead clients that still use the old
  // ones to other hosts.  The problem is reported, and trouble() has the reason.
  // Addresses outside the (changed) range are dropped.
  // REQUIRES: `options.clock` and `options.report` are set.
  explicit PersistentVips(PersistentVipOptions options);

  std::vector<VipAssignment> assign(const std::vector<VipRequest>& requests,
                                    const std::vector<IpAddress>& taken) override;

  // The reason why no addresses are assigned, with the remedy; empty: they are.
  const std::string& trouble() const { return trouble_; }

 private:
  using Key = std::string;  // "namespace/host"
  struct Place {
    std::uint32_t slot = 0;
    std::int64_t released = 0;  // Unix seconds; 0 = in use
    // The quarantine is over: others may take the slot, the host only remembers it.
    bool is_remembered = false;
    std::uint64_t round = 0;  // the last assign() that asked for it
  };
  using Places = TextMap<Place>;
  // Why hosts stay without an address.
  struct Shortage {
    std::size_t full = 0;
    std::size_t over_quota = 0;
    std::string ns;  // the first one over its quota
  };

  Result<void> read_file();
  Result<void> write_file() const;
  bool parse(const std::string& text);
  void restore(const Key& key, std::uint32_t slot, std::int64_t released);
  std::string print() const;
  void forget_all();

  void end_quarantines(std::int64_t now);
  void set_claims(const std::vector<IpAddress>& taken, std::int64_t now);
  void release_unwanted(std::int64_t now);
  bool take_back(const Key& key, Place& place);
  const Place* place_newcomer(const Key& key, std::string_view ns, Shortage& shortage);
  std::optional<std::uint32_t> find_slot(const Key& key) const;
  bool is_over_quota(std::string_view ns) const;
  void count(const Key& key, int difference);
  void offer(std::uint32_t slot);
  void withdraw(std::uint32_t slot);
  void drop(Places::iterator place);
  void abandon(Places::iterator place, std::int64_t now);
  void report_shortage(const Shortage& shortage);

  const PersistentVipOptions options_;
  std::string trouble_;
  const VipRange range_;
  Places places_;                                   // in use, in quarantine, and remembered
  std::unordered_map<std::uint32_t, Key> by_slot_;  // whose place each slot is
  std::set<std::pair<std::int64_t, Key>> quarantine_;
  TextMap<std::uint32_t> held_;                // by namespace, without what is remembered
  std::unordered_set<std::uint32_t> claimed_;  // slots whose address a resource claims itself
  SlotSet unused_;                             // free slots that no host remembers
  SlotSet remembered_;                         // free slots that a host would take back
  std::uint64_t round_ = 0;
  bool is_changed_ = false;  // since the file was written
  bool said_full_ = false;
  bool said_over_quota_ = false;
};

}  // namespace meshdns::registry
