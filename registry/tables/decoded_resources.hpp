// SPDX-License-Identifier: Apache-2.0
// The decoded objects of one commit.  A ServiceEntry with 256 hosts contributes to as many records,
// and a workload to those of each entry that selects it: each is decoded once, not once for each of
// its records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/model/resources.hpp"
#include "registry/snapshot/stored_resource.hpp"

namespace meshdns::registry {

// A stored object and what it says.  Immutable; one thread, because the index is made when it is
// asked for.
class DecodedResource {
 public:
  explicit DecodedResource(const StoredRef& stored)
      : stored_(stored), resource_(stored->decode()) {}

  const StoredRef& stored() const { return stored_; }
  const Resource& resource() const { return resource_; }

  // For a ServiceEntry with many status addresses; logarithmic.  REQUIRES: it is one.
  // The positions of the host's status addresses, in their order.
  std::vector<std::uint32_t> statuses_of(std::string_view host) const;
  // Returns whether its status gives the host the address.
  bool gives(const IpAddress& address, std::string_view host) const;
  // The hosts that have the address by its status; "" stands for all.
  std::vector<std::string_view> hosts_with(const IpAddress& address) const;

 private:
  const std::vector<StatusAddress>& statuses() const;
  void make_index() const;

  const StoredRef stored_;
  const Resource resource_;
  mutable std::vector<std::string_view> hosts_;    // of the entry, sorted
  mutable std::vector<std::uint32_t> by_host_;     // positions, sorted by host and position
  mutable std::vector<std::uint32_t> by_address_;  // positions, sorted by address and host
};
using DecodedRef = std::shared_ptr<const DecodedResource>;

// Control thread.
class DecodedResources {
 public:
  // Memory that the kept objects use, more or less.  If more are in use at once, some are decoded
  // several times.
  static constexpr std::size_t kMaxOctets = std::size_t{32} << 20;

  // Decodes the object, or returns it as kept.  Objects that only one record uses are not kept.
  DecodedRef of(const StoredRef& stored);
  void clear();

 private:
  std::unordered_map<const StoredResource*, DecodedRef> kept_;
  std::size_t octets_ = 0;
};

}  // namespace meshdns::registry
