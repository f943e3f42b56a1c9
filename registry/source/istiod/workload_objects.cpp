// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/workload_objects.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "registry/base/each_once.hpp"
#include "registry/base/enum_text.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry::istiod {
namespace {

// As of Kubernetes' names.
constexpr std::size_t kMaxText = 253;
// A cluster, a kind, a namespace, and the names of an object and of a part of it.
constexpr std::size_t kMaxUid = 700;
// A Pod has two addresses, and a service two in each network.
constexpr std::size_t kMaxAddresses = 64;
// Limit of ports: a Kubernetes Service has it by the size of its object, and a ServiceEntry too.
constexpr std::size_t kMaxPorts = 256;
// Limits for one workload.  Each service may cost an EndpointSlice.
constexpr std::size_t kMaxServices = 256;
constexpr std::size_t kMaxAlternativeNames = 256;
// More digits are the random end of a DaemonSet's Pod.
constexpr std::size_t kMaxOrdinalDigits = 4;

using Objects = Result<std::vector<Resource>>;
using Complaint = std::optional<std::string>;

// A field that is shown or compared must be text.
Complaint why_no_text(std::string_view field, std::string_view text, std::size_t max = kMaxText) {
  if (text.size() > max)
    return std::string(field) + ": has more than " + std::to_string(max) + " octets";
  if (std::ranges::any_of(text, [](char c) { return c <= ' ' || c > '~'; }))
    return std::string(field) + ": " + registry::in_quotes(text) +
           " has characters that no name has";
  return std::nullopt;
}

Complaint why_too_many(std::string_view field, std::size_t size, std::size_t max) {
  if (size <= max) return std::nullopt;
  return std::string(field) + ": has more than " + std::to_string(max) + " elements";
}

Complaint why_no_namespace(std::string_view ns) {
  if (is_lower_label(ns)) return std::nullopt;
  return "namespace: " + registry::in_quotes(ns) + " is not the name of a namespace";
}

std::optional<IpAddress> address_of(std::string_view octets) {
  std::array<std::uint8_t, 4> v4{};
  std::array<std::uint8_t, 16> v6{};
  if (octets.size() == v4.size()) {
    std::memcpy(v4.data(), octets.data(), v4.size());
    return IpAddress::v4(v4);
  }
  if (octets.size() != v6.size()) return std::nullopt;
  std::memcpy(v6.data(), octets.data(), v6.size());
  return IpAddress::v6(v6);
}

Complaint why_no_address(std::string_view octets, std::size_t index) {
  if (octets.size() == 4 || octets.size() == 16) return std::nullopt;
  return list_element("addresses", index) + ": has " + std::to_string(octets.size()) +
         " octets; an IP address has 4 or 16";
}

Complaint why_no_ports(std::string_view field, const std::vector<ApiPort>& ports) {
  constexpr std::uint32_t kLastPort = std::numeric_limits<std::uint16_t>::max();
  if (auto why = why_too_many(field, ports.size(), kMaxPorts)) return why;
  for (std::size_t i = 0; i < ports.size(); ++i)
    if (ports[i].service_port == 0 || ports[i].service_port > kLastPort ||
        ports[i].target_port > kLastPort)
      return list_element(field, i) + ": is not a port between 1 and 65535";
  return std::nullopt;
}

std::string_view word_of(ApiProtocol protocol) {
  return enum_text<ApiProtocol::Tls>(protocol, {"", "HTTP", "HTTP2", "GRPC", "TCP", "TLS"});
}

// --- Names ---------------------------------------------------------------------------------------

// "NAMESPACE/HOST", as services are called.
struct ServiceName {
  std::string ns;
  std::string host;          // canonical
  std::string kube_service;  // the Kubernetes Service of that host; empty if it is of another form

  std::string to_string() const { return ns + "/" + host; }
};

ServiceName service_name(std::string_view ns, std::string_view host, const WorkloadRules& rules) {
  ServiceName name{std::string(ns), canonical_host(host), {}};
  const std::string suffix = name.ns + ".svc." + canonical_host(rules.cluster_domain);
  if (!is_below(name.host, suffix)) return name;
  const std::string_view first =
      std::string_view(name.host).substr(0, name.host.size() - suffix.size() - 1);
  if (is_lower_label(first)) name.kube_service = first;
  return name;
}

std::optional<ServiceName> parse_service_name(std::string_view text, const WorkloadRules& rules) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos || text.find('/', slash + 1) != std::string_view::npos)
    return std::nullopt;
  return service_name(text.substr(0, slash), text.substr(slash + 1), rules);
}

