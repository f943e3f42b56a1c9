// SPDX-License-Identifier: Apache-2.0
// Assigns addresses to hosts that have none (`mesh.auto_allocate`).  Control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "registry/base/ip_address.hpp"

namespace meshdns::registry {

// One host of one ServiceEntry that is to have a VIP.  Two entries of a namespace with the same
// host make two requests and get one VIP.
struct VipRequest {
  std::string ns;
  std::string host;
};

struct VipAssignment {
  std::string ns;
  std::string host;
  IpAddress v4;
  IpAddress v6;
  friend bool operator==(const VipAssignment&, const VipAssignment&) = default;
};

class VipAllocator {
 public:
  virtual ~VipAllocator() = default;
  // Assigns addresses to all of `requests`, which is the whole set that is eligible now, in
  // registry order (creation time, then "host.namespace").  `taken`: addresses that resources claim
  // themselves, never to be given out.  The result has one element per namespace and host that got
  // an address, any order.
  virtual std::vector<VipAssignment> assign(const std::vector<VipRequest>& requests,
                                            const std::vector<IpAddress>& taken) = 0;
};

// auto_allocate: off.
class NoVips final : public VipAllocator {
 public:
  std::vector<VipAssignment> assign(const std::vector<VipRequest>&,
                                    const std::vector<IpAddress>&) override {
    return {};
  }
};

// auto_allocate: hash.  Bit for bit Istio's own assignment in 240.240.0.0/16 and 2001:2::/48
// (docs/semantics-istio.md, "VIPs"), the order of its tries after a collision included.  Hosts of a
// namespace beyond its quota are left out, the youngest first, so that no namespace fills the pool.
class HashVips final : public VipAllocator {
 public:
  using Report = std::function<void(const std::string& message)>;
  // `namespace_quota`: 0 = no limit.  `report` hears when hosts stay without an address.
  explicit HashVips(std::uint32_t namespace_quota = 0, Report report = {})
      : namespace_quota_(namespace_quota), report_(std::move(report)) {}
  std::vector<VipAssignment> assign(const std::vector<VipRequest>& requests,
                                    const std::vector<IpAddress>& taken) override;

 private:
  // Returns the requests that are within the quotas and the pool, in order.
  std::vector<const VipRequest*> granted(const std::vector<VipRequest>& requests);

  const std::uint32_t namespace_quota_;
  const Report report_;
  bool said_full_ = false;
  bool said_over_quota_ = false;
};

}  // namespace meshdns::registry
