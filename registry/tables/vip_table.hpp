// SPDX-License-Identifier: Apache-2.0
// The virtual addresses of `mesh.auto_allocate`: the hosts that need one, the addresses that
// objects use, and the assignments of the allocator.
//
// Control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/model/resources.hpp"
#include "registry/tables/host_table.hpp"
#include "registry/tables/vip_allocator.hpp"

namespace meshdns::registry {

class VipTable {
 public:
  // Selects the allocator of the settings; a persistent one is set by set_allocator().  REQUIRES:
  // `settings` outlive the table.
  explicit VipTable(const MeshSettings& settings);

  void set_allocator(std::unique_ptr<VipAllocator> allocator);
  // For a table of other settings; this one is of no use after that.
  std::unique_ptr<VipAllocator> take_allocator() { return std::move(allocator_); }

  // An object is added (`add`) or removed: the allocator must not assign the addresses that the
  // object has.
  void claim(const Resource& resource, bool add);
  // A ServiceEntry with these hosts is added or removed; hosts without an address need one.
  void request(const ServiceEntry& entry, std::span<const std::string> hosts, bool add);

  // Assigns addresses if requests, claims or the allocator have changed.  Calls `changed` for each
  // host with other addresses.
  void assign(SymbolTable& symbols, const std::function<void(const HostKey&)>& changed);
  // Empty: the host has none.
  std::vector<IpAddress> addresses_of(const HostKey& host) const;
  // In no order.
  std::vector<VipAssignment> assignments() const;
  // Grows whenever assignments() has changed, and from `start` on.
  std::uint64_t changes() const { return changes_; }
  void count_changes_from(std::uint64_t start) { changes_ = start; }

 private:
  struct Request {
    std::int64_t creation_time;
    std::string host;
    std::string ns;
    // As Istio sorts services: by creation time, then by "host.namespace" as one text.
    bool operator<(const Request& other) const {
      if (creation_time != other.creation_time) return creation_time < other.creation_time;
      if (host == other.host) return ns < other.ns;
      return host + "." + ns < other.host + "." + other.ns;
    }
  };

  static std::uint64_t digest(const Request& request);
  bool is_off() const { return settings_.auto_allocate == AutoAllocate::Off; }

  const MeshSettings& settings_;
  std::unique_ptr<VipAllocator> allocator_;
  std::map<Request, std::uint32_t> requests_;  // by how many ServiceEntries
  std::map<IpAddress, std::uint32_t> claims_;  // in the ranges, by how many objects
  std::unordered_map<HostKey, std::vector<IpAddress>, HostKeyHash> assigned_;
  // The sum of the hashes of all requests and claims.  If an object is replaced by one with the
  // same requests, the sum does not change, and no new assignment is needed.
  std::uint64_t demand_ = 0;
  std::uint64_t demand_served_ = 0;  // at the last assignment
  bool has_new_allocator_ = false;
  std::uint64_t changes_ = 0;
};

}  // namespace meshdns::registry
