// auto_allocate: persistent.  A VIP, once given to a host, is never moved: not by other hosts
// coming or going, not by a restart.
//
// Places come from a hash of namespace and host, so that two fresh nodes with the same resources
// agree; where two hosts collide, the older takes the place and the next free one is recorded for
// the other.  The record is on disk (written whole, fsync, rename, checksum) before assign()
// returns, hence before any client hears of an address.  A released address is nobody else's for
// `quarantine`, in which caches forget it; its host gets it back whenever it is still free.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "registry/base/result.hpp"
#include "registry/vip/vip_allocator.hpp"

namespace meshdns::registry {

struct PersistentVipOptions {
  IpPrefix v4 = *IpPrefix::parse("240.240.0.0/16");
  IpPrefix v6 = *IpPrefix::parse("2001:2::/48");
  std::string file;                      // empty = nothing is kept over a restart
  std::chrono::seconds quarantine{300};  // ten TTLs
  std::function<std::int64_t()> clock;   // Unix seconds
  // What an operator should know: a file that was set aside, a range that is full, a write that
  // failed.
  std::function<void(const std::string& message)> report;
};

class PersistentVips final : public VipAllocator {
 public:
  // Reads the file.  One that is damaged or foreign is renamed to FILE.bad-SECONDS and said.
  // REQUIRES: `options.clock` and `options.report` are set.
  explicit PersistentVips(PersistentVipOptions options);

  std::vector<VipAssignment> assign(const std::vector<VipRequest>& requests,
                                    const std::vector<IpAddress>& taken) override;

 private:
  using Key = std::string;  // "namespace/host"
  struct Place {
    std::uint32_t slot = 0;
    std::int64_t released = 0;  // Unix seconds; 0 = in use
    friend bool operator==(const Place&, const Place&) = default;
  };

  void read_file();
  Result<void> write_file() const;
  bool parse(const std::string& text);
  std::string print() const;
  bool is_free(std::uint32_t slot, const Key& key, std::int64_t now) const;
  bool place(const Key& key, std::int64_t now);
  IpAddress v4_of(std::uint32_t slot) const;
  IpAddress v6_of(std::uint32_t slot) const;

  const PersistentVipOptions options_;
  const std::uint32_t capacity_;
  std::map<Key, Place> places_;                      // in use and released
  std::unordered_map<std::uint32_t, Key> by_slot_;   // the last owner of each slot
  std::unordered_map<std::uint32_t, bool> claimed_;  // slots whose address a resource claims itself
  bool said_full_ = false;
};

}  // namespace meshdns::registry
