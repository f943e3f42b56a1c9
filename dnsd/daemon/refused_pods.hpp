// SPDX-License-Identifier: Apache-2.0
// Finds Pods whose queries server.allow refuses.  By default it has no public addresses, and Pods
// of some clusters have such addresses.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::dnsd {

// Control thread.
class RefusedPods {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // The pause between two looks at many clients: one at 100,000 takes 20 ms.
  static constexpr std::chrono::seconds kPause{60};

  // Call every second or so.  Looks at the Pods of `snapshot` if they or `allow` have changed.
  void observe(const registry::Snapshot& snapshot, const std::vector<IpPrefix>& allow, Time now);

  // How many are refused, the first of them, and a range that has it and its neighbours; empty:
  // none.
  const std::string& trouble() const { return trouble_; }

 private:
  struct Found {
    std::size_t count = 0;
    std::string first;  // "Pod shop/web-1 at 203.0.113.7"
    IpPrefix range;
  };
  static std::string describe(const Found& found);
  static Found find(const registry::Snapshot& snapshot, const std::vector<IpPrefix>& allow);

  std::string trouble_;
  std::optional<std::uint64_t> generation_;  // of the last snapshot that was looked at
  std::vector<IpPrefix> allow_;              // as of then
  Time look_again_at_{};
};

}  // namespace meshdns::dnsd
