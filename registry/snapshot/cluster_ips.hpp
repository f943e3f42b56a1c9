// SPDX-License-Identifier: Apache-2.0
// The cluster IPs of a Service that several clusters have, each with one of IPv4: a quarter of the
// memory of ServiceRecord::Details.  Most Services of such meshes differ in nothing else.
#pragma once

#include <array>
#include <cstddef>
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
  DetailsOwner(DetailsOwner&& other) noexcept : owned_(std::exchange(other.owned_, nullptr)) {}
  DetailsOwner& operator=(DetailsOwner&& other) noexcept {
    std::swap(owned_, other.owned_);
    return *this;
  }
  DetailsOwner& operator=(std::unique_ptr<const Details> details) {
    take(DetailsOwner(reinterpret_cast<const char*>(details.release())));
    return *this;
  }
  DetailsOwner& operator=(std::unique_ptr<const ClusterIps> ips) {
    const auto* const object = reinterpret_cast<const char*>(ips.release());
    take(DetailsOwner(object == nullptr ? nullptr : object + kMark));
    return *this;
  }
  ~DetailsOwner() {
    if (is_marked())
      delete cluster_ips();
    else
      delete get();
  }

  const Details* get() const {
    return is_marked() ? nullptr : reinterpret_cast<const Details*>(owned_);
  }
  // Null: none.
  const ClusterIps* cluster_ips() const {
    return is_marked() ? reinterpret_cast<const ClusterIps*>(owned_ - kMark) : nullptr;
  }
  explicit operator bool() const { return get() != nullptr; }
  const Details* operator->() const { return get(); }
  const Details& operator*() const { return *get(); }

 private:
  // Objects lie at even addresses; a pointer to the second octet of one is to ClusterIps.
  static constexpr std::ptrdiff_t kMark = 1;

  explicit DetailsOwner(const char* owned) : owned_(owned) {}
  bool is_marked() const { return reinterpret_cast<std::uintptr_t>(owned_) % 2 == kMark; }
  void take(DetailsOwner other) { std::swap(owned_, other.owned_); }

  const char* owned_ = nullptr;
};

}  // namespace meshdns::registry
