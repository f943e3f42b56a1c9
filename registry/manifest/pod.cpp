// SPDX-License-Identifier: Apache-2.0
// core/v1 Pod: the owner of an address, and the place of a client.
#include <algorithm>
#include <iterator>

#include "registry/base/host_name.hpp"
#include "registry/manifest/object.hpp"
#include "registry/manifest/validate.hpp"
#include "registry/model/labels.hpp"

namespace meshdns::registry {

namespace {

constexpr std::string_view kTemplates = "inject.istio.io/templates";
constexpr auto& kDnsPolicies = words<"ClusterFirst ClusterFirstWithHostNet Default None">;

// Kubernetes has one address for each family of a Pod, and a hand-written Pod few more.  The bound
// keeps one object from costing as much as thousands.
constexpr std::size_t kMaxPodAddresses = 64;
// Kubernetes' own bound of dnsConfig.searches.
constexpr std::size_t kMaxSearches = 32;

void check_label(Report& report, const Field& field) {
  const std::string_view text = read_string_or_empty(report, field);
  if (!text.empty() && !is_label(text))
    report.error(field, in_quotes(text) + " is not a label of a host name");
}

void read_dns_policy(Report& report, const Field& at, Pod& pod) {
  pod.dns_policy_none = kDnsPolicies[read_choice_or_first(report, at, kDnsPolicies)] == "None";
}

void read_searches(Report& report, const Field& list, Pod& pod) {
  if (is_too_long(report, list, kMaxSearches, "Kubernetes")) return;
  for_each_string(report, list, [&](const Field& at, std::string_view text) {
    // "." means no search at all, and has nothing to expand with.
    if (text == ".") return;
    if (auto reason = why_no_fqdn(text))
      return report.warning(at, in_quotes(text) + " " + *reason + "; it is ignored");
    pod.searches.push_back(canonical_host(text));
  });
}

constexpr Message kDnsConfig{FieldRule{"searches", read_searches}, words<"nameservers options">};
constexpr Message kPodSpec{
    FieldRule{"hostNetwork", &Pod::host_network},
    FieldRule{"nodeName", &Pod::node_name},
    FieldRule{"serviceAccountName", &Pod::service_account},
    FieldRule{"hostname", check_label},
    FieldRule{"subdomain", check_label},
    FieldRule{"dnsPolicy", read_dns_policy},
    FieldRule{"dnsConfig", nested<kDnsConfig>},
    words<"activeDeadlineSeconds affinity automountServiceAccountToken containers "
          "enableServiceLinks ephemeralContainers hostAliases hostIPC hostPID hostUsers "
          "hostnameOverride imagePullSecrets initContainers nodeSelector os overhead "
          "preemptionPolicy priority priorityClassName readinessGates resourceClaims resources "
          "restartPolicy runtimeClassName schedulerName schedulingGates securityContext "
          "serviceAccount setHostnameAsFQDN shareProcessNamespace terminationGracePeriodSeconds "
          "tolerations topologySpreadConstraints volumes workloadRef">};

// The node type in the arguments `proxy TYPE` of Istio's agent; empty where no container runs it.
// Since Kubernetes 1.29 a sidecar may be an init container.
std::string_view proxy_type_of(const Node& spec) {
  for (const std::string_view list : {"containers", "initContainers"}) {
    const Node* const containers = spec.find(list);
    if (containers == nullptr || !containers->is_sequence()) continue;
    for (const Node& container : *containers) {
      const Node* const args = container.find("args");
      if (args == nullptr || !args->is_sequence() || args->size() < 2) continue;
      const auto first = args->begin();
      if (first->value() == "proxy") return std::next(first)->value();
    }
  }
  return {};
}

// Returns whether the annotation, a list with commas, has a template for gateways.
bool has_gateway_template(std::string_view templates) {
  bool is_one = false;
  for_each_part(templates, " ", [&](std::string_view name) {
    is_one |= name == "gateway" || name == "kube-gateway" || name == "waypoint";
  });
  return is_one;
}

// As Istio knows the type of a proxy: by what it runs with.  Before the injection, and in a
// manifest, the template tells.  Labels do not count: any Pod may have them.
bool is_gateway(const Object& object, const Node* spec) {
  const std::string_view type = spec == nullptr ? std::string_view() : proxy_type_of(*spec);
  if (!type.empty()) return type == "router" || type == "waypoint";
  return has_gateway_template(object.annotation(kTemplates).value_or(std::string_view()));
}

// `name` without "-" and `end`; whole, if it does not end so.
std::string_view without_end(std::string_view name, std::string_view end) {
  const bool ends_so = !end.empty() && name.size() > end.size() + 1 && name.ends_with(end) &&
                       name[name.size() - end.size() - 1] == '-';
  return ends_so ? name.substr(0, name.size() - end.size() - 1) : name;
}

// A CronJob's Jobs are called after the minute that they are for, in Unix time.
std::string_view without_minute(std::string_view job) {
  constexpr std::size_t kMinuteDigits = 8;
  const std::size_t dash = job.rfind('-');
  if (dash == std::string_view::npos) return job;
  const std::string_view end = job.substr(dash + 1);
  const bool is_minute = end.size() == kMinuteDigits &&
                         std::ranges::all_of(end, [](char c) { return c >= '0' && c <= '9'; });
  return is_minute ? without_end(job, end) : job;
}

// The API server gives a Deployment's Pods to a ReplicaSet, and a CronJob's to a Job; the names of
// both lead to it.
std::string_view read_owner(const Object& object) {
  const Node* const metadata = object.root->find("metadata");
  const Node* const owners = metadata == nullptr ? nullptr : metadata->find("ownerReferences");
  if (owners == nullptr || !owners->is_sequence()) return {};
  for (const Node& owner : *owners) {
    if (!owner.is_mapping() || member_text(owner, "controller") != "true") continue;
    const std::string_view kind = member_text(owner, "kind");
    const std::string_view name = member_text(owner, "name");
    if (kind == "ReplicaSet")
      return without_end(name, object.label("pod-template-hash").value_or(std::string_view()));
    return kind == "Job" ? without_minute(name) : name;
  }
  return {};
}

void read_ips(Report& report, const Field& status, Pod& pod) {
  const Node* const list = status->find("podIPs");
  const Node* const single = status->find("podIP");
  if (list != nullptr && !list->is_null()) {
    const Field field(status, *list);
    if (is_too_long(report, field, kMaxPodAddresses, "meshdns")) return;
    for_each_element(report, field, [&](const Field& at) {
      const Node* const ip = at->find("ip");
      // The API has an address that is not there yet as an empty one.
      if (ip == nullptr || ip->is_null() || ip->as_string() == "") return;
      if (const auto address = read_ip(report, Field(at, *ip))) pod.ips.push_back(*address);
    });
  }
  if (!pod.ips.empty() || single == nullptr || single->is_null() || single->value().empty()) return;
  if (const auto address = read_ip(report, Field(status, *single))) pod.ips.push_back(*address);
}

}  // namespace

Resource read_pod(Object& object) {
  const Fields fields(object.report, object.root, kObject);
  Pod pod;
  pod.running = !object.is_being_deleted;
  bool is_over = false;
  const auto spec = fields.get("spec");
  // A Pod written by hand to name the owner of an address needs no spec.
  if (spec) read_message(object.report, *spec, kPodSpec, pod);
  pod.is_gateway = is_gateway(object, spec ? &spec->node() : nullptr);
  const auto status = fields.get("status");
  if (status && require_mapping(object.report, *status)) {
    read_ips(object.report, *status, pod);
    pod.ready = find_condition(&status->node(), "Ready", "True") != nullptr;
    const std::string_view word = member_text(status->node(), "phase");
    is_over = word == "Succeeded" || word == "Failed";
    if (is_over || word == "Unknown") pod.running = false;
  }
  pod.leaving = !pod.running && !is_over;
  // Nobody asks for the owner of a Pod whose labels have its name.
  const std::string_view owner =
      canonical_name(object.meta.labels).empty() ? read_owner(object) : std::string_view();
  pod.meta = std::move(object.meta);
  if (!owner.empty()) set_owner(pod, owner);
  if (const auto network = network_label(pod.meta.labels); !network.empty())
    pod.meta.network = network;
  return pod;
}

}  // namespace meshdns::registry
