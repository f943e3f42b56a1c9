// SPDX-License-Identifier: Apache-2.0
// One host of one namespace in a snapshot: the merged service from which queries are answered.
// Immutable; any thread; lives as long as a snapshot that contains it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/base/ref.hpp"
#include "registry/model/resources.hpp"
#include "registry/snapshot/endpoint_index.hpp"
#include "registry/snapshot/endpoint_place.hpp"
#include "registry/snapshot/service_parts.hpp"
#include "registry/snapshot/stored_resource.hpp"
#include "registry/snapshot/symbol.hpp"

namespace meshdns::registry {

// The cluster IPs of a Service that several clusters have, each with one of IPv4: a quarter of the
// memory of ServiceRecord::Details.  Most Services of such meshes differ in nothing else.
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

// The kind of source of a service, in the order of precedence within a namespace.
enum class Provider : std::uint8_t { Kubernetes, MultiCluster, NameTable, ServiceEntry, Gateway };
std::string_view to_string(Provider provider);

// The answer to a query for addresses of the host (docs/semantics-istio.md, "Addresses in
// answers").
enum class AnswerKind : std::uint8_t {
  Vips,       // addresses() are virtual: spec.addresses, status.addresses, clusterIPs, allocated
  Endpoints,  // addresses() are the ready endpoints'
  Alias,      // ExternalName: CNAME to alias()
  NoAddress,  // known and without any: NODATA (a Service that waits for its clusterIP)
  NoReadyEndpoints,  // a headless Service without ready endpoints: NXDOMAIN in our zone, else
                     // forwarded
  Forward,  // known and left to the upstream (NONE without addresses, endpoint_answers off, ...)
  Pending,  // the endpoints' names have no answer yet: the query waits
  Unresolvable,  // all of the endpoints' names fail: SERVFAIL
};
std::string_view to_string(AnswerKind kind);

enum class TtlClass : std::uint8_t { Vip, Endpoint, Kubernetes, Own };  // Own: Details::ttl

// A set of addresses by family, ready to be copied into records, in a stable order, unique.
struct AddressSet {
  std::vector<std::array<std::uint8_t, 4>> v4;
  std::vector<std::array<std::uint8_t, 16>> v6;
  // Empty = all equal; else one weight per address, same order.
  std::vector<std::uint32_t> v4_weights;
  std::vector<std::uint32_t> v6_weights;
  Ref<const AddressPlaces> places;  // null: none is nearer than another
  bool empty() const { return v4.empty() && v6.empty(); }
};

// An AddressSet without its owner, for answers.
struct AddressView {
  std::span<const std::array<std::uint8_t, 4>> v4;
  std::span<const std::array<std::uint8_t, 16>> v6;
  std::span<const std::uint32_t> v4_weights;
  std::span<const std::uint32_t> v6_weights;
  const AddressPlaces* places = nullptr;
  bool empty() const { return v4.empty() && v6.empty(); }
};

// Namespaces a service is exported to; a record without one is public.
struct ExportSet final : RefCounted {
  std::vector<SymbolRef> namespaces;  // sorted by address; empty = nobody
};

// The namespaces that services of a namespace are exported to.
struct ExportScope {
  SymbolRef ns;                  // the services'
  Ref<const ExportSet> exports;  // null = public
  bool includes(const Symbol* client_ns) const;
  friend bool operator==(const ExportScope& a, const ExportScope& b);
};

struct PortList final : RefCounted {
  explicit PortList(std::vector<ServicePort> list);
  std::vector<ServicePort> ports;
  std::vector<std::uint16_t> numbers;  // of the ports, sorted, each once
};

// One endpoint of a service, as far as names and explanations go.
struct EndpointEntry {
  IpAddress address;
  bool ready = true;
  bool resolved = false;  // of a ServiceEntry whose endpoints are names (DNS)
  std::uint32_t weight = 1;
  SymbolRef network;
  SymbolRef cluster;
  std::string hostname;  // headless: spec.hostname; empty = the dashed address is its name
  std::string pod_name;  // targetRef.name
  std::string node_name;
  std::uint16_t subset = 0;        // index into EndpointList::ports
  Ref<const EndpointPlace> place;  // null: unknown, or EndpointList::near tells nothing apart
  friend bool operator==(const EndpointEntry&, const EndpointEntry&) = default;
};
struct EndpointList final : RefCounted {
  std::vector<EndpointEntry> entries;
  std::vector<Ref<const PortList>> ports;  // of each subset
  EndpointIndex index;                     // of `entries`, once they are complete
  NearRule near;
  // The endpoint's own DNS label: hostname, else (endpoint_pod_names) the pod's name, else the
  // dashed address ("10-0-0-1", "2001-db8--1"; a final "-" gets a 0).
  static std::string label_of(const EndpointEntry& entry, bool endpoint_pod_names);
};

// Addresses as seen from one network or cluster.
struct ScopedAddresses {
  SymbolRef network;  // null = any
  SymbolRef cluster;  // null = any
  AddressSet addresses;
};

class ServiceRecord final : public RefCounted {
 public:
  // Rare members, apart: most records are a host with one address.
  struct Details {
    AddressSet addresses;                     // when more than one
    std::vector<ScopedAddresses> by_network;  // non-empty: endpoints differ by network
    std::vector<ScopedAddresses> by_cluster;  // non-empty: clusterVIPs
    Ref<const EndpointList> endpoints;
    std::string alias;                        // ExternalName's target, canonical
    std::string short_name;                   // NameTable: "svc" or "pod.svc"
    std::vector<std::string> resolved_names;  // names that the endpoints use
    std::uint8_t name_links = 0;              // the most ResolvedName::links of any of them
    bool has_ordered_names = false;           // the order of their addresses matters
    std::uint32_t ttl = 0;                    // TtlClass::Own: seconds
    std::vector<StoredRef> more_sources;      // beyond the first
    std::vector<std::string> notes;           // for explain: "unix endpoint left out"
    Ref<const ServiceParts> parts;            // null = all who see the service see all of it
  };

