// SPDX-License-Identifier: Apache-2.0
// The cluster IPs of a Service that several clusters have, each with one of IPv4: a quarter of the
// memory of ServiceRecord::Details.  Most Services of such meshes differ in nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "registry/base/ref.hpp"
#include "registry/snapshot/stored_resource.hpp"
#include "registry/snapshot/symbol.hpp"

namespace meshdns::registry {

// Immutable.
struct ClusterIps {
  using Octets = std::array<std::uint8_t, 4>;

  std::vector<StoredRef> more_sources;  // beyond the first, as in ServiceRecord::Details
  std::vector<SymbolRef> clusters;      // each once
  std::vector<Octets> v4;               // of each cluster, each once

  // The address for clients of that cluster; those of all clusters if it has none.
  std::span<const Octets> of(const Symbol* cluster) const {
    for (std::size_t i = 0; i < clusters.size(); ++i)
      if (clusters[i].get() == cluster) return std::span(v4).subspan(i, 1);
    return v4;
  }
};

// Owns the details of a service, or the ClusterIps that take their place, or nothing; in the size
// of a pointer.  As a pointer, it is one to the details.
template <typename Details>
class DetailsOwner {
 public:
  DetailsOwner() = default;
  DetailsOwner(DetailsOwner&& other) noexcept : bits_(std::exchange(other.bits_, 0)) {}
  DetailsOwner& operator=(DetailsOwner&& other) noexcept {
    std::swap(bits_, other.bits_);
    return *this;
  }
  DetailsOwner& operator=(std::unique_ptr<const Details> details) {
    return *this = DetailsOwner(reinterpret_cast<std::uintptr_t>(details.release()));
  }
  DetailsOwner& operator=(std::unique_ptr<const ClusterIps> ips) {
    return *this = DetailsOwner(reinterpret_cast<std::uintptr_t>(ips.release()) | kIsClusterIps);
  }
  ~DetailsOwner() {
    delete get();
    delete cluster_ips();
  }

  const Details* get() const {
    return (bits_ & kIsClusterIps) != 0 ? nullptr : reinterpret_cast<const Details*>(bits_);
  }
  // Null: none.
  const ClusterIps* cluster_ips() const {
    return (bits_ & kIsClusterIps) == 0
               ? nullptr
               : reinterpret_cast<const ClusterIps*>(bits_ & ~kIsClusterIps);
  }
  explicit operator bool() const { return get() != nullptr; }
  const Details* operator->() const { return get(); }
  const Details& operator*() const { return *get(); }

 private:
  static constexpr std::uintptr_t kIsClusterIps = 1;
  explicit DetailsOwner(std::uintptr_t bits) : bits_(bits) {}

  std::uintptr_t bits_ = 0;
};

}  // namespace meshdns::registry