ResourceKey key_of_service(const ServiceName& name) {
  if (name.kube_service.empty()) return {Kind::ServiceEntry, {}, name.ns, name.host};
  return {Kind::Service, {}, name.ns, name.kube_service};
}

// "CLUSTER/GROUP/KIND/NAMESPACE/NAME..." of an object of Kubernetes, or any other text.
struct WorkloadUid {
  std::string cluster;
  std::string ns;
  std::string pod;  // empty: no Pod

  static WorkloadUid parse(std::string_view text);
};

WorkloadUid WorkloadUid::parse(std::string_view text) {
  std::array<std::string_view, 5> parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    const auto end = is_last ? text.size() : text.find('/');
    if (end == std::string_view::npos) return {};
    parts[i] = text.substr(0, end);
    text.remove_prefix(is_last ? end : end + 1);
  }
  const auto& [cluster, group, kind, ns, name] = parts;
  if (ns.empty() || name.empty()) return {};
  const bool is_pod = group.empty() && kind == "Pod" && is_lower_subdomain(name);
  return {std::string(cluster), std::string(ns), std::string(is_pod ? name : "")};
}

// --- Services ------------------------------------------------------------------------------------

class ServiceObjects {
 public:
  ServiceObjects(const ApiService& service, const WorkloadRules& rules)
      : service_(service),
        rules_(rules),
        name_(service_name(service.ns, service.hostname, rules)) {}

  Objects run(std::string_view resource) const {
    if (auto why = complaint(resource)) return fail(*std::move(why));
    if (name_.kube_service.empty()) return std::vector<Resource>{entry()};
    return std::vector<Resource>{kube_service()};
  }

 private:
  Complaint complaint(std::string_view resource) const {
    if (auto why = why_no_namespace(service_.ns)) return why;
    if (auto why = why_no_wildcard_domain(name_.host); why || name_.host == "*")
      return "hostname: " + registry::in_quotes(service_.hostname) + " " +
             why.value_or("covers all names");
    if (resource != service_.ns + "/" + service_.hostname)
      return "hostname: the service is " + registry::in_quotes(name_.to_string());
    if (auto why = why_no_ports("ports", service_.ports)) return why;
    if (auto why = why_no_names()) return why;
    return why_no_addresses();
  }

  Complaint why_no_names() const {
    const auto& names = service_.subject_alt_names;
    if (auto why = why_too_many("subject_alt_names", names.size(), kMaxAlternativeNames))
      return why;
    for (const std::string& name : names)
      if (auto why = why_no_text("subject_alt_names", name)) return why;
    return std::nullopt;
  }

  Complaint why_no_addresses() const {
    const auto& addresses = service_.addresses;
    if (auto why = why_too_many("addresses", addresses.size(), kMaxAddresses)) return why;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const ApiNetworkAddress& one = addresses[i];
      if (auto why = why_no_address(one.octets, i)) return why;
      if (one.length.value_or(0) > full_length(one))
        return list_element("addresses", i) + ": has a longer prefix than an address has bits";
    }
    return std::nullopt;
  }

  // As address_of() counts the family.
  static std::uint32_t full_length(const ApiNetworkAddress& one) {
    return address_of(one.octets)->is_v4() ? 32 : 128;
  }

  // An address without a network is one of all networks, as that of an endpoint is.
  bool is_reached(std::string_view network) const {
    return network.empty() || rules_.network.empty() || network == rules_.network;
  }

  // The prefixes that clients of this network reach.
  std::vector<IpPrefix> prefixes() const {
    std::vector<IpPrefix> found;
    for (const ApiNetworkAddress& one : service_.addresses)
      if (is_reached(one.network))
        found.push_back({*address_of(one.octets),
                         static_cast<std::uint8_t>(one.length.value_or(full_length(one)))});
    return found;
  }

  // The object that istiod prefers outside of a namespace counts as the oldest.
  ObjectMeta meta(std::string name) const {
    ObjectMeta meta;
    meta.name = std::move(name);
    meta.ns = name_.ns;
    meta.creation_time = service_.is_canonical ? kUnknownCreationTime : 0;
    return meta;
  }
  ExportTo export_to() const { return {service_.is_private ? "." : "*"}; }

  KubeService kube_service() const {
    KubeService object;
    object.meta = meta(name_.kube_service);
    object.headless = service_.addresses.empty();
    for (const IpPrefix& prefix : prefixes())
      if (prefix.is_single()) object.cluster_ips.push_back(prefix.address);
    for (const ApiPort& port : service_.ports)
      object.ports.push_back({static_cast<std::uint16_t>(port.service_port),
                              static_cast<std::uint16_t>(port.target_port),
                              {},
                              "TCP",
                              to_lower(word_of(port.protocol))});
    object.publish_not_ready_addresses = service_.allows_unhealthy;
    object.export_to = export_to();
    if (service_.ip_families == ApiFamilies::Ipv4Only) set_only_family(object, "IPv4");
    if (service_.ip_families == ApiFamilies::Ipv6Only) set_only_family(object, "IPv6");
    return object;
  }

  // istiod has allocated what it wants to have allocated.  Resolution DNS lets workloads be names.
  ServiceEntry entry() const {
    ServiceEntry object;
    object.meta = meta(name_.host);
    object.hosts = {name_.host};
    object.addresses = prefixes();
    object.resolution = Resolution::Dns;
    object.auto_allocate = false;
    for (const ApiPort& port : service_.ports)
      object.ports.push_back({static_cast<std::uint16_t>(port.service_port),
                              static_cast<std::uint16_t>(port.target_port),
                              {},
                              std::string(word_of(port.protocol))});
    object.workload_selector = Labels{{name_.to_string(), ""}};
    object.subject_alt_names = service_.subject_alt_names;
    object.export_to = export_to();
    return object;
  }

  const ApiService& service_;
  const WorkloadRules& rules_;
  const ServiceName name_;
};

