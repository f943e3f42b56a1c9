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
#include "registry/base/ip_address.hpp"
#include "registry/base/result.hpp"
#include "registry/tables/vip_allocator.hpp"

namespace meshdns::registry {

// The addresses from which VIPs are taken: a prefix of each family, counted in slots.  Slot 0 is
// the first address after the network's own; a slot means one address of each family.
// An immutable value; any thread.
class VipRange {
 public:
  // Host bits of the prefixes are ignored.  REQUIRES: an IPv4 and an IPv6 prefix.
  VipRange(const IpPrefix& v4, const IpPrefix& v6);

  // How many slots have an address in both prefixes.  The first and the last address of a prefix
  // are never given out, so /31, /32, /127 and /128 have no slot.  At most 2^24.
  std::uint32_t capacity() const { return capacity_; }
  // REQUIRES: `slot` is below the capacity.
  IpAddress v4_of(std::uint32_t slot) const { return address_of(v4_, slot); }
  IpAddress v6_of(std::uint32_t slot) const { return address_of(v6_, slot); }
  // The slot of an address of either family; nullopt for one that is never given out.
  std::optional<std::uint32_t> slot_of(const IpAddress& address) const;

  // "240.240.0.0/16 2001:2::/48", without host bits.
  std::string to_string() const { return v4_.to_string() + " " + v6_.to_string(); }
  const IpPrefix& v4() const { return v4_; }
  const IpPrefix& v6() const { return v6_; }
  friend bool operator==(const VipRange&, const VipRange&) = default;

 private:
  static IpAddress address_of(const IpPrefix& network, std::uint32_t slot);

  IpPrefix v4_;
  IpPrefix v6_;
  std::uint32_t capacity_;
};

// A set of slot numbers below a fixed bound that finds the next member quickly.
//
// Three levels of 64-bit words: a bit of an upper level says that the word below it is not zero.
// Each operation reads at most a few words, also when the set is nearly empty.  A linear search
// took 18.6 s for a full pool of 65,534 addresses.
// A value.  Memory: one bit for each slot and a little more.
class SlotSet {
 public:
  // Empty, for the slots 0 to `bound` - 1.
  explicit SlotSet(std::uint32_t bound);

  // REQUIRES of all: `slot` is below the bound.
  void insert(std::uint32_t slot);
  void erase(std::uint32_t slot);
  // The least member that is not below `slot`; else the least of all; nullopt when the set is
  // empty.
  std::optional<std::uint32_t> next_cyclic(std::uint32_t slot) const;

 private:
  using Words = std::vector<std::uint64_t>;
  std::optional<std::uint32_t> next(std::size_t level, std::uint32_t from) const;

  std::vector<Words> levels_;  // the last one has one word
};

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
