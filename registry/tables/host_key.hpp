// SPDX-License-Identifier: Apache-2.0
// A host in one namespace: the key of a record.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "registry/base/hash.hpp"
#include "registry/snapshot/symbol.hpp"

namespace meshdns::registry {

// The order is that of the namespaces' symbols, not of their names: the hosts of one namespace are
// neighbours.
struct HostKey {
  SymbolRef ns;
  std::string host;
  friend bool operator<(const HostKey& a, const HostKey& b) {
    return a.ns.get() != b.ns.get() ? a.ns.get() < b.ns.get() : a.host < b.host;
  }
  friend bool operator==(const HostKey& a, const HostKey& b) {
    return a.ns.get() == b.ns.get() && a.host == b.host;
  }
};

struct HostKeyHash {
  std::size_t operator()(const HostKey& key) const {
    return hash_bytes(key.host) ^ reinterpret_cast<std::uintptr_t>(key.ns.get());
  }
};

inline bool is_wildcard(std::string_view host) { return host.starts_with("*."); }

}  // namespace meshdns::registry