// --- Workloads -----------------------------------------------------------------------------------

class WorkloadObjects {
 public:
  WorkloadObjects(const ApiWorkload& workload, const WorkloadRules& rules)
      : workload_(workload), rules_(rules), uid_(WorkloadUid::parse(workload.uid)) {}

  Objects run(std::string_view resource) {
    if (auto why = complaint(resource)) return fail(*std::move(why));
    for (const auto& [service, ports] : workload_.services)
      if (auto why = add_service(service, ports)) return fail(*std::move(why));
    // A map's order is not that of its keys.
    sort_each_once(labels_);
    add_identity();
    return std::move(objects_);
  }

 private:
  const std::string& ns() const { return uid_.ns.empty() ? workload_.ns : uid_.ns; }

  Complaint complaint(std::string_view resource) const {
    if (workload_.uid.empty()) return "uid: is missing";
    if (auto why = why_no_text("uid", workload_.uid, kMaxUid)) return why;
    if (resource != workload_.uid)
      return "uid: the workload is " + registry::in_quotes(workload_.uid);
    if (auto why = why_no_namespace(ns())) return why;
    if (!workload_.ns.empty() && workload_.ns != ns())
      return "namespace: is " + registry::in_quotes(workload_.ns) + ", but that of uid is " +
             registry::in_quotes(ns());
    if (!workload_.hostname.empty() && !is_fqdn(workload_.hostname))
      return "hostname: " + registry::in_quotes(workload_.hostname) + " is not a host name";
    if (auto why = why_too_many("services", workload_.services.size(), kMaxServices)) return why;
    if (auto why = why_no_addresses()) return why;
    return why_no_texts();
  }

  Complaint why_no_addresses() const {
    const auto& addresses = workload_.addresses;
    if (auto why = why_too_many("addresses", addresses.size(), kMaxAddresses)) return why;
    for (std::size_t i = 0; i < addresses.size(); ++i)
      if (auto why = why_no_address(addresses[i], i)) return why;
    return std::nullopt;
  }

  Complaint why_no_texts() const {
    const std::pair<std::string_view, const std::string*> texts[] = {
        {"network", &workload_.network},
        {"cluster_id", &workload_.cluster_id},
        {"service_account", &workload_.service_account},
        {"node", &workload_.node},
        {"locality.region", &workload_.region},
        {"locality.zone", &workload_.zone},
        {"locality.subzone", &workload_.subzone}};
    for (const auto& [field, text] : texts)
      if (auto why = why_no_text(field, *text)) return why;
    return std::nullopt;
  }

  Complaint add_service(std::string_view text, const std::vector<ApiPort>& ports) {
    const auto name = parse_service_name(text, rules_);
    if (!name || !is_lower_label(name->ns) || !is_wildcard_domain(name->host))
      return "services: " + registry::in_quotes(text) + " is not a namespace and a host name";
    if (auto why = why_no_ports("services", ports)) return why;
    if (!name->kube_service.empty())
      add_slice(*name, ports);
    else if (name->ns == ns())
      labels_.emplace_back(name->to_string(), "");
    return std::nullopt;
  }

