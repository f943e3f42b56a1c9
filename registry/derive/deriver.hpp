// SPDX-License-Identifier: Apache-2.0
// How derive_record() builds one record.  A part of derive.hpp; only registry/derive and its tests
// include it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "registry/base/hash.hpp"
#include "registry/derive/derive.hpp"
#include "registry/model/entry_endpoints.hpp"
#include "registry/snapshot/endpoint_addresses.hpp"
#include "registry/tables/decoded_resources.hpp"

namespace meshdns::registry {

// Objects of one kind, oldest first.
template <typename T>
using Stored = std::vector<std::pair<const T*, const DecodedResource*>>;

// The decoded sources of one record, oldest first within each kind.
struct Sources {
  std::vector<DecodedRef> items;

  template <typename T>
  Stored<T> all() const {
    Stored<T> found;
    for (const auto& item : items)
      if (const T* value = std::get_if<T>(&item->resource())) found.emplace_back(value, item.get());
    return found;
  }
};

Sources decode_sources(std::span<const StoredRef> stored, DecodedResources& decoded);

// The Services behind a name of the cluster set that several clusters export without an import
// (KEP-1645, "Constraints and Conflict Resolution").  Of Services that contradict each other, that
// of the oldest ServiceExport counts.
struct ExportedServices {
  Stored<KubeService> services;        // in the order of their exports
  std::vector<ServicePort> ports;      // of all of them, without those that contradict older ones
  std::vector<std::string> conflicts;  // what is left out, in words, for explanations
};

// `services`: those of the name in all clusters; the ones that no export names, or that cannot be
// exported, are left out.  The result refers to the same objects.
ExportedServices exported_services(const Stored<ServiceExport>& exports,
                                   const Stored<KubeService>& services);

// Builds one record, once: REQUIRES one call of run().
class Deriver {
 public:
  Deriver(const SymbolRef& ns, std::string_view host, DeriveContext& context)
      : ns_(ns),
        host_(host),
        context_(context),
        tables_(context.tables),
        settings_(*tables_.settings) {
    record_->ns = ns;
  }

  Ref<const ServiceRecord> run(std::span<const StoredRef> stored);

 private:
  using Details = ServiceRecord::Details;
  using Entries = Stored<ServiceEntry>;

  Ref<const ServiceRecord> derive(const Sources& sources);

  // --- Hosts that a client may see in part (derive_parts.cpp) ------------------------------------

  // Positions in `sources` of those that every client sees together: of a Kubernetes Service first,
  // then by the age of the oldest entry.
  struct PartList {
    std::vector<std::vector<std::size_t>> parts;  // fewer than two: there is one service
    std::vector<std::string> clusters;            // as ServiceParts::clusters()
    std::size_t left_out = 0;                     // entries beyond ServiceParts::kMaxParts
    std::size_t clusters_left_out = 0;            // those beyond kMaxClusters
  };
  // Clusters whose Services are told apart; clients of others get the Services of all.
  static constexpr std::size_t kMaxClusters = 64;
  bool differs_by_cluster(const Sources& sources) const;
  static void add_cluster_parts(const Sources& sources, PartList& result);
  void add_gateway_part(const Sources& sources, PartList& result) const;
  PartList parts_of(const Sources& sources) const;
  Ref<const ServiceRecord> merge_parts(const Sources& sources, const PartList& parts);

  // The Services whose own name the host is.
  Stored<KubeService> services_of(const Sources& sources) const;
  bool has_one_service(const Sources& sources) const;
  void keep_sources(const Sources& sources);

  Ref<const ServiceRecord> finish();
  // Null: the details say more.
  std::unique_ptr<const ClusterIps> cluster_ips();

  Details& details() {
    has_details_ = true;
    return details_;
  }

  void set_addresses(AddressSet set);

  void set_ports(const std::vector<ServicePort>& ports);

  // Null: everybody.
  Ref<const ExportSet> exports_of(const ExportTo& declared, Visibility narrowed) const;

  // MeshConfig.serviceEntryVisibility for this namespace.
  Visibility entry_visibility() const;

  // --- Kubernetes Services and what mirrors them (derive_service.cpp) ----------------------------

  void from_services(const Stored<KubeService>& services, const Stored<ServiceEntry>& decorators,
                     const Stored<EndpointSlice>& slices);

