// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/watch_plan.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace meshdns::registry::kubernetes {
namespace {

constexpr std::string_view kHeadless = "service.kubernetes.io/headless";
// Slices made by hand, or mirrored from Endpoints, lack the label even if their Service is
// headless.
constexpr std::string_view kNotOfTheController =
    "!service.kubernetes.io/headless,"
    "endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io";
const std::string kByController =
    "!service.kubernetes.io/headless,"
    "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io,"
    "kubernetes.io/service-name=";
constexpr std::string_view kOfIstio = ".networking.istio.io";
constexpr std::string_view kRunning = "status.phase!=Succeeded,status.phase!=Failed";

struct GatewayKind {
  Kind kind;
  std::string_view plural;
  std::string_view group;
};
constexpr std::array kGatewayKinds = {
    GatewayKind{Kind::Gateway, "gateways", "gateway.networking.k8s.io"},
    GatewayKind{Kind::HttpRoute, "httproutes", "gateway.networking.k8s.io"},
    GatewayKind{Kind::TlsRoute, "tlsroutes", "gateway.networking.k8s.io"},
    GatewayKind{Kind::GrpcRoute, "grpcroutes", "gateway.networking.k8s.io"},
    GatewayKind{Kind::Ingress, "ingresses", "networking.k8s.io"},
};

constexpr std::array<std::string_view, 8> kCrds = {"gateways.gateway.networking.k8s.io",
                                                   "httproutes.gateway.networking.k8s.io",
                                                   "tlsroutes.gateway.networking.k8s.io",
                                                   "grpcroutes.gateway.networking.k8s.io",
                                                   "serviceexports.multicluster.x-k8s.io",
                                                   "serviceimports.multicluster.x-k8s.io",
                                                   "serviceexports.net.gke.io",
                                                   "serviceimports.net.gke.io"};

class Planner {
 public:
  Planner(const WatchNeeds& needs, const ServedKinds& served) : needs_(needs), served_(served) {}

  std::vector<PlannedCollection> plan() {
    add_namespaces();
    add("services", "", Kind::Service, {}, {}, {});
    for (auto& services : plan_) services.is_required |= services.kind == Kind::Service;
    add_endpoints();
    add_served("serviceentries", "networking.istio.io", Kind::ServiceEntry);
    add_served("workloadentries", "networking.istio.io", Kind::WorkloadEntry);
    add_served("sidecars", "networking.istio.io", Kind::Sidecar);
    add_served("virtualservices", "networking.istio.io", Kind::VirtualService);
    add_root_sidecars();
    add_mesh_config();
    for (const std::string_view group : {"multicluster.x-k8s.io", "net.gke.io"}) {
      add_served("serviceexports", group, Kind::ServiceExport);
      add_served("serviceimports", group, Kind::ServiceImport);
    }
    for (const GatewayKind& each : kGatewayKinds)
      if (std::ranges::find(needs_.gateway_kinds, each.kind) != needs_.gateway_kinds.end())
        add_served(each.plural, each.group, each.kind);
    add_pods();
    add_nodes();
    return std::move(plan_);
  }

 private:
  // Adds one collection for each configured namespace, or one for all.
  void add(std::string_view plural, std::string_view group, Kind kind, std::string_view variant,
           std::string_view label_selector, std::string_view field_selector) {
    if (needs_.namespaces.empty())
      add_in({}, plural, group, kind, variant, label_selector, field_selector);
    for (const auto& ns : needs_.namespaces)
      add_in(ns, plural, group, kind, variant, label_selector, field_selector);
  }

  PlannedCollection& add_in(std::string_view ns, std::string_view plural, std::string_view group,
                            Kind kind, std::string_view variant, std::string_view label_selector,
                            std::string_view field_selector) {
    PlannedCollection planned;
    planned.resource = plural;
    std::string version = "v1";
    if (!group.empty()) {
      planned.resource += "." + std::string(group);
      version = served_.at(planned.resource);
    }
    planned.label = planned.resource;
    if (!variant.empty()) planned.label += "[" + std::string(variant) + "]";
    if (!ns.empty()) planned.label += "@" + std::string(ns);
    planned.kind = kind;
    planned.ns = ns;
    Collection& collection = planned.collection;
    collection.api_version = group.empty() ? version : std::string(group) + "/" + version;
    collection.path = (group.empty() ? "/api/" : "/apis/") + collection.api_version;
    if (!ns.empty()) collection.path += "/namespaces/" + std::string(ns);
    collection.path += "/" + std::string(plural);
    collection.kind = to_string(kind);
    collection.label_selector = label_selector;
    collection.field_selector = field_selector;
    plan_.push_back(std::move(planned));
    return plan_.back();
  }

  bool is_served(const std::string& resource) const { return served_.contains(resource); }

  void add_served(std::string_view plural, std::string_view group, Kind kind) {
    if (is_served(std::string(plural) + "." + std::string(group)))
      add(plural, group, kind, {}, {}, {});
  }

