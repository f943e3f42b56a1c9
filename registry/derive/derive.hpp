// SPDX-License-Identifier: Apache-2.0
// Derives a ServiceRecord from resources: the answer for one host in one namespace, with reasons.
// Control thread, during a commit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "registry/base/hash.hpp"
#include "registry/model/resources.hpp"
#include "registry/snapshot/endpoint_addresses.hpp"
#include "registry/snapshot/endpoint_place.hpp"
#include "registry/snapshot/service_record.hpp"
#include "registry/tables/tables.hpp"

namespace meshdns::registry {

// The large endpoint lists of the services that one commit derives, each stored once.  An entry
// with 256 hosts and 4,096 endpoints has one list instead of a million endpoints, and so have
// entries that select the same workloads.
// Control thread.
class EndpointLists {
 public:
  // `gateways`: as for addresses_of().
  explicit EndpointLists(Ref<const NetworkGateways> gateways) : gateways_(std::move(gateways)) {}
  const Ref<const NetworkGateways>& gateways() const { return gateways_; }

  // Completes the list with its index, or returns an equal one that it was given before.
  // `pod_names`: MeshSettings::endpoint_pod_names, the same in all calls.
  Ref<const EndpointList> complete(std::unique_ptr<EndpointList> list, bool pod_names);

  // The list that was kept for entries that are alike: those whose key_of() is the same.  Null:
  // none. An entry of another name and host with the same selector costs a look-up then, not a
  // list.
  static bool may_keep(const ServiceEntry& entry);
  // `distribution`: the effective one.
  static std::string key_of(const ServiceEntry& entry, TrafficDistribution distribution);
  Ref<const EndpointList> kept(const std::string& key) const;
  // Keeps the list for entries that are alike.  REQUIRES: may_keep(), and no endpoint was left out.
  void keep(std::string key, const Ref<const EndpointList>& list);
  // As addresses_of(list, gateways()); made once for a large list.  REQUIRES: complete() or kept()
  // returned it.
  EndpointAddresses addresses(const EndpointList& list);

 private:
  static constexpr std::size_t kMaxKeyOctets = std::size_t{8} << 20;

  const Ref<const NetworkGateways> gateways_;
  TextMap<Ref<const EndpointList>> alike_;
  std::size_t key_octets_ = 0;
  std::unordered_map<const EndpointList*, EndpointAddresses> addresses_;
  std::unordered_multimap<std::uint64_t, Ref<const EndpointList>> lists_;
};

// The tables that derive_record() reads, and what the records of one commit share.
struct DeriveContext {
  // REQUIRES: the tables outlive it.
  explicit DeriveContext(Tables& all) : tables(all), lists(all.networks.gateways()) {}

  Tables& tables;
  EndpointLists lists;
  PlaceTable places;
  // The host has been answered with endpoints before: names that are new to the set then join when
  // they resolve.  Otherwise the first answer waits for all of them.
  bool was_answered = false;
};

// `sources`: all resources that contribute to (ns, host), winners only, in any order.  REQUIRES:
// not empty.
Ref<const ServiceRecord> derive_record(const SymbolRef& ns, std::string_view host,
                                       std::span<const StoredRef> sources, DeriveContext& context);

}  // namespace meshdns::registry