  void add_slice(const ServiceName& service, const std::vector<ApiPort>& ports) {
    if (workload_.addresses.empty()) return;
    EndpointSlice slice;
    slice.meta.name = service.kube_service + "/" + workload_.uid;
    slice.meta.ns = service.ns;
    slice.meta.network = workload_.network;
    slice.service = service.kube_service;
    EndpointSubset& subset = slice.subsets.emplace_back();
    for (const ApiPort& port : ports)
      subset.ports.push_back(
          {static_cast<std::uint16_t>(port.target_port == 0 ? port.service_port : port.target_port),
           0,
           {},
           "TCP"});
    Endpoint& endpoint = subset.endpoints.emplace_back();
    endpoint.addresses = addresses();
    endpoint.ready = workload_.is_healthy;
    endpoint.hostname = label_below(service);
    endpoint.target_name = uid_.pod;
    endpoint.node_name = workload_.node;
    endpoint.zone = workload_.zone;
    objects_.emplace_back(std::move(slice));
  }

  // The label of the workload's own name below the service.  istiod does not send those of
  // StatefulSets, whose Pods are called by it.
  std::string label_below(const ServiceName& service) const {
    std::string host = canonical_host(workload_.hostname);
    if (is_label(host)) return host;
    if (is_below(host, service.host) && parent_of(host) == service.host)
      return host.substr(0, host.find('.'));
    return workload_.is_plain_pod && is_label(uid_.pod) && has_ordinal(uid_.pod) ? uid_.pod : "";
  }

  // "db-0".
  static bool has_ordinal(std::string_view pod) {
    const auto digits = pod.substr(pod.rfind('-') + 1);
    return digits.size() < pod.size() && !digits.empty() && digits.size() <= kMaxOrdinalDigits &&
           (digits == "0" || digits.front() != '0') &&
           std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  }

  std::vector<IpAddress> addresses() const {
    std::vector<IpAddress> found;
    for (const std::string& octets : workload_.addresses) found.push_back(*address_of(octets));
    return found;
  }

  void add_identity() {
    if (!uid_.pod.empty()) return add_pod();
    if (workload_.addresses.empty() && !workload_.hostname.empty())
      return add_entry(canonical_host(workload_.hostname), 0);
    const std::vector<IpAddress> all = addresses();
    for (std::size_t i = 0; i < all.size(); ++i) add_entry(all[i].to_string(), i);
  }

  ObjectMeta meta(std::string name) const {
    ObjectMeta meta;
    meta.name = std::move(name);
    meta.ns = ns();
    meta.cluster = uid_.ns.empty() ? workload_.cluster_id : uid_.cluster;
    meta.network = workload_.network;
    meta.labels = labels_;
    return meta;
  }

  void add_pod() {
    Pod pod;
    pod.meta = meta(uid_.pod);
    pod.ips = addresses();
    pod.host_network = workload_.has_host_network;
    pod.ready = workload_.is_healthy;
    pod.node_name = workload_.node;
    pod.service_account = workload_.service_account;
    objects_.emplace_back(std::move(pod));
  }

  // A WorkloadEntry has one address.
  void add_entry(std::string address, std::size_t index) {
    WorkloadEntry entry;
    entry.meta = meta(index == 0 ? workload_.uid : workload_.uid + "#" + std::to_string(index));
    entry.spec.address = std::move(address);
    entry.spec.network = workload_.network;
    entry.spec.locality = locality();
    entry.spec.service_account = workload_.service_account;
    entry.healthy = workload_.is_healthy;
    objects_.emplace_back(std::move(entry));
  }

  std::string locality() const {
    if (workload_.region.empty() || workload_.zone.empty()) return workload_.region;
    const std::string zone = workload_.region + "/" + workload_.zone;
    return workload_.subzone.empty() ? zone : zone + "/" + workload_.subzone;
  }

  const ApiWorkload& workload_;
  const WorkloadRules& rules_;
  const WorkloadUid uid_;
  Labels labels_;  // the services that are ServiceEntries
  std::vector<Resource> objects_;
};

}  // namespace

Result<std::vector<Resource>> objects_of(const ApiAddress& address, std::string_view name,
                                         const WorkloadRules& rules) {
  if (const auto* service = std::get_if<ApiService>(&address))
    return ServiceObjects(*service, rules).run(name);
  if (const auto* workload = std::get_if<ApiWorkload>(&address))
    return WorkloadObjects(*workload, rules).run(name);
  return fail("has neither a service nor a workload; this istiod may be newer than meshdns");
}

std::vector<ResourceKey> keys_of_name(std::string_view name, const WorkloadRules& rules) {
  if (const auto service = parse_service_name(name, rules)) return {key_of_service(*service)};
  const WorkloadUid uid = WorkloadUid::parse(name);
  if (uid.ns.empty()) return {};
  if (!uid.pod.empty()) return {{Kind::Pod, uid.cluster, uid.ns, uid.pod}};
  return {{Kind::WorkloadEntry, uid.cluster, uid.ns, std::string(name)}};
}

}  // namespace meshdns::registry::istiod
