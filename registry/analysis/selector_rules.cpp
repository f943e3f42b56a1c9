// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "registry/analysis/rules.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::registry {
namespace {

std::string text_of(const Labels& labels) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(labels.size(), kShown); ++i)
    text += (i == 0 ? "" : ",") + labels[i].first + "=" + labels[i].second;
  return labels.size() > kShown ? text + ",..." : text;
}

}  // namespace

void Selectors::add(Judged<ServiceEntry> judged) {
  const ServiceEntry& entry = judged.object;
  if (!entry.workload_selector || entry.workload_selector->empty()) return;
  std::vector<std::string> names;
  for (const ServicePort& port : entry.ports) names.push_back(port.name);
  by_namespace_[entry.meta.ns].push_back(
      {&judged.stored, *entry.workload_selector, std::move(names), true});
}

void Selectors::add(Judged<Sidecar> judged) {
  const Sidecar& sidecar = judged.object;
  if (!sidecar.workload_selector || sidecar.workload_selector->empty()) return;
  by_namespace_[sidecar.meta.ns].push_back({&judged.stored, *sidecar.workload_selector, {}, false});
}

void Selectors::add_workload(const MeshObjects& mesh, const StoredResource& stored,
                             const Resource& workload, MeshFindings& out) {
  auto& selectors = by_namespace_.at(std::string(stored.ns()));
  comparisons_ += selectors.size();
  if (comparisons_ > kMaxComparisons) return;
  const auto* entry = std::get_if<WorkloadEntry>(&workload);
  const Labels labels = entry != nullptr ? selectable_labels(*entry) : meta_of(workload).labels;
  std::vector<const Selector*> entries;
  for (Selector& selector : selectors) {
    if (!selects(selector.labels, labels)) continue;
    selector.selects_any = true;
    if (selector.is_entry) entries.push_back(&selector);
  }
  // Services of the namespace may select it, too, and mean the port.
  if (entry == nullptr || entries.empty() || mesh.has_real_service(stored.ns())) return;
  for (const auto& [name, number] : entry->spec.ports) {
    const bool is_used = std::ranges::any_of(entries, [&](const Selector* selector) {
      return std::ranges::any_of(selector->port_names, [&](const std::string& known) {
        return equals_ignoring_case(known, name);
      });
    });
    if (is_used) continue;
    out.add({FindingKind::PortWithoutUse, Weight::Warning, mesh.place_of(stored),
             "spec.ports." + name,
             "no ServiceEntry that selects the workload has a port " + in_quotes(name) +
                 ", so the number has no effect; use the name of one of their ports",
             mesh.place_of(*entries.front()->stored)});
  }
}

void Selectors::judge(const MeshObjects& mesh, MeshFindings& out) const {
  if (comparisons_ > kMaxComparisons) return;
  for (const auto& [ns, selectors] : by_namespace_) {
    const bool has_pods = mesh.has(Kind::Pod, ns);
    const bool has_workloads = has_pods || mesh.has(Kind::WorkloadEntry, ns);
    for (const Selector& selector : selectors) {
      if (selector.selects_any) continue;
      // A Sidecar of the root namespace is one for all, and Sidecars are mostly for Pods, which
      // files do not have.
      if (!selector.is_entry && (ns == mesh.settings().root_namespace || !mesh.has(Kind::Pod)))
        continue;
      const bool is_certain = selector.is_entry ? has_workloads : has_pods;
      out.add({FindingKind::SelectorSelectsNobody, is_certain ? Weight::Warning : Weight::Note,
               mesh.place_of(*selector.stored), "spec.workloadSelector",
               "no Pod or WorkloadEntry of namespace " + ns + " has the labels " +
                   text_of(selector.labels) +
                   (selector.is_entry ? ", so the hosts have no endpoints; correct the labels"
                                      : ", so the Sidecar has no effect; correct the labels")});
    }
  }
}

}  // namespace meshdns::registry
