// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/workload_table.hpp"

#include <algorithm>

#include "registry/base/hash.hpp"
#include "registry/model/entry_endpoints.hpp"

namespace meshdns::registry {
namespace {

// Two labels of one hash share a list; each reader compares the labels themselves.
std::uint64_t hash_of(const Labels::value_type& label) {
  return hash_detail::mix(hash_bytes(label.first), hash_bytes(label.second) | 1);
}

Labels labels_of(const Resource& workload) {
  if (const auto* entry = std::get_if<WorkloadEntry>(&workload)) return selectable_labels(*entry);
  return meta_of(workload).labels;
}

// Takes `object` out of the list of its label.
void unlist(auto& by_label, const Labels::value_type& label, const StoredResource& object) {
  const auto listed = by_label.find(hash_of(label));
  if (listed == by_label.end()) return;
  listed->second.erase(&object);
  if (listed->second.empty()) by_label.erase(listed);
}

}  // namespace

void WorkloadTable::index(Namespace& ns, const StoredResource& stored, const Labels& labels) {
  for (const auto& label : labels) ns.by_label[hash_of(label)].insert(&stored);
}

void WorkloadTable::add(const SymbolRef& ns, const StoredRef& stored, const Resource& workload) {
  Namespace& in = namespaces_[ns];
  in.workloads.insert(stored);
  if (in.is_indexed) index(in, *stored, labels_of(workload));
}

void WorkloadTable::remove(const SymbolRef& ns, const StoredRef& stored, const Resource& workload) {
  Namespace& in = namespaces_[ns];
  in.workloads.erase(stored);
  if (in.is_indexed)
    for (const auto& label : labels_of(workload)) unlist(in.by_label, label, *stored);
  forget_if_empty(ns);
}

// Chooses the label of the selector with the fewest other selectors, so that a label which all
// selectors have ("env") does not list all of them.
WorkloadTable::Selectors& WorkloadTable::listing(Namespace& ns, const Labels& selector) {
  if (selector.empty()) return ns.select_all;
  const auto listed = [&](const Labels::value_type& label) {
    const auto it = ns.selectors.find(hash_of(label));
    return it == ns.selectors.end() ? std::size_t{0} : it->second.size();
  };
  return ns.selectors[hash_of(*std::ranges::min_element(selector, {}, listed))];
}

void WorkloadTable::add_selector(const SymbolRef& ns, const StoredResource& entry,
                                 const Labels& selector, std::vector<std::string> hosts) {
  Namespace& in = namespaces_[ns];
  if (!std::exchange(in.is_indexed, true))
    for (const auto& stored : in.workloads) index(in, *stored, labels_of(stored->decode()));
  listing(in, selector).emplace(&entry, Selector{selector, std::move(hosts)});
}

void WorkloadTable::remove_selector(const SymbolRef& ns, const StoredResource& entry,
                                    const Labels& selector) {
  Namespace& in = namespaces_[ns];
  in.select_all.erase(&entry);
  for (const auto& label : selector) unlist(in.selectors, label, entry);
  forget_if_empty(ns);
}

void WorkloadTable::forget_if_empty(const SymbolRef& ns) {
  const auto in = namespaces_.find(ns);
  const Namespace& n = in->second;
  if (n.workloads.empty() && n.selectors.empty() && n.select_all.empty()) namespaces_.erase(in);
}

void WorkloadTable::for_each_selecting(
    const SymbolRef& ns, const Resource& workload,
    const std::function<void(std::string_view host)>& visit) const {
  const auto in = namespaces_.find(ns);
  if (in == namespaces_.end() || !in->second.is_indexed) return;
  const Labels labels = labels_of(workload);
  const auto visit_those_that_select = [&](const Selectors& selectors) {
    for (const auto& [entry, selector] : selectors)
      if (selects(selector.labels, labels))
        for (const auto& host : selector.hosts) visit(host);
  };
  visit_those_that_select(in->second.select_all);
  for (const auto& label : labels)
    if (const auto listed = in->second.selectors.find(hash_of(label));
        listed != in->second.selectors.end())
      visit_those_that_select(listed->second);
}

const WorkloadTable::Workloads* WorkloadTable::fewest(const Namespace& ns, const Labels& selector) {
  const Workloads* best = nullptr;
  for (const auto& label : selector) {
    const auto with_label = ns.by_label.find(hash_of(label));
    if (with_label == ns.by_label.end()) return nullptr;
    if (best == nullptr || with_label->second.size() < best->size()) best = &with_label->second;
  }
  return best;
}

void WorkloadTable::for_each_selected(const SymbolRef& ns, const Labels& selector,
                                      const std::function<void(const Resource&)>& visit) const {
  DecodedResources decoded;
  for (const DecodedRef& workload : select(ns, selector, decoded)) visit(workload->resource());
}

WorkloadTable::Selection WorkloadTable::select(const SymbolRef& ns, const Labels& selector,
                                               DecodedResources& decoded) const {
  const auto in = namespaces_.find(ns);
  if (in == namespaces_.end()) return {};
  Selection selected;
  const auto consider = [&](const StoredRef& stored) {
    DecodedRef workload = decoded.of(stored);
    if (selects(selector, labels_of(workload->resource()))) selected.push_back(std::move(workload));
  };
  if (selector.empty() || !in->second.is_indexed) {
    for (const auto& stored : in->second.workloads) consider(stored);
  } else if (const Workloads* candidates = fewest(in->second, selector)) {
    for (const StoredResource* stored : *candidates) consider(StoredRef(stored));
  }
  std::ranges::sort(selected, [](const DecodedRef& a, const DecodedRef& b) {
    return precedes_as_endpoint(a->resource(), b->resource());
  });
  return selected;
}

void WorkloadTable::for_each(const SymbolRef& ns,
                             const std::function<void(const StoredResource&)>& visit) const {
  const auto in = namespaces_.find(ns);
  if (in == namespaces_.end()) return;
  for (const auto& stored : in->second.workloads) visit(*stored);
}

void ServiceSelectors::link_service(const SymbolRef& ns, const StoredRef& stored,
                                    const KubeService& service, bool add) {
  if (service.selector.empty()) return;
  Namespace& in = namespaces_[ns];
  if (add)
    in.services.push_back(stored.get());
  else if (const auto found = std::ranges::find(in.services, stored.get());
           found != in.services.end())
    in.services.erase(found);
  if (in.workloads != 0) link_selector(ns, *stored, service, add);
  if (in.services.empty() && in.workloads == 0) namespaces_.erase(ns);
}

void ServiceSelectors::link_selector(const SymbolRef& ns, const StoredResource& stored,
                                     const KubeService& service, bool add) {
  if (add)
    workloads_.add_selector(ns, stored, service.selector,
                            {service_host(service.meta.name, service.meta.ns, cluster_domain_)});
  else
    workloads_.remove_selector(ns, stored, service.selector);
}

void ServiceSelectors::link_selectors(const SymbolRef& ns, const Namespace& in, bool add) {
  for (const StoredResource* const stored : in.services)
    link_selector(ns, *stored, std::get<KubeService>(stored->decode()), add);
}

void ServiceSelectors::link_workload(const SymbolRef& ns, const StoredRef& stored,
                                     const Resource& workload, bool add,
                                     const std::function<void(std::string_view host)>& visit) {
  Namespace& in = namespaces_[ns];
  if (add) {
    workloads_.add(ns, stored, workload);
    if (in.workloads++ == 0) link_selectors(ns, in, true);
  }
  workloads_.for_each_selecting(ns, workload, visit);
  if (add) return;
  if (--in.workloads == 0) link_selectors(ns, in, false);
  workloads_.remove(ns, stored, workload);
  if (in.services.empty() && in.workloads == 0) namespaces_.erase(ns);
}

const WorkloadTable::Selection& Selections::of(const SymbolRef& ns, const Labels& selector) {
  if (workloads_kept_ > kMaxKept) clear();
  const auto [kept, is_new] = kept_.try_emplace({ns.get(), selector});
  if (is_new) {
    kept->second = workloads_.select(ns, selector, decoded_);
    workloads_kept_ += kept->second.size() + 1;
  }
  return kept->second;
}

void Selections::clear() {
  kept_.clear();
  workloads_kept_ = 0;
}

}  // namespace meshdns::registry