  // Identity.
  SymbolRef ns;
  Provider provider = Provider::ServiceEntry;
  AnswerKind answer = AnswerKind::Forward;
  TtlClass ttl_class = TtlClass::Vip;
  Resolution resolution = Resolution::None;
  bool headless = false;
  // Only there to hold sources (EndpointSlices before their Service); matches no lookup.
  bool placeholder = false;
  bool auto_allocated = false;  // the VIPs are the allocator's
  bool has_single_v4 = false;
  std::array<std::uint8_t, 4> single_v4{};
  // A ServiceEntry's host that may also be meant as a Service's short name: see View::yields().
  bool can_shadow = false;
  bool refused = false;  // mesh.claims: strict; a placeholder, too
  // It has parts that a client may see one by one.  The record itself then unites all of them:
  // exports, ports and addresses tell what some client may see, and no client is answered from it.
  // Without parts: only clients of the clusters of its Services see it (mesh.clusters: local-only).
  bool split = false;
  bool partial = false;          // a part of such a record, or several of them merged
  Ref<const ExportSet> exports;  // null = public
  std::int64_t creation_time = kUnknownCreationTime;
  Ref<const PortList> ports;  // null = none
  StoredRef source;           // the first, which names the service in explanations
  DetailsOwner<Details> details;

  // For a client of `network` and `cluster` (null = none given: sees all).  Never allocates.
  AddressView addresses(const Symbol* network, const Symbol* cluster) const;
  bool is_public() const { return !exports; }
  // Returns whether the service is one of a cluster, whose name and members' names the cluster has
  // made.
  bool is_of_cluster() const { return provider < Provider::ServiceEntry; }
  // Returns whether the service comes from ServiceEntries or gives a name to a gateway, or from a
  // name table host that counts as one.
  bool is_claim() const;
  // Returns whether the API server gave the service its addresses.
  bool has_cluster_ips() const {
    return provider == Provider::Kubernetes && answer == AnswerKind::Vips;
  }
  bool is_exported_to(const Symbol* client_ns) const;
  // Null: it has none.
  const ServiceParts* parts() const { return split && details ? details->parts.get() : nullptr; }
  // Returns whether clients of different clusters get different addresses.
  bool differs_by_cluster() const {
    return details.cluster_ips() != nullptr || (details && !details->by_cluster.empty());
  }
  // The addresses of each network, if they differ.
  std::span<const ScopedAddresses> addresses_by_network() const;
  // The addresses of each cluster, if they differ.
  std::vector<ScopedAddresses> addresses_by_cluster() const;
  // The sources beyond the first.
  std::span<const StoredRef> more_sources() const {
    if (details) return details->more_sources;
    const ClusterIps* const ips = details.cluster_ips();
    return ips == nullptr ? std::span<const StoredRef>() : ips->more_sources;
  }
  // Names that the endpoints use; empty: all of them are addresses.
  const std::vector<std::string>& resolved_names() const;
  const EndpointList* endpoints() const { return details ? details->endpoints.get() : nullptr; }
  std::string_view alias() const {
    return details ? std::string_view(details->alias) : std::string_view();
  }
  template <typename Visit>
  void for_each_source(Visit&& visit) const {
    if (source) visit(source);
    for (const auto& s : more_sources()) visit(s);
  }
};

// Finds the services of a host that thousands of namespaces have.  Positions are those in
// HostEntry::records(); placeholders are left out.
struct RecordIndex {
  using Position = std::uint32_t;
  struct Keyed {
    const Symbol* ns;
    Position position;
  };
  explicit RecordIndex(std::span<const Ref<const ServiceRecord>> records);
  // The service of that namespace; null if there is none.
  const Position* own(const Symbol* ns) const;
  // The services that name `client_ns` in the exportTo of a part, in order.
  std::span<const Keyed> exported_to(const Symbol* client_ns) const;

