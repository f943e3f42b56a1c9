// SPDX-License-Identifier: Apache-2.0
// The rules of the analysis, one file for each sort of object that they judge.  A rule adds a
// Warning only for what is certain; what an object outside of those that were read may explain is a
// Note, or nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/analysis/mesh_objects.hpp"
#include "registry/base/hash.hpp"
#include "registry/view/near_names.hpp"

namespace meshdns::registry {

// A decoded object while the rules look at it.
template <typename T>
struct Judged {
  const StoredResource& stored;
  const T& object;
};

// One object and its own answers: STATIC without endpoints, CIDRs, host bits, subjectAltNames,
// DYNAMIC_DNS, the location of selected workloads, exportTo, endpoint names.
void judge_entry(const MeshObjects& mesh, Judged<ServiceEntry> entry, MeshFindings& out);
void judge_exports(const MeshObjects& mesh, const StoredResource& stored, const ExportTo& declared,
                   std::string_view field, MeshFindings& out);
// The part of judge_exports() that judges the namespaces of the list.
void judge_export_names(const MeshObjects& mesh, const StoredResource& stored,
                        const ExportTo& declared, std::string_view field, MeshFindings& out);

// ExternalName Services, and endpoints that are names of the mesh.
void judge_alias(const MeshObjects& mesh, Judged<KubeService> service, MeshFindings& out);
void judge_endpoint_names(const MeshObjects& mesh, Judged<ServiceEntry> entry, MeshFindings& out);

// A headless Service without ports.
void judge_headless(const MeshObjects& mesh, Judged<KubeService> service, MeshFindings& out);

// A host with the services of all namespaces.
void judge_host(const MeshObjects& mesh, const HostEntry& host, MeshFindings& out);
// A host of an entry that Services may have as a short name, for hosts of two or three labels.
void judge_short_names(const MeshObjects& mesh, Judged<ServiceEntry> entry, MeshFindings& out);

void judge_sidecar_hosts(const MeshObjects& mesh, Judged<Sidecar> sidecar, MeshFindings& out);

// The destinations of a VirtualService.  Whether a host is theirs depends on exportTo alone, as in
// the mesh: a Sidecar imports the destinations of the routes that it imports.
void judge_routes(const MeshObjects& mesh, Judged<VirtualService> service, MeshFindings& out);

// The Sidecars without a selector.
class NamespaceSidecars {
 public:
  void add(Judged<Sidecar> sidecar);
  void judge(const MeshObjects& mesh, MeshFindings& out) const;

 private:
  struct Found {
    const StoredResource* stored;
    ObjectMeta meta;
  };
  std::map<std::pair<std::string, std::string>, std::vector<Found>> found_;  // cluster, namespace
};

// The addresses of entries and Services.
class AddressBook {
 public:
  void add(Judged<ServiceEntry> entry);
  void add(Judged<KubeService> service);
  void judge(const MeshObjects& mesh, MeshFindings& out);

 private:
  struct Use {
    IpAddress address;
    const StoredResource* stored;
  };
  std::vector<Use> uses_;
};

// The TCP ports of entries without addresses, which take the connections to every address.
class TcpPorts {
 public:
  void add(const MeshObjects& mesh, Judged<ServiceEntry> entry);
  void judge(const MeshObjects& mesh, MeshFindings& out) const;

 private:
  std::map<std::uint16_t, std::vector<const StoredResource*>> entries_;  // each once
};

// The networks of endpoints, and the Services that are their gateways; with `mesh.networks:
// gateways`.
class NetworkEndpoints {
 public:
  void add(const MeshObjects& mesh, const HostEntry& host);
  void add(Judged<KubeService> service);
  void judge(const MeshObjects& mesh, MeshFindings& out) const;

 private:
  struct Found {
    std::string_view host;  // the first with endpoints there
    StoredRef source;
  };
  std::map<const Symbol*, Found> found_;
  std::map<std::string, const StoredResource*> without_address_;  // by network
};

// Hosts of one label.
class SingleLabelHosts {
 public:
  void add(Judged<ServiceEntry> entry);
  bool empty() const { return entries_.empty(); }
  // Visits every Service of the snapshot once.
  void judge(const MeshObjects& mesh, MeshFindings& out) const;

 private:
  struct Entry {
    const StoredResource* stored;
    std::size_t index;
  };
  TextMap<std::vector<Entry>> entries_;  // by host
};

// Names that clients ask for often and that do not exist.
class DeniedNames {
 public:
  // REQUIRES: outlived by the names.
  DeniedNames(const MeshObjects& mesh, std::span<const std::string> names);
  // One of them may be this host, misspelt, or the host is misspelt.
  void judge(const MeshObjects& mesh, const HostEntry& host, MeshFindings& out) const;

 private:
  std::vector<MeantName> names_;
};

// The selectors of entries and Sidecars, and the workloads that they select.
class Selectors {
 public:
  void add(Judged<ServiceEntry> entry);
  void add(Judged<Sidecar> sidecar);
  bool is_asked(std::string_view ns) const { return by_namespace_.contains(std::string(ns)); }
  // A WorkloadEntry or Pod; after all selectors.
  void add_workload(const MeshObjects& mesh, const StoredResource& stored, const Resource& workload,
                    MeshFindings& out);
  void judge(const MeshObjects& mesh, MeshFindings& out) const;

 private:
  // Comparisons of a selector with a workload; beyond that nothing is said about selectors.
  static constexpr std::size_t kMaxComparisons = 20'000'000;

  struct Selector {
    const StoredResource* stored;
    Labels labels;
    std::vector<std::string> port_names;  // of an entry
    bool is_entry;
    bool selects_any = false;
  };
  TextMap<std::vector<Selector>> by_namespace_;
  std::size_t comparisons_ = 0;
};

}  // namespace meshdns::registry
