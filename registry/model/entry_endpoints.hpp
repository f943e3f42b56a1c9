// SPDX-License-Identifier: Apache-2.0
// The endpoints that ServiceEntries give a host: one selection for answers and for explanations of
// connections.  Pure functions; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "registry/model/resources.hpp"

namespace meshdns::registry {

// An endpoint as its object declares it.
struct EntryEndpoint {
  const Pod* pod = nullptr;            // a selected Pod that runs, or
  const WorkloadSpec* spec = nullptr;  // the entry's own or a WorkloadEntry's; both null: the host
  const ObjectMeta* workload = nullptr;  // of the WorkloadEntry; null: it is the entry's own
  bool healthy = true;                   // of a WorkloadEntry
};

// The form of an endpoint's address.
enum class Reached : std::uint8_t {
  ByAddress,
  ByName,    // which the resolver engine resolves
  BySocket,  // a Unix socket of the client's machine: no answer has it
};

// Visits the Pods and WorkloadEntries of the entry's namespace that the labels select.
using ForEachSelected =
    std::function<void(const Labels& selector, const std::function<void(const Resource&)>& visit)>;

// Returns whether the entry's endpoints may be names.
bool has_endpoint_names(const ServiceEntry& entry);

// Visits the endpoints that the entry gives its host: those that it selects, then its own, then, of
// a DNS entry with neither, the host itself.  REQUIRES: the objects of an endpoint are used during
// its visit only.
void for_each_endpoint(const ServiceEntry& entry, std::string_view host,
                       const ForEachSelected& for_each_selected,
                       const std::function<void(const EntryEndpoint&)>& visit);

// Returns whether that order has `a` first.  REQUIRES: Pods or WorkloadEntries.
bool precedes_as_endpoint(const Resource& a, const Resource& b);

// How the endpoint is reached; nullopt: not at all, and `why` (if not null) says the reason.
std::optional<Reached> reached(const WorkloadSpec& spec, const ServiceEntry& entry,
                               std::string* why = nullptr);

// Selects the entries of a host whose endpoints count, from entries in order of age: only the first
// one with DNS_ROUND_ROBIN, as in Istio.
class CountedEntries {
 public:
  bool counts(const ServiceEntry& entry);

 private:
  bool has_round_robin_ = false;
};

}  // namespace meshdns::registry
