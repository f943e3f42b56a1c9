// SPDX-License-Identifier: Apache-2.0
// The object that identifies the client of a source address (rows Identity* of the claim rules).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/base/ref.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {

// Returns whether WorkloadEntries of `ns` may speak; "*" in the list stands for every namespace.
bool is_listed(std::string_view ns, const std::vector<std::string>& workload_entry_namespaces);

// The result of choose_speaker().
struct AddressSpeaker {
  const Resource* object = nullptr;  // one of the arguments; null = no client
  std::string why;                   // for operators
};

// `objects`: the Pods and WorkloadEntries that have the address, each once, in any order.  The
// result depends on the set alone.
//
// A running Pod speaks.  Without one the Pod speaks that still holds the address because it
// terminates or its node does not report (phase Unknown); of several the youngest, since the
// address has passed on to it.  Addresses of nodes, which Pods of the host network share, have no
// speaker; nor do addresses that two running Pods have, for example of clusters whose networks
// overlap.  Where no Pod has the address, the oldest WorkloadEntry speaks of those in
// `workload_entry_namespaces` ("*" = all).
AddressSpeaker choose_speaker(std::span<const Resource> objects,
                              const std::vector<std::string>& workload_entry_namespaces);

}  // namespace meshdns::registry
