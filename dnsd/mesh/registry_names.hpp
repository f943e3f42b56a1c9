// SPDX-License-Identifier: Apache-2.0
// Resolves endpoint names inside the mesh: as clients' queries are, for a client of the namespace
// that has no labels, network or cluster.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dnsd/answer/decision.hpp"
#include "dnsd/answer/local_names.hpp"
#include "registry/registry.hpp"
#include "resolver/cache/cached_message.hpp"
#include "resolver/names/lookup.hpp"

namespace meshdns::dnsd {

// Control thread.
class RegistryNames final : public resolver::MeshNames {
 public:
  // REQUIRES: outlives it.
  explicit RegistryNames(registry::Registry& registry) : registry_(registry) {}

  // The names of the hosts file and the overrides from now on; null = none.
  void set_local(std::shared_ptr<const LocalNames> local) { local_ = std::move(local); }

  // As if the services of the namespace that have `host` among their endpoints did not exist. Names
  // of the cluster domain are not looked up outside where meshdns is authoritative for it.
  resolver::MeshAnswer find(std::string_view ns, std::string_view host,
                            std::string_view name) override;
  std::vector<std::string> names_of(std::string_view ns) const override {
    return registry_.endpoint_names_of(ns);
  }
  std::vector<std::string> namespaces() const override {
    return registry_.namespaces_with_endpoint_names();
  }

  // A client of the namespace, with its default Sidecar, for a lookup.  One for each lookup, while
  // results of others are committed, would cost as much as the Sidecar is long: it may be a second
  // old, but not older than the last find() for the namespace.  Valid until the next call.
  const registry::Client& client_for_lookup(std::string_view ns, Millis now);

 private:
  struct KnownClient {
    Ref<const registry::Client> client;
    std::uint64_t generation = 0;  // of the snapshot that it was made for
    Millis old_at = 0;             // for a lookup; 0 = none has used it
  };
  KnownClient& client_of(std::string_view ns);
  registry::Registry& registry_;
  std::shared_ptr<const LocalNames> local_;
  std::map<std::string, KnownClient, std::less<>> clients_;
};

}  // namespace meshdns::dnsd
