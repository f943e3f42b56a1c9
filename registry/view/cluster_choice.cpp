// SPDX-License-Identifier: Apache-2.0
// Services that several clusters have: the one that a client gets, and the reasons.
#include <algorithm>
#include <string>
#include <string_view>

#include "registry/view/view.hpp"
#include "registry/view/view_explanation.hpp"

namespace meshdns::registry {
namespace {

bool is_service_object(const StoredResource& source) { return source.kind() == Kind::Service; }

// Calls `visit(source)` for the Services that make the record, until it returns false.
template <typename Visit>
void for_each_service(const ServiceRecord& record, const Visit& visit) {
  bool go_on = true;
  record.for_each_source([&](const StoredRef& source) {
    if (go_on && is_service_object(*source)) go_on = visit(source);
  });
}

const StoredRef* find_service_of(const ServiceRecord& record, std::string_view cluster) {
  const StoredRef* found = nullptr;
  for_each_service(record, [&](const StoredRef& source) {
    if (source->cluster() == cluster) found = &source;
    return found == nullptr;
  });
  return found;
}

// Returns whether clients of different clusters get different answers.
bool is_told_apart(const ServiceRecord& record) {
  if (record.provider != Provider::Kubernetes) return false;
  if (const ServiceParts* const parts = record.parts()) return !parts->clusters().empty();
  return record.split || record.differs_by_cluster();
}

bool has_several_clusters(const ServiceRecord& record) {
  const StoredRef* first = nullptr;
  bool has_several = false;
  for_each_service(record, [&](const StoredRef& source) {
    if (first == nullptr) first = &source;
    has_several = source->cluster() != (*first)->cluster();
    return !has_several;
  });
  return has_several;
}

}  // namespace

std::size_t View::own_cluster_part(const ServiceParts& parts) const {
  if (!client_.cluster) return 0;
  std::size_t unnamed = 0;
  for (std::size_t i = 0; i < parts.clusters().size(); ++i) {
    if (parts.clusters()[i] == client_.cluster) return i + 1;
    if (parts.clusters()[i]->text().empty()) unnamed = i + 1;
  }
  return unnamed;
}

std::size_t View::service_part(const ServiceParts& parts) const {
  const std::size_t own = own_cluster_part(parts);
  if (own == 0)
    return client_.cluster && settings().clusters == ClusterChoice::LocalOnly ? kNoPart : 0;
  const bool is_merged = settings().clusters == ClusterChoice::Merge &&
                         parts.all()[own]->headless && parts.all()[0]->headless;
  return is_merged ? 0 : own;
}

bool View::is_of_client_cluster(const ServiceRecord& record) const {
  return !client_.cluster || find_service_of(record, client_.cluster->text()) != nullptr ||
         find_service_of(record, "") != nullptr;
}

View::ClusterParts View::cluster_parts(const HostEntry& host, const ServiceRecord& service) const {
  if (!service.partial || service.provider != Provider::Kubernetes || !client_.cluster) return {};
  const auto records = host.records();
  const auto record = std::ranges::find(records, service.ns, &ServiceRecord::ns);
  if (record == records.end()) return {};
  const ServiceParts* const parts = (*record)->parts();
  if (parts == nullptr || parts->clusters().empty()) return {};
  const auto visible = [&](std::size_t part) {
    const ServiceRecord& of_part = *parts->all()[part];
    return sees(host.host(), of_part) ? &of_part : nullptr;
  };
  const std::size_t own = own_cluster_part(*parts);
  return {own == 0 ? nullptr : visible(own),
          settings().clusters == ClusterChoice::LocalOnly ? nullptr : visible(0)};
}

void View::settle_cluster(Match& match, Trace* trace) const {
  if (!match.service->partial) [[likely]]
    return;
  if (match.below.starts_with('_') || match.below.find('.') != std::string_view::npos) return;
  const ClusterParts of = cluster_parts(*match.entry, *match.service);
  if (of.own != nullptr && has_endpoint(*of.own, match.below)) {
    match.service = of.own;
  } else if (of.all != nullptr && has_endpoint(*of.all, match.below)) {
    match.service = of.all;
    if (trace != nullptr && of.own != nullptr && !trace->is_full())
      trace->steps.push_back({"endpoint " + std::string(match.below),
                              "of another cluster: the client's cluster has none of that name",
                              false});
  }
}

bool View::merges_members(const ServiceRecord& record) const {
  const ServiceParts* const parts = record.parts();
  return parts != nullptr && !parts->clusters().empty() && own_cluster_part(*parts) != 0 &&
         service_part(*parts) == 0;
}

const StoredRef* View::answering_service(const ServiceRecord& record) const {
  if (!client_.cluster || merges_members(record)) return nullptr;
  if (const ServiceParts* const parts = record.parts(); parts && !parts->clusters().empty()) {
    const std::size_t own = own_cluster_part(*parts);
    return own == 0 ? nullptr : find_service_of(record, parts->clusters()[own - 1]->text());
  }
  const StoredRef* const own = find_service_of(record, client_.cluster->text());
  if (own != nullptr || !record.split) return own;
  return find_service_of(record, "");
}

// Explains why the Services of other clusters than the one that answers do not.
void View::explain_clusters(const ServiceRecord& record, Trace& trace) const {
  if (!client_.cluster || !is_told_apart(record) || merges_members(record)) return;
  const StoredRef* const answering = answering_service(record);
  const std::string own(client_.cluster->text());
  const bool is_local_only = settings().clusters == ClusterChoice::LocalOnly;
  for_each_service(record, [&](const StoredRef& source) {
    if (trace.is_full()) return false;
    const std::string_view cluster = source->cluster();
    if (answering != nullptr && cluster != (*answering)->cluster()) {
      const std::string which((*answering)->cluster());
      trace.steps.push_back(
          {describe_source(source, snapshot_),
           which.empty() ? "hidden: a source without a cluster has the Service for all clusters"
                         : "hidden: cluster " + which + " has its own Service",
           is_local_only});
    } else if (answering == nullptr && is_local_only) {
      trace.steps.push_back(
          {describe_source(source, snapshot_),
           "hidden: it is not of the client's cluster " + own + " (mesh.clusters: local-only)",
           true});
    } else if (answering == nullptr && cluster == own) {
      trace.steps.push_back({describe_source(source, snapshot_),
                             "passed over: it has no address or ready endpoint; the Services of "
                             "other clusters answer",
                             false});
    }
    return true;
  });
}

std::string View::why_of_cluster(const ServiceRecord& record) const {
  if (record.provider != Provider::Kubernetes) return {};
  if (!client_.cluster)
    return has_several_clusters(record) ? "; of all clusters: that of the client is unknown" : "";
  const std::string own(client_.cluster->text());
  if (merges_members(record))
    return "; members of all clusters, those of " + own + " first by name (mesh.clusters: merge)";
  if (const StoredRef* const answering = answering_service(record)) {
    if (!has_several_clusters(record)) return {};
    const std::string_view cluster = (*answering)->cluster();
    return cluster.empty() ? "; of a source without a cluster"
                           : "; of the client's cluster " + std::string(cluster);
  }
  const bool is_foreign = [&] {
    bool found = false;
    for_each_service(record, [&](const StoredRef& source) {
      found = !source->cluster().empty();
      return !found;
    });
    return found;
  }();
  return is_foreign ? "; the client's cluster " + own + " has no answer of its own" : "";
}

}  // namespace meshdns::registry
