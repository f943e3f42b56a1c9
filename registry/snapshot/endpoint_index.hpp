// SPDX-License-Identifier: Apache-2.0
// Finds the endpoints of a large Service without a walk over all of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ip_address.hpp"

namespace meshdns::registry {

struct EndpointEntry;
class Symbol;

// The ready endpoints of one list, in an order in which those of one label are neighbours, and by
// address.  Made once with the list, immutable after that.  Entries are indices into the list.
class EndpointIndex {
 public:
  // Lists below this size have none: a walk costs less.
  static constexpr std::size_t kWorthwhile = 32;

  EndpointIndex() = default;
  // The index of a list that is large enough; else none.  `pod_names`: whether Pods' names
  // are labels (MeshSettings::endpoint_pod_names).
  static EndpointIndex of_large(std::span<const EndpointEntry> entries, bool pod_names);
  // The index of any list.
  EndpointIndex(std::span<const EndpointEntry> entries, bool pod_names);

  // False: go through the list instead.
  bool is_made() const { return is_made_; }

  // A label and one endpoint that has it.  Endpoints that differ in nothing that an answer shows
  // are here once.
  struct Named {
    std::uint32_t hash = 0;
    std::uint32_t entry = 0;
    std::uint32_t label_at = 0;
    std::uint8_t label_size = 0;
    bool has_dot = false;  // of a Pod's name: more than one label of DNS
    // That of the entry: long answers need not look at entries, which lie all over the memory.
    std::uint16_t subset = 0;
  };
  std::span<const Named> all() const { return named_; }
  std::span<const Named> named(std::string_view label) const;
  std::string_view label(const Named& named) const {
    return std::string_view(labels_).substr(named.label_at, named.label_size);
  }
  // Some label has more than one address.
  bool has_shared_labels() const { return has_shared_labels_; }

  // Ports and network of ready endpoints, each pair once, by ports.
  struct Kind {
    std::uint16_t subset = 0;
    const Symbol* network = nullptr;  // the entries hold it; null = reachable from every network
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };
  std::span<const Kind> kinds() const { return kinds_; }

  struct At {
    std::uint32_t hash = 0;
    std::uint32_t entry = 0;
  };
  // Entries that may have this address: hashes of it are equal.
  std::span<const At> at(const IpAddress& address) const;

 private:
  void put_labels_in_order();

  std::vector<Named> named_;  // by hash, label, address
  std::vector<At> at_;        // by hash
  std::vector<Kind> kinds_;
  std::string labels_;  // in the order of named_
  bool is_made_ = false;
  bool has_shared_labels_ = false;
};

}  // namespace meshdns::registry