  // Removes Services of which nothing is known, and notes that.
  void leave_out_manifests(Stored<KubeService>& services);
  // Returns whether the Service answers anything.  CoreDNS skips one that does not, too; `check`
  // warns.  It leaves its name to the Services of other clusters, and else to nobody.
  static bool is_usable(const KubeService& service);
  // Returns the Services that one answer is made of.
  static Stored<KubeService> answering(Stored<KubeService> services);
  // Leaves out the slices of clusters whose Service is none of those that answer.
  static void leave_out_slices_of_others(const Stored<KubeService>& services,
                                         const Stored<KubeService>& answering,
                                         Stored<EndpointSlice>& slices);
  static bool is_headless(const Stored<KubeService>& services);
  static TrafficDistribution distribution_of(const Stored<KubeService>& services,
                                             const Stored<EndpointSlice>& slices);
  static std::vector<ServicePort> merged_ports(const Stored<KubeService>& services);

  void set_alias(const KubeService& service);
  void add_alias_target(const KubeService& service);

  void answer_cluster_ips(const Stored<KubeService>& services);
  // Returns the addresses of all clusters, and notes those of each, if there are several.
  using ClusterAddresses = std::pair<std::string_view, const std::vector<IpAddress>*>;
  AddressSet take_addresses(const std::vector<ClusterAddresses>& of_clusters);

  bool has_ready_endpoint() const;

  void answer_endpoints_of_headless();

  // EndpointSlices win over the Endpoints object of the same Service and cluster, which mirrors
  // them.
  void add_slices(const Stored<EndpointSlice>& slices, const Stored<KubeService>& services);
  // The WorkloadEntries that the selector of the Service selects.
  void add_selected_workloads(const KubeService& service, EndpointList& list);

  // `service`: that of the slice's cluster, or null.
  void add_slice(const EndpointSlice& slice, const KubeService* service, EndpointList& list);

  // In the cluster set, the name of an endpoint has the id of its cluster behind it ("db-0.east"),
  // if that is known and leaves the whole name short enough.
  void append_cluster_id(std::string_view cluster, EndpointEntry& entry) const;

  // The network and cluster of an endpoint, as its object says them.
  struct NetworkScope {
    std::string_view network;  // empty: the default, if it is inside
    std::string_view cluster;
    bool is_inside = true;  // false: of no network of the mesh
  };
  SymbolRef network_at(const NetworkScope& scope, const IpAddress& address) const {
    if (!scope.network.empty()) return tables_.symbols.intern(scope.network);
    return scope.is_inside ? tables_.networks.default_of(scope.cluster, address) : SymbolRef();
  }

  SymbolRef symbol_or_null(std::string_view text) const {
    return text.empty() ? SymbolRef() : tables_.symbols.intern(text);
  }

  // --- Near endpoints (derive_places.cpp) --------------------------------------------------------

  // Decides for the service by its own setting.  REQUIRED before its endpoints are added.
  void set_distribution(TrafficDistribution own);
  Ref<const EndpointPlace> place_of_endpoint(const Endpoint& endpoint);
  Ref<const EndpointPlace> place_of_spec(const WorkloadSpec& spec);
  Ref<const EndpointPlace> place_of_pod(const Pod& pod);
  // The rule for all of the list's endpoints.
  NearRule near_rule(const EndpointList& list) const;

  // The ready endpoints' addresses, for everybody and per network.
  void answer_endpoints();

  // `slices`: those that belong to the import.
  void from_imports(const Stored<ServiceImport>& imports, const Stored<EndpointSlice>& slices);

  // Without a controller that makes imports of them, exports speak for themselves: the name has
  // what the exporting clusters' Services have.
  void from_exports(const Stored<ServiceExport>& exports);

  // The objects that make the cluster domain's Service of that name.
  Sources sources_of_service(const ObjectMeta& meta) const;

  // --- Names of gateways (derive_gateway.cpp) --------------------------------------------------

  // Returns whether the object is a source of this host because it gives the name to a gateway.
  bool is_gateway_claim(const StoredResource& source) const;
  // Oldest first.
  std::vector<DecodedRef> gateway_claims(const Sources& sources) const;
  bool is_refused_gateway_name();
  // REQUIRES: not empty.
  void from_gateways(const std::vector<DecodedRef>& claims);
  StoredRef answering_claim_;

