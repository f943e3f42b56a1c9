// SPDX-License-Identifier: Apache-2.0
#include "registry/analysis/analysis.hpp"

#include <algorithm>
#include <tuple>

#include "registry/analysis/rules.hpp"

namespace meshdns::registry {
namespace {

// Objects and hosts between two questions whether the analysis is interrupted.
constexpr std::size_t kStepsPerQuestion = 256;

class Run {
 public:
  Run(const Snapshot& snapshot, const std::function<bool()>& is_interrupted)
      : snapshot_(snapshot), is_interrupted_(is_interrupted), mesh_(snapshot) {}

  AnalysisReport report() {
    snapshot_.resources.for_each([&](const StoredResource& stored) {
      if (goes_on()) judge_object(stored);
    });
    snapshot_.resources.for_each([&](const StoredResource& stored) {
      if (goes_on()) judge_workload(stored);
    });
    const auto judge = [&](const HostEntry& host) {
      if (!goes_on()) return;
      judge_host(mesh_, host, findings_);
      networks_.add(mesh_, host);
    };
    snapshot_.hosts.for_each(judge);
    snapshot_.wildcards.for_each(judge);
    if (goes_on()) {
      selectors_.judge(mesh_, findings_);
      sidecars_.judge(mesh_, findings_);
      addresses_.judge(mesh_, findings_);
      networks_.judge(mesh_, findings_);
      if (!single_labels_.empty()) single_labels_.judge(mesh_, findings_);
    }
    auto& list = findings_.list();
    const auto order = [](const MeshFinding& f) {
      return std::tie(f.place, f.kind, f.field, f.message);
    };
    std::ranges::sort(
        list, [&](const MeshFinding& a, const MeshFinding& b) { return order(a) < order(b); });
    return {std::move(list), findings_.counts()};
  }

 private:
  bool goes_on() {
    if (!is_over_ && ++steps_ % kStepsPerQuestion == 0) is_over_ = is_interrupted_();
    return !is_over_;
  }

  void judge_object(const StoredResource& stored) {
    const Kind kind = stored.kind();
    if (kind != Kind::ServiceEntry && kind != Kind::Service && kind != Kind::Sidecar) return;
    const Resource resource = stored.decode();
    if (const auto* entry = std::get_if<ServiceEntry>(&resource)) judge({stored, *entry});
    if (const auto* service = std::get_if<KubeService>(&resource)) judge({stored, *service});
    if (const auto* sidecar = std::get_if<Sidecar>(&resource)) judge({stored, *sidecar});
  }

  void judge(Judged<ServiceEntry> entry) {
    judge_entry(mesh_, entry, findings_);
    judge_exports(mesh_, entry.stored, entry.object.export_to, "spec.exportTo", findings_);
    judge_endpoint_names(mesh_, entry, findings_);
    judge_short_names(mesh_, entry, findings_);
    addresses_.add(entry);
    single_labels_.add(entry);
    selectors_.add(entry);
  }

  void judge(Judged<KubeService> service) {
    judge_alias(mesh_, service, findings_);
    judge_exports(mesh_, service.stored, service.object.export_to,
                  "annotation networking.istio.io/exportTo", findings_);
    addresses_.add(service);
    networks_.add(service);
  }

  void judge(Judged<Sidecar> sidecar) {
    judge_sidecar_hosts(mesh_, sidecar, findings_);
    sidecars_.add(sidecar);
    selectors_.add(sidecar);
  }

  void judge_workload(const StoredResource& stored) {
    const Kind kind = stored.kind();
    if (kind != Kind::WorkloadEntry && kind != Kind::Pod) return;
    if (!selectors_.is_asked(stored.ns())) return;
    selectors_.add_workload(mesh_, stored, stored.decode(), findings_);
  }

  const Snapshot& snapshot_;
  const std::function<bool()>& is_interrupted_;
  const MeshObjects mesh_;
  MeshFindings findings_;
  NamespaceSidecars sidecars_;
  AddressBook addresses_;
  NetworkEndpoints networks_;
  SingleLabelHosts single_labels_;
  Selectors selectors_;
  std::size_t steps_ = 0;
  bool is_over_ = false;
};

}  // namespace

AnalysisReport analyse(const Snapshot& snapshot, const std::function<bool()>& is_interrupted) {
  return Run(snapshot, is_interrupted).report();
}

}  // namespace meshdns::registry
