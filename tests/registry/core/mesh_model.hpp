// SPDX-License-Identifier: Apache-2.0
// A simple model of Istio's rules for names: one service per ServiceEntry and host, visibility for
// each service, one namespace per host and client, and the union of the visible services'
// addresses. It follows docs/semantics-istio.md and Istio's push_context.go, sidecar.go and
// name_table.go.  It looks at every object for each question and shares no code with the registry
// but the resources.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "registry/model/mesh_settings.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry::model {

struct World {
  MeshSettings settings;
  std::vector<ServiceEntry> entries;
  std::vector<KubeService> services;
  std::vector<WorkloadEntry> workloads;
  std::vector<Sidecar> sidecars;
  std::vector<Namespace> namespaces;
};

struct Client {
  std::string ns;
  Labels labels;
};

// The answer that a client gets for a name.
struct Answer {
  bool known = false;  // a service that the client sees has the name
  std::set<std::string> addresses;
  std::set<std::uint16_t> ports;
  friend bool operator==(const Answer&, const Answer&) = default;
};

class Mesh {
 public:
  explicit Mesh(const World& world) : world_(world) {
    for (const ServiceEntry& entry : world.entries)
      for (const std::string& host : entry.hosts) services_.push_back(service_of(entry, host));
    for (const KubeService& service : world.services) services_.push_back(service_of(service));
  }

