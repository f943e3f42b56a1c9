// SPDX-License-Identifier: Apache-2.0
// Derives a ServiceRecord from resources: the answer for one host in one namespace, with reasons.
//
// Pure functions of their arguments; the Registry decides when to call them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/model/name_owners.hpp"
#include "registry/model/resolved_name.hpp"
#include "registry/model/resources.hpp"
#include "registry/snapshot/endpoint_addresses.hpp"
#include "registry/snapshot/endpoint_place.hpp"
#include "registry/snapshot/port_table.hpp"
#include "registry/snapshot/service_record.hpp"
#include "registry/snapshot/symbol.hpp"
#include "registry/tables/decoded_resources.hpp"

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

struct GatewayAnswer;

// The parts of the registry that derive() uses.
struct DeriveContext {
  const MeshSettings* settings = nullptr;
  SymbolTable* symbols = nullptr;
  PortTable* ports = nullptr;
  EndpointLists* lists = nullptr;
  PlaceTable* places = nullptr;
  DecodedResources* decoded = nullptr;
  const NameOwners* owners = nullptr;  // filled with claims: strict only
  // The host has been answered with endpoints before: names that are new to the set then join when
  // they resolve.  Otherwise the first answer waits for all of them.
  bool was_answered = false;
  // The winning WorkloadEntries and Pods of a namespace that a workloadSelector selects, in an
  // order that does not depend on their arrival.
  std::function<void(const SymbolRef& ns, const Labels& selector,
                     const std::function<void(const Resource&)>&)>
      for_each_selected;
  // The WorkloadEntries of a namespace that the selector of a Service selects; Pods have slices.
  std::function<void(const SymbolRef& ns, const Labels& selector,
                     const std::function<void(const Resource&)>&)>
      for_each_selected_by_service;
  // The result for an endpoint name of the namespace; null when it is not resolved yet.
  std::function<const ResolvedName*(std::string_view ns, std::string_view name)> resolved;
  // The network of an address whose object and source name none; null: none.
  std::function<SymbolRef(std::string_view cluster, const IpAddress& address)> default_network;
  // The network that the label of the Pod with that name and address names; null: none.
  std::function<SymbolRef(std::string_view cluster, std::string_view ns, std::string_view pod,
                          const IpAddress& address)>
      network_of_pod;
  // Labels of a namespace, for serviceEntryVisibility; null when unknown.
  std::function<const Labels*(std::string_view ns)> namespace_labels;
  // The annotation of a Namespace; Unset without one.
  std::function<TrafficDistribution(std::string_view ns)> namespace_distribution;
  // Of a Node; empty when unknown.
  std::function<Locality(std::string_view cluster, std::string_view node)> locality_of_node;
  // The allocator's addresses for a host; empty when it has none.
  std::function<std::vector<IpAddress>(std::string_view ns, std::string_view host)> vips;
  // Whether the entry's host has an address of the entry's status, rather than an older entry.
  std::function<bool(const IpAddress& address, const StoredRef& entry, std::string_view host)>
      has_status_address;
  // Whether the host is the short name of a Service's member.
  std::function<bool(std::string_view host)> is_member;
  // The answer for a host that a source gives to a gateway; null: it does not.
  std::function<const GatewayAnswer*(const StoredResource& source, std::string_view host)>
      gateway_answer;
  // The sources of another host's record: a Service with its slices.
  std::function<void(std::string_view host, std::string_view ns,
                     const std::function<void(const StoredRef&)>&)>
      for_each_source;
};

// `sources`: all resources that contribute to (ns, host), winners only, in any order.  REQUIRES:
// not empty.
Ref<const ServiceRecord> derive_record(const SymbolRef& ns, std::string_view host,
                                       std::span<const StoredRef> sources,
                                       const DeriveContext& context);

}  // namespace meshdns::registry