  // Only their names and labels matter.
  void add_namespaces() {
    if (needs_.namespaces.empty())
      add_in({}, "namespaces", "", Kind::Namespace, {}, {}, {}).collection.content =
          Content::Metadata;
    for (const auto& ns : needs_.namespaces) add_namespace(ns);
    // The network of the cluster is a label of it.
    if (const std::string_view root = needs_.root_namespace;
        !needs_.namespaces.empty() &&
        std::ranges::find(needs_.namespaces, root) == needs_.namespaces.end())
      add_namespace(root).is_optional = true;
  }

  PlannedCollection& add_namespace(std::string_view ns) {
    PlannedCollection& planned =
        add_in({}, "namespaces", "", Kind::Namespace, ns, {}, "metadata.name=" + std::string(ns));
    planned.collection.content = Content::Metadata;
    return planned;
  }

  void add_endpoints() {
    constexpr std::string_view group = "discovery.k8s.io";
    if (!is_served("endpointslices.discovery.k8s.io")) {
      add("endpoints", "", Kind::Endpoints, {}, {}, {});
    } else if (needs_.all_slices) {
      add("endpointslices", group, Kind::EndpointSlice, {}, {}, {});
    } else {
      add_slices(SliceChoice::Labelled, "headless", kHeadless);
      add_slices(SliceChoice::Other, "other", kNotOfTheController);
      if (needs_.searched) add_searched_slices(*needs_.searched);
    }
  }

  void add_slices(SliceChoice choice, std::string_view variant, std::string_view selector) {
    const std::size_t first = plan_.size();
    add("endpointslices", "discovery.k8s.io", Kind::EndpointSlice, variant, selector, {});
    for (auto& planned : std::span(plan_).subspan(first)) planned.slices = choice;
  }

  void add_searched_slices(const SliceSearch::Target& searched) {
    PlannedCollection& planned = add_in(searched.ns, "endpointslices", "discovery.k8s.io",
                                        Kind::EndpointSlice, {}, kByController + searched.name, {});
    planned.label = kNamedSlices;
    planned.collection.is_watched = false;
    planned.slices = SliceChoice::Named;
    planned.revision = searched.turn;
  }

  // The mesh's own Sidecars count for every namespace.
  void add_root_sidecars() {
    const auto& chosen = needs_.namespaces;
    if (chosen.empty() || !is_served("sidecars.networking.istio.io")) return;
    if (std::ranges::find(chosen, needs_.root_namespace) != chosen.end()) return;
    add_in(needs_.root_namespace, "sidecars", "networking.istio.io", Kind::Sidecar, {}, {}, {});
  }

  // Only where Istio is: a cluster without it grants nothing of its namespace.
  void add_mesh_config() {
    const bool has_istio = std::ranges::any_of(
        served_, [](const auto& kind) { return kind.first.ends_with(kOfIstio); });
    const std::string_view config_map = needs_.istio_config_map;
    if (config_map.empty() || !has_istio) return;
    const std::size_t slash = config_map.find('/');
    std::string field_selector = "metadata.name=";
    field_selector += config_map.substr(slash + 1);
    add_in(config_map.substr(0, slash), "configmaps", "", Kind::ConfigMap, {}, {}, field_selector)
        .is_optional = true;
  }

  void add_pods() {
    if (needs_.all_pods || (needs_.client_pods && needs_.node_name.empty())) {
      add("pods", "", Kind::Pod, {}, {}, kRunning);
      return;
    }
    std::string elsewhere(kRunning);
    if (needs_.client_pods) {
      add("pods", "", Kind::Pod, "node", {},
          "spec.nodeName=" + needs_.node_name + "," + std::string(kRunning));
      elsewhere += ",spec.nodeName!=" + needs_.node_name;
    }
    for (const auto& ns : needs_.selected_pods)
      add_in(ns, "pods", "", Kind::Pod, "selected", {}, elsewhere);
  }

  // Their labels alone: their status changes all the time.  Without Pods of other nodes, the own
  // one is enough.
  void add_nodes() {
    if (!needs_.node_places || (needs_.node_name.empty() && !needs_.client_pods)) return;
    const bool is_one =
        !needs_.node_name.empty() && !needs_.all_pods && needs_.selected_pods.empty();
    PlannedCollection& nodes =
        add_in({}, "nodes", "", Kind::Node, is_one ? needs_.node_name : std::string(), {},
               is_one ? "metadata.name=" + needs_.node_name : std::string());
    nodes.collection.content = Content::Metadata;
    nodes.is_optional = true;
  }

  const WatchNeeds& needs_;
  const ServedKinds& served_;
  std::vector<PlannedCollection> plan_;
};

}  // namespace

std::vector<PlannedCollection> plan_watches(const WatchNeeds& needs, const ServedKinds& served) {
  return Planner(needs, served).plan();
}

Collection crd_collection() {
  Collection collection;
  collection.api_version = "apiextensions.k8s.io/v1";
  collection.path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  collection.kind = "CustomResourceDefinition";
  collection.content = Content::Metadata;
  return collection;
}

bool is_crd_of_interest(std::string_view name) {
  return std::ranges::find(kCrds, name) != kCrds.end() || name.ends_with(kOfIstio);
}

bool is_plan_dependent_on(std::string_view kind) {
  return is_crd_of_interest(kind) || kind == "endpointslices.discovery.k8s.io" ||
         kind == "ingresses.networking.k8s.io";
}

}  // namespace meshdns::registry::kubernetes