  // --- ServiceEntries and name tables (derive_entry.cpp) -----------------------------------------

  void from_name_table(const Stored<NameTableEntry>& names);

  void from_service_entries(const Entries& entries);

  // The claim for which the namespace may not say anything about this host.
  std::optional<Claim> refused_claim() const;

  // If there is one, the record holds its sources and answers nothing.
  bool is_refused_claim();

  static std::vector<ServicePort> entry_ports(const Entries& entries);

  // Returns whether the namespace may give its host this address.
  bool may_have(const IpAddress& address);

  // Returns whether the entry, rather than an older one, has that address of its status.
  bool keeps(const IpAddress& address, const StoredRef& entry);

  // The families of which the allocator gives a host its address.
  struct MissingVips {
    bool v4 = false;
    bool v6 = false;
  };
  // Returns both families for an entry without an address in its status, else those whose addresses
  // all belong to older entries.
  MissingVips add_status_addresses(const ServiceEntry& entry, const DecodedResource& decoded,
                                   AddressSetBuilder& addresses);

  bool answer_vips(const Entries& entries);

  bool gives_endpoints(const ServiceEntry& entry) const;

  void answer_entry_endpoints(const Entries& entries);

  // `with_names`: also the endpoints that are names, which the resolver engine then keeps resolved.
  void add_entry_endpoints(const Entries& entries, bool with_names);

  void add_endpoints_of(const ServiceEntry& entry, EndpointList& list);

  void add_pod(const Pod& pod, EndpointList& list);

  void add_spec(const EntryEndpoint& endpoint, const ServiceEntry& entry, EndpointList& list);

  // Adds a ready endpoint with subset_ and place_.  Valid until the next one is added.
  EndpointEntry& add_address(const IpAddress& ip, const NetworkScope& scope, EndpointList& list);

  // Keeps what the record tells of the name, besides its addresses.
  void note_resolved(const ResolvedName& name);

  void add_name(std::string_view name, const ServiceEntry& entry, std::uint32_t weight,
                const NetworkScope& scope, EndpointList& list);

  // The port numbers of an endpoint, by the names of the service's ports.
  using PortNumbers = std::vector<std::pair<std::string, std::uint16_t>>;
  static std::vector<ServicePort> ports_at(std::vector<ServicePort> ports, const PortNumbers& own);
  // The list's subset for endpoints that have the entry's ports with the numbers of `own`.
  std::uint16_t subset_of(const ServiceEntry& entry, const PortNumbers& own, EndpointList& list);

  // As above, for endpoints with ports of their own; within the limit of such ports.
  std::uint16_t own_subset_of(const ServiceEntry& entry, const PortNumbers& own,
                              EndpointList& list);

  // Notes an address or an endpoint that is left out, and why; the first ones.
  void note_left_out(std::string text);

  // Notes what the limits left out.
  void note_limits();

  const SymbolRef& ns_;
  const std::string_view host_;
  DeriveContext& context_;
  Tables& tables_;  // those of the context
  const MeshSettings& settings_;
  Ref<ServiceRecord> record_{new ServiceRecord};
  Details details_;
  bool has_details_ = false;
  std::uint16_t entry_subset_ = 0;  // of endpoints without ports of their own
  std::uint16_t subset_ = 0;        // of the endpoints that are added
  Ref<const EndpointPlace> place_;  // likewise
  TrafficDistribution distribution_ = TrafficDistribution::Any;
  std::unordered_map<const PortList*, std::uint16_t> subsets_;
  std::map<PortNumbers, std::uint16_t> own_subsets_;  // of the entry whose endpoints are added
  std::size_t own_ports_ = 0;           // in the lists of own_subsets_, of all entries
  std::size_t left_out_ = 0;            // addresses and endpoints, also beyond the notes
  std::size_t resolved_addresses_ = 0;  // those of names, also beyond the limit
  TextSet seen_names_;                  // those of details().resolved_names
  bool with_names_ = true;
  bool pending_ = false;
  bool failed_ = false;
  bool resolved_without_addresses_ = false;
};

}  // namespace meshdns::registry
