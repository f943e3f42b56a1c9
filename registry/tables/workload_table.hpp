// SPDX-License-Identifier: Apache-2.0
// The WorkloadEntries and Pods of each namespace, and the hosts whose workloadSelector selects some
// of them.  Finds workloads by selector and hosts by a workload's labels without visiting all
// of them: a namespace may have tens of thousands of workloads and hundreds of selectors.
//
// Labels are indexed only in namespaces that have had a selector, since most have none.
// Control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "registry/model/resources.hpp"
#include "registry/snapshot/stored_resource.hpp"
#include "registry/snapshot/symbol.hpp"
#include "registry/tables/decoded_resources.hpp"

namespace meshdns::registry {

class WorkloadTable {
 public:
  // `workload` is the decoded `stored`: a WorkloadEntry or a Pod of namespace `ns`.
  void add(const SymbolRef& ns, const StoredRef& stored, const Resource& workload);
  void remove(const SymbolRef& ns, const StoredRef& stored, const Resource& workload);

  // The hosts of the ServiceEntry `entry`, which has a workloadSelector.
  void add_selector(const SymbolRef& ns, const StoredResource& entry, const Labels& selector,
                    std::vector<std::string> hosts);
  void remove_selector(const SymbolRef& ns, const StoredResource& entry, const Labels& selector);

  // Visits the hosts of `ns` that select `workload`; a host of several entries is visited several
  // times.
  void for_each_selecting(const SymbolRef& ns, const Resource& workload,
                          const std::function<void(std::string_view host)>& visit) const;
  // Visits the workloads of `ns` that `selector` selects; an empty one selects all.  Pods come
  // before WorkloadEntries, then they are sorted by name: the order does not depend on arrival.
  void for_each_selected(const SymbolRef& ns, const Labels& selector,
                         const std::function<void(const Resource&)>& visit) const;
  // The same ones, decoded by `decoded`.
  using Selection = std::vector<DecodedRef>;
  Selection select(const SymbolRef& ns, const Labels& selector, DecodedResources& decoded) const;
  // Visits all workloads of `ns`, in any order.
  void for_each(const SymbolRef& ns, const std::function<void(const StoredResource&)>& visit) const;

  // The number of namespaces that have workloads or selectors.
  std::size_t namespaces() const { return namespaces_.size(); }

 private:
  struct StoredHash {
    std::size_t operator()(const StoredRef& stored) const {
      return std::hash<const StoredResource*>()(stored.get());
    }
  };
  struct Selector {
    Labels labels;
    std::vector<std::string> hosts;
  };
  using Workloads = std::unordered_set<const StoredResource*>;
  using Selectors = std::unordered_map<const StoredResource*, Selector>;  // by ServiceEntry
  struct Namespace {
    std::unordered_set<StoredRef, StoredHash> workloads;
    bool is_indexed = false;
    std::unordered_map<std::uint64_t, Workloads> by_label;   // hash of key and value
    std::unordered_map<std::uint64_t, Selectors> selectors;  // by one of their labels
    Selectors select_all;                                    // those without labels
  };

  static void index(Namespace& ns, const StoredResource& stored, const Labels& labels);
  // Returns the list that has the selector.
  static Selectors& listing(Namespace& ns, const Labels& selector);
  // The workloads with one of the selector's labels: the label that the fewest workloads have.
  // Null: no workload has all of them.
  static const Workloads* fewest(const Namespace& ns, const Labels& selector);
  void forget_if_empty(const SymbolRef& ns);

  std::unordered_map<SymbolRef, Namespace, SymbolHash> namespaces_;
};

// The WorkloadEntries that selectors of Kubernetes Services select.  Nearly all namespaces have
// Services and no WorkloadEntry: their Services cost a pointer each.
// Control thread.
class ServiceSelectors {
 public:
  explicit ServiceSelectors(const std::string& cluster_domain) : cluster_domain_(cluster_domain) {}

  // `service` and `workload` are decoded from `stored`, of namespace `ns`.
  void link_service(const SymbolRef& ns, const StoredRef& stored, const KubeService& service,
                    bool add);
  // Visits the Services' hosts that select the WorkloadEntry.
  void link_workload(const SymbolRef& ns, const StoredRef& stored, const Resource& workload,
                     bool add, const std::function<void(std::string_view host)>& visit);
  bool has_workloads(const SymbolRef& ns) const {
    const auto in = namespaces_.find(ns);
    return in != namespaces_.end() && in->second.workloads != 0;
  }
  const WorkloadTable& workloads() const { return workloads_; }

 private:
  struct Namespace {
    std::vector<const StoredResource*> services;  // those with a selector
    std::size_t workloads = 0;
  };

  void link_selector(const SymbolRef& ns, const StoredResource& stored, const KubeService& service,
                     bool add);
  void link_selectors(const SymbolRef& ns, const Namespace& in, bool add);

  const std::string& cluster_domain_;
  WorkloadTable workloads_;  // with selectors in namespaces that have WorkloadEntries
  std::unordered_map<SymbolRef, Namespace, SymbolHash> namespaces_;
};

// The selections of one commit, each made once: a thousand entries may have the same selector.
class Selections {
 public:
  // REQUIRES: both outlive it.
  Selections(const WorkloadTable& workloads, DecodedResources& decoded)
      : workloads_(workloads), decoded_(decoded) {}

  // Valid until the next call.  REQUIRES: the workloads do not change before clear().
  const WorkloadTable::Selection& of(const SymbolRef& ns, const Labels& selector);
  void clear();

 private:
  // Workloads in all selections that are kept, 16 octets each.
  static constexpr std::size_t kMaxKept = std::size_t{1} << 18;

  const WorkloadTable& workloads_;
  DecodedResources& decoded_;
  std::map<std::pair<const Symbol*, Labels>, WorkloadTable::Selection> kept_;
  std::size_t workloads_kept_ = 0;
};

}  // namespace meshdns::registry
