// SPDX-License-Identifier: Apache-2.0
// Collects addresses into an AddressSet: unique, in the order of their first appearance.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "registry/base/ip_address.hpp"
#include "registry/snapshot/service_record.hpp"

namespace meshdns::registry {

class AddressSetBuilder {
 public:
  // A duplicate address keeps its first weight: an answer has each address once
  // (docs/semantics-istio.md, "Addresses in answers").  The unspecified address is none.
  // False: it was there already, or is no address.
  bool add(const IpAddress& address, std::uint32_t weight = 1);
  bool empty() const { return set_.empty(); }
  AddressSet take();

 private:
  AddressSet set_;
  std::vector<std::uint32_t> v4_weights_;
  std::vector<std::uint32_t> v6_weights_;
  std::unordered_set<IpAddress> seen_;
  bool weighted_ = false;
};

}  // namespace meshdns::registry
