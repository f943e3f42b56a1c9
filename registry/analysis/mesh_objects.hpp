// SPDX-License-Identifier: Apache-2.0
// Questions of the analysis about the objects of a snapshot, and the list to which the rules add
// their findings.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "registry/analysis/analysis.hpp"
#include "registry/base/hash.hpp"
#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {

enum class Existence : std::uint8_t {
  Exists,
  Missing,  // it does not exist
  Unseen,   // no object shows that it exists; it may lie outside of the objects that were read
};

// One thread.  REQUIRES: outlived by the snapshot.
class MeshObjects {
 public:
  explicit MeshObjects(const Snapshot& snapshot);

  const Snapshot& snapshot() const { return snapshot_; }
  const MeshSettings& settings() const { return *snapshot_.settings; }
  ObjectPlace place_of(const StoredResource& stored) const;

  // A namespace exists if its object is known, if any object is in it, or if it is the root
  // namespace.  Any other one is Missing where the Namespace objects are all known: every namespace
  // that has objects has its Namespace object, and there are several of them.  A tree of files
  // that has none, or some, proves nothing.
  Existence namespace_existence(std::string_view ns) const;
  // " (did you mean \"shop\"?)", or nothing.  A near name is no proof: there may be shop-1 and
  // shop-2.
  std::string guess_of_namespace(std::string_view ns) const;

  // Returns whether an object of the kind is in the namespace, or anywhere.
  bool has(Kind kind, std::string_view ns) const;
  bool has(Kind kind) const;
  // Returns whether a Service is in the namespace that is no alias.
  bool has_real_service(std::string_view ns) const;
  // A namespace that holds the objects of others has no clients.
  bool has_clients(std::string_view ns) const {
    return has(Kind::Pod, ns) || has(Kind::WorkloadEntry, ns) || has_real_service(ns) ||
           has(Kind::Sidecar, ns);
  }
  // Returns whether there are objects of Istio, for whose proxies some rules are.
  bool has_proxies() const {
    return has(Kind::ServiceEntry) || has(Kind::Sidecar) || has(Kind::VirtualService);
  }

  // The Service of that name, also one that has no address yet; null if there is none.
  const StoredResource* find_service(std::string_view ns, std::string_view name,
                                     std::string_view cluster) const;
  // The Service that owns a name in the cluster domain, such as `web-0.db.shop.svc.cluster.local`:
  // {"shop", "db"}; nullopt for names that no Service can have.
  struct ServiceName {
    std::string_view ns;
    std::string_view name;
  };
  std::optional<ServiceName> service_name_of(std::string_view host) const;
  // The host itself, else the longest wildcard over it; null if there is none.
  const HostEntry* find_host(std::string_view host) const;
  const HostEntry* find_exact(std::string_view host) const;

  // The service that `ns` has under the host; null if there is none.
  static const ServiceRecord* record_of(const HostEntry& entry, std::string_view ns);
  static bool is_visible_in(const ServiceRecord& record, std::string_view ns);
  // The numbers of all ports of services of the namespace.
  const std::set<std::uint16_t>& ports_of(std::string_view ns) const;
  bool any_service_has_port(std::uint16_t port) const { return all_ports_.contains(port); }
  // Returns whether any service of the namespace is known.
  bool has_hosts(std::string_view ns) const;
  bool has_any_hosts() const { return !ports_by_namespace_.empty(); }

 private:
  using KindBits = std::uint32_t;
  static KindBits bit_of(Kind kind) { return KindBits{1} << static_cast<unsigned>(kind); }
  void note_host(const HostEntry& entry);

  const Snapshot& snapshot_;
  TextViewMap<KindBits> kinds_by_namespace_;
  KindBits kinds_ = 0;
  bool all_namespaces_known_ = false;
  TextViewMap<std::set<std::uint16_t>> ports_by_namespace_;
  std::set<std::string_view> real_services_;  // namespaces that have some
  std::set<std::uint16_t> all_ports_;
};

// The findings of one analysis: so many of each kind, and how many there are.
class MeshFindings {
 public:
  static constexpr std::size_t kMaxOfKind = 1000;

  bool is_full(FindingKind kind) const {
    return counts_[static_cast<std::size_t>(kind)] >= kMaxOfKind;
  }
  // Counts the finding, and keeps it if there is room.
  void add(MeshFinding finding);
  const FindingCounts& counts() const { return counts_; }
  std::vector<MeshFinding>& list() { return list_; }

 private:
  std::vector<MeshFinding> list_;
  FindingCounts counts_{};
};

// exportTo as it works: "." replaced, the mesh's default where it is empty.
ExportTo effective_exports(const ExportTo& declared, std::string_view ns,
                           const MeshSettings& settings);
bool exports_include(const ExportTo& effective, std::string_view ns);

}  // namespace meshdns::registry