  Answer ask(const Client& client, std::string_view name) const {
    if (auto answer = ask_host(client, name)) return *answer;
    for (auto dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1))
      if (auto answer = ask_host(client, "*" + std::string(name.substr(dot)))) return *answer;
    return {};
  }

  // Whether the client sees a service of that very host.
  bool has_host(const Client& client, std::string_view host) const {
    return ask_host(client, host).has_value();
  }

  // Whether the client sees a host below the name.
  bool has_below(const Client& client, std::string_view name) const {
    const Sidecar* const sidecar = sidecar_of(client);
    return std::ranges::any_of(services_, [&](const Service& service) {
      return service.host.ends_with("." + std::string(name)) && sees(client, sidecar, service);
    });
  }

  bool has_sidecar(const Client& client) const { return sidecar_of(client) != nullptr; }

 private:
  struct Service {
    std::string host;
    std::string ns;
    std::int64_t creation_time;
    std::set<std::string> exports;  // "*" or names of namespaces
    std::set<std::uint16_t> ports;
    const ServiceEntry* entry = nullptr;  // null: a Kubernetes Service
    const KubeService* service = nullptr;
  };

  // --- exportTo

  std::set<std::string> exports_of(const ExportTo& declared, const std::string& ns,
                                   Visibility cap) const {
    const ExportTo& words = declared.empty() ? world_.settings.default_export_to : declared;
    const std::set<std::string> all(words.begin(), words.end());
    if (cap == Visibility::None) return {};
    if (cap == Visibility::Namespace) {
      if (all.contains("*") || (!all.contains("~") && (all.contains(".") || all.contains(ns))))
        return {ns};
      return {};
    }
    if (all.contains("*")) return {"*"};
    if (all.contains("~")) return {};
    std::set<std::string> names;
    for (const std::string& word : all) names.insert(word == "." ? ns : word);
    return names;
  }

  Visibility cap_of(const std::string& ns) const {
    const auto& rules = world_.settings.service_entry_visibility;
    const auto object =
        std::ranges::find(world_.namespaces, ns, [](const Namespace& n) { return n.meta.name; });
    const Labels labels = object == world_.namespaces.end() ? Labels() : object->meta.labels;
    for (const auto& policy : rules.policies)
      if (std::ranges::all_of(policy.namespace_selectors, [&](const LabelSelector& selector) {
            return has_all(labels, selector.match_labels);
          }))
        return policy.visibility;
    return rules.default_visibility;
  }

  static bool has_all(const Labels& labels, const Labels& wanted) {
    return std::ranges::all_of(wanted, [&](const auto& label) {
      return std::ranges::find(labels, label) != labels.end();
    });
  }

  static std::set<std::uint16_t> numbers_of(const std::vector<ServicePort>& ports) {
    std::set<std::uint16_t> numbers;
    for (const ServicePort& port : ports) numbers.insert(port.number);
    return numbers;
  }

  Service service_of(const ServiceEntry& entry, const std::string& host) const {
    return {host,
            entry.meta.ns,
            entry.meta.creation_time,
            exports_of(entry.export_to, entry.meta.ns, cap_of(entry.meta.ns)),
            numbers_of(entry.ports),
            &entry,
            nullptr};
  }

  Service service_of(const KubeService& service) const {
    return {service.meta.name + "." + service.meta.ns + ".svc." + world_.settings.cluster_domain,
            service.meta.ns,
            service.meta.creation_time,
            exports_of(service.export_to, service.meta.ns, Visibility::Public),
            numbers_of(service.ports),
            nullptr,
            &service};
  }

  // --- Sidecar

  const Sidecar* sidecar_of(const Client& client) const {
    const Sidecar* selected = nullptr;
    const Sidecar* own = nullptr;
    const Sidecar* root = nullptr;
    const auto take_older = [](const Sidecar*& best, const Sidecar& sidecar) {
      if (best == nullptr || is_older(sidecar.meta, best->meta)) best = &sidecar;
    };
    for (const Sidecar& sidecar : world_.sidecars) {
      if (sidecar.meta.ns == client.ns) {
        if (!sidecar.workload_selector)
          take_older(own, sidecar);
        else if (has_all(client.labels, *sidecar.workload_selector))
          take_older(selected, sidecar);
      }
      if (sidecar.meta.ns == world_.settings.root_namespace && !sidecar.workload_selector)
        take_older(root, sidecar);
    }
    return selected != nullptr ? selected : own != nullptr ? own : root;
  }

  // "*.a.org" takes in what ends in ".a.org", wildcards among them; "*" everything.
  static bool is_subset(std::string_view host, std::string_view pattern) {
    if (pattern == "*" || host == pattern) return true;
    return pattern.starts_with("*.") && host.size() > pattern.size() - 1 &&
           host.ends_with(pattern.substr(1));
  }

  static bool names_service(std::string_view ns, std::string_view pattern, const Client& client,
                            const Service& service) {
    const bool in_namespace =
        ns == "*" || ns.empty() || (ns == "." ? client.ns : std::string(ns)) == service.ns;
    return in_namespace && is_subset(service.host, pattern);
  }

  static bool imports(const EgressListener& listener, const Client& client,
                      const Service& service) {
    if (listener.port != 0 && listener.protocol != "HTTP_PROXY" &&
        !service.ports.contains(listener.port))
      return false;
    bool included = false;
    for (const std::string& host : listener.hosts) {
      const bool excludes = host.starts_with("~");
      const std::string text = host.substr(excludes ? 1 : 0);
      const auto slash = text.find('/');
      if (!names_service(text.substr(0, slash), text.substr(slash + 1), client, service)) continue;
      if (excludes) return false;
      included = true;
    }
    return included;
  }

  static bool imports(const Sidecar& sidecar, const Client& client, const Service& service) {
    return sidecar.egress.empty() ||
           std::ranges::any_of(sidecar.egress, [&](const EgressListener& listener) {
             return imports(listener, client, service);
           });
  }

  bool sees(const Client& client, const Sidecar* sidecar, const Service& service) const {
    return (service.exports.contains("*") || service.exports.contains(client.ns)) &&
           (sidecar == nullptr || imports(*sidecar, client, service));
  }

  // --- one namespace, and what it answers

  std::optional<Answer> ask_host(const Client& client, std::string_view host) const {
    const Sidecar* const sidecar = sidecar_of(client);
    std::vector<const Service*> visible;
    for (const Service& service : services_)
      if (service.host == host && sees(client, sidecar, service)) visible.push_back(&service);
    if (visible.empty()) return std::nullopt;
    const Service* const chosen = *std::ranges::min_element(visible, {}, [&](const Service* s) {
      const int rank = s->ns == client.ns          ? 0
                       : s->service != nullptr     ? 1
                       : !s->exports.contains("*") ? 2
                                                   : 3;
      return std::tuple(rank, s->creation_time, s->ns);
    });
    std::erase_if(visible, [&](const Service* s) { return s->ns != chosen->ns; });
    return merge(visible);
  }

  Answer merge(const std::vector<const Service*>& visible) const {
    Answer answer{true, {}, {}};
    for (const Service* s : visible)
      if (s->service != nullptr) {
        for (const IpAddress& ip : s->service->cluster_ips) answer.addresses.insert(ip.to_string());
        answer.ports = s->ports;
        return answer;
      }
    for (const Service* s : visible) {
      answer.ports.insert(s->ports.begin(), s->ports.end());
      const ServiceEntry& entry = *s->entry;
      for (const IpPrefix& prefix : entry.addresses)
        if (prefix.is_single()) answer.addresses.insert(prefix.address.to_string());
      if (!entry.addresses.empty() || entry.resolution == Resolution::None || !entry.auto_allocate)
        continue;
      for (const StatusAddress& status : entry.status_addresses)
        if (status.host == s->host) answer.addresses.insert(status.value.to_string());
    }
    if (answer.addresses.empty())
      for (const Service* s : visible)
        if (!is_younger_round_robin(*s, visible)) add_endpoints(*s, answer);
    return answer;
  }

  // A cluster of logical DNS has one endpoint: that of the oldest entry.
  static bool is_younger_round_robin(const Service& service,
                                     const std::vector<const Service*>& visible) {
    const auto age = [](const Service& s) {
      return std::tuple(s.creation_time, s.entry->meta.name);
    };
    return service.entry->resolution == Resolution::DnsRoundRobin &&
           std::ranges::any_of(visible, [&](const Service* s) {
             return s->entry->resolution == Resolution::DnsRoundRobin && age(*s) < age(service);
           });
  }

  void add_endpoints(const Service& service, Answer& answer) const {
    const ServiceEntry& entry = *service.entry;
    const bool selects_workloads = entry.workload_selector.has_value();
    if (entry.resolution == Resolution::None ? !selects_workloads || entry.ports.empty()
                                             : !world_.settings.endpoint_answers)
      return;
    for (const WorkloadSpec& endpoint : entry.endpoints) answer.addresses.insert(endpoint.address);
    if (!selects_workloads) return;
    for (const WorkloadEntry& workload : world_.workloads)
      if (workload.meta.ns == entry.meta.ns &&
          has_all(workload.meta.labels, *entry.workload_selector))
        answer.addresses.insert(workload.spec.address);
  }

  const World& world_;
  std::vector<Service> services_;
};

}  // namespace meshdns::registry::model