  std::vector<Keyed> by_namespace;  // by ns
  std::vector<Keyed> by_export;     // by ns that a service is exported to, then position
  std::vector<Position> is_public;  // or a part of it is; in order

 private:
  void add_export(const ServiceRecord& record, Position position);
};

// One host name and all namespaces' services of that name, in the order in which a client that has
// none of its own chooses: Kubernetes first, then the older, then by namespace.
class HostEntry final : public RefCounted {
 public:
  static constexpr std::uint32_t kMaxRecords = (1U << 20) - 1;
  static constexpr std::uint32_t kMaxHostSize = (1U << 12) - 1;

  // Records beyond kMaxRecords are left out.  REQUIRES: a host of at most kMaxHostSize octets.
  static Ref<const HostEntry> create(std::string_view host,
                                     std::span<const Ref<const ServiceRecord>> records);
  static void destroy(const HostEntry* entry);

  // Lower case, no final dot; "*.suffix" for a wildcard.
  std::string_view host() const {
    return {reinterpret_cast<const char*>(records_begin() + count_), length_};
  }
  std::span<const ServiceRecord* const> records() const { return {records_begin(), count_}; }
  // Null while a walk over the records costs less.
  const RecordIndex* index() const {
    return count_ < kWorthAnIndex ? nullptr
                                  : *(reinterpret_cast<const RecordIndex* const*>(this) - 1);
  }
  // Fetches this entry, and after that the record that a look-up of the host will probably read.
  // Neither is aligned to a line of the cache.
  void prefetch() const {
    __builtin_prefetch(this);
    __builtin_prefetch(reinterpret_cast<const char*>(this) + kUsualSize);
  }
  void prefetch_first_record() const {
    if (count_ == 0) return;
    const auto* record = reinterpret_cast<const char*>(*records_begin());
    __builtin_prefetch(record);
    __builtin_prefetch(record + kReadOfRecord);
  }

 private:
  static constexpr std::size_t kUsualSize = 56;     // a host of 40 octets with one record
  static constexpr std::size_t kReadOfRecord = 39;  // to the end of `exports`
  // Hosts of that many records have an index, whose address stands in front of the entry: all other
  // hosts, which are nearly all, pay nothing for it.
  static constexpr std::size_t kWorthAnIndex = 32;

  HostEntry(std::size_t count, std::size_t length)
      : count_(static_cast<std::uint32_t>(count) & kMaxRecords),
        length_(static_cast<std::uint32_t>(length) & kMaxHostSize) {}
  const ServiceRecord* const* records_begin() const {
    return reinterpret_cast<const ServiceRecord* const*>(this + 1);
  }
  // In one word, which has room for more than 65,535 namespaces of one host.
  const std::uint32_t count_ : 20;
  const std::uint32_t length_ : 12;
};

// The port lists of services, each stored once: most services of a mesh have the same one or two
// ports, and a list of one's own would cost as much as the rest of a record.
//
// Equal lists give the same PortList.  Control thread.
class PortTable {
 public:
  Ref<const PortList> intern(const std::vector<ServicePort>& ports);
  // Number of lists, including those without other users.
  std::size_t size() const { return lists_.size(); }

 private:
  void sweep();

  std::unordered_multimap<std::uint64_t, Ref<const PortList>> lists_;
  std::size_t sweep_at_ = 1024;
};

}  // namespace meshdns::registry
