// SPDX-License-Identifier: Apache-2.0
#include "registry/tables/gateway_table.hpp"

#include <algorithm>
#include <utility>

#include "registry/model/name_owners.hpp"

namespace meshdns::registry {
namespace {

// The Gateway API's label of what is made for a Gateway (GEP-1762).
constexpr std::string_view kGatewayName = "gateway.networking.k8s.io/gateway-name";
// Names of one object: those of an Ingress, or of a route at all listeners of its Gateways.
constexpr std::size_t kMaxNames = 4'096;

ResourceKey gateway_key(const ObjectMeta& of, std::string_view ns, std::string_view name) {
  return {Kind::Gateway, of.cluster, std::string(ns), std::string(name)};
}

std::string_view gateway_label(const Labels& labels) {
  const auto at = std::ranges::lower_bound(
      labels, kGatewayName, {}, [](const auto& label) { return std::string_view(label.first); });
  return at == labels.end() || at->first != kGatewayName ? std::string_view()
                                                         : std::string_view(at->second);
}

void erase_from(std::map<ResourceKey, std::set<ResourceKey>>& sets, const ResourceKey& of,
                const ResourceKey& key) {
  const auto found = sets.find(of);
  if (found == sets.end()) return;
  found->second.erase(key);
  if (found->second.empty()) sets.erase(found);
}

void add_names(GatewayNames& names, const std::vector<std::string>& hosts,
               const GatewayAnswer& answer, std::uint32_t ttl) {
  for (const std::string& host : hosts) {
    if (names.size() >= kMaxNames && !names.contains(host)) continue;
    GatewayAnswer& of_host = names[host];
    of_host.ttl = ttl;
    of_host.add(answer);
    if (of_host.via.empty()) of_host.via = answer.via;
  }
}

}  // namespace

void GatewayTable::link(const Resource& resource, const StoredRef& stored, bool add) {
  if (!is_on()) return;
  if (const auto* service = std::get_if<KubeService>(&resource))
    return link_service(*service, stored, add);
  const Kind kind = stored->kind();
  if (!is_gateway_kind(kind)) return;
  const ResourceKey key = stored->key();
  objects_[key].stored = add ? stored : StoredRef();
  if (kind == Kind::Gateway) return mark_gateway(key);
  if (const auto* route = std::get_if<GatewayRoute>(&resource)) link_route(*route, key, add);
  changed_.insert(key);
}

void GatewayTable::link_service(const KubeService& service, const StoredRef& stored, bool add) {
  ResourceKey key = stored->key();
  mark_users_of(key);
  if (const std::string_view name = gateway_label(service.meta.labels); !name.empty()) {
    const ResourceKey gateway = gateway_key(service.meta, service.meta.ns, name);
    if (add)
      labelled_[gateway].insert(key);
    else
      erase_from(labelled_, gateway, key);
    mark_gateway(gateway);
  }
  if (!service.dns || !names_.has(Kind::Service)) return;
  objects_[key].stored = add ? stored : StoredRef();
  changed_.insert(std::move(key));
}

void GatewayTable::link_route(const GatewayRoute& route, const ResourceKey& key, bool add) {
  for (const GatewayRef& parent : route.parents) {
    const ResourceKey gateway = gateway_key(route.meta, parent.ns, parent.name);
    if (add)
      routes_[gateway].insert(key);
    else
      erase_from(routes_, gateway, key);
  }
}

void GatewayTable::note_namespace(std::string_view ns) {
  if (is_on()) changed_namespaces_.emplace(ns);
}

void GatewayTable::mark_gateway(const ResourceKey& gateway) {
  if (objects_.contains(gateway)) changed_.insert(gateway);
  if (const auto routes = routes_.find(gateway); routes != routes_.end())
    changed_.insert(routes->second.begin(), routes->second.end());
}

void GatewayTable::mark_users_of(const ResourceKey& service) {
  const auto users = users_.find(service);
  if (users == users_.end()) return;
  for (const ResourceKey& user : users->second)
    if (user.kind == Kind::Gateway)
      mark_gateway(user);
    else
      changed_.insert(user);
}

void GatewayTable::mark_routes_of_namespaces() {
  const auto namespaces = std::exchange(changed_namespaces_, {});
  if (namespaces.empty()) return;
  for (const auto& [key, object] : objects_)
    if (key.kind != Kind::Gateway && namespaces.contains(key.ns)) changed_.insert(key);
}

void GatewayTable::use_services(const ResourceKey& user, std::vector<ResourceKey> services) {
  const auto found = objects_.find(user);
  if (found == objects_.end() || found->second.services == services) return;
  for (const ResourceKey& service : found->second.services) erase_from(users_, service, user);
  for (const ResourceKey& service : services) users_[service].insert(user);
  found->second.services = std::move(services);
}

std::vector<ResourceKey> GatewayTable::configured_service(std::string_view class_name,
                                                          std::string_view cluster) const {
  const auto found = std::ranges::find(names_.services, class_name, &Labels::value_type::first);
  if (found == names_.services.end()) return {};
  const std::size_t slash = found->second.find('/');
  return {{Kind::Service, std::string(cluster), found->second.substr(0, slash),
           found->second.substr(slash + 1)}};
}

GatewayAnswer GatewayTable::answer_of_services(const std::vector<ResourceKey>& services) const {
  GatewayAnswer answer;
  const auto& served = settings_.namespaces;
  for (const ResourceKey& key : services) {
    if (!served.empty() && std::ranges::find(served, key.ns) == served.end()) continue;
    const StoredRef stored = origins_.used(key);
    if (!stored) continue;
    const Resource resource = stored->decode();
    if (const auto own = answer_of_cluster_ips(std::get<KubeService>(resource))) answer.add(*own);
  }
  return answer;
}

// The Service that the configuration names, or those that carry the Gateway's label, or the one of
// the name that Istio gives it.
GatewayAnswer GatewayTable::answer_of(const ResourceKey& key, const Gateway& gateway) {
  std::vector<std::vector<ResourceKey>> choices;
  choices.push_back(configured_service(gateway.class_name, key.cluster));
  if (const auto labelled = labelled_.find(key); labelled != labelled_.end())
    choices.emplace_back(labelled->second.begin(), labelled->second.end());
  choices.push_back({{Kind::Service, key.cluster, key.ns, key.name + "-" + gateway.class_name}});
  std::vector<ResourceKey> used;
  for (const auto& choice : choices) used.insert(used.end(), choice.begin(), choice.end());
  use_services(key, std::move(used));
  for (const auto& choice : choices)
    if (GatewayAnswer answer = answer_of_services(choice); answer.rank != GatewayAnswer::Rank::None)
      return answer;
  return answer_of_gateway_itself(gateway, settings_);
}

const GatewayTable::Parent* GatewayTable::find_parent(const ResourceKey& key) {
  if (const auto known = parents_.find(key); known != parents_.end()) return &known->second;
  const auto object = objects_.find(key);
  if (object == objects_.end() || !object->second.stored) return nullptr;
  Parent parent;
  parent.gateway = std::get<Gateway>(object->second.stored->decode());
  parent.answer = answer_of(key, parent.gateway);
  return &parents_.emplace(key, std::move(parent)).first->second;
}

GatewayNames GatewayTable::names_of_gateway(const ResourceKey& key) {
  const Parent* const parent = find_parent(key);
  // Kept for its routes alone.
  if (parent == nullptr || !names_.has(Kind::Gateway)) return {};
  std::vector<std::string> hosts = parent->gateway.dns.hostnames;
  for (const GatewayListener& listener : parent->gateway.listeners)
    if (!listener.hostname.empty()) hosts.push_back(listener.hostname);
  GatewayNames names;
  add_names(names, hosts, parent->answer, parent->gateway.dns.ttl);
  return names;
}

GatewayNames GatewayTable::names_of_route(const GatewayRoute& route) {
  GatewayNames names;
  const Labels* const labels = namespaces_.labels_of(route.meta.ns);
  for (const GatewayRef& ref : route.parents)
    if (const Parent* const parent = find_parent(gateway_key(route.meta, ref.ns, ref.name)))
      add_names(names, hosts_at_gateway(route, ref, parent->gateway, labels), parent->answer,
                route.dns.ttl);
  return names;
}

GatewayNames GatewayTable::names_of_ingress(const ResourceKey& key, const Ingress& ingress) {
  const std::vector<ResourceKey> services = configured_service(ingress.class_name, key.cluster);
  use_services(key, services);
  GatewayAnswer answer = answer_of_services(services);
  if (answer.rank == GatewayAnswer::Rank::None)
    answer = ingress.dns.targets.empty()
                 ? answer_of_texts(ingress.addresses, "status.loadBalancer of the Ingress")
                 : answer_of_texts(ingress.dns.targets, "annotation target of the Ingress");
  std::vector<std::string> hosts = ingress.hosts;
  hosts.insert(hosts.end(), ingress.dns.hostnames.begin(), ingress.dns.hostnames.end());
  GatewayNames names;
  add_names(names, hosts, answer, ingress.dns.ttl);
  return names;
}

GatewayNames GatewayTable::names_of(const ResourceKey& key, Object& object) {
  if (!object.stored) {
    use_services(key, {});
    return {};
  }
  if (key.kind == Kind::Gateway) return names_of_gateway(key);
  if (!names_.has(key.kind)) return {};
  const Resource resource = object.stored->decode();
  if (const auto* route = std::get_if<GatewayRoute>(&resource)) return names_of_route(*route);
  if (const auto* ingress = std::get_if<Ingress>(&resource)) return names_of_ingress(key, *ingress);
  const auto& service = std::get<KubeService>(resource);
  GatewayNames names;
  add_names(names, service.dns->hostnames, answer_of_service(service, settings_), service.dns->ttl);
  return names;
}

// Removes the names that the object may not have, whatever others there are.
void GatewayTable::drop_names(Object& object, GatewayNames& names) const {
  object.refused.clear();
  std::erase_if(names, [&](const auto& name) {
    const auto& host = name.first;
    if (!is_in_gateway_domains(host, names_)) return true;
    const Claim claim = gateway_claim_of(host, object.stored->ns(), settings_, NameOwners());
    if (claim != Claim::GatewayNameOfAll) return false;
    object.refused.insert(host);
    return true;
  });
}

void GatewayTable::tell(Object& object, GatewayNames&& names, const Effects& effects) {
  const GatewayNames before = std::exchange(object.names, std::move(names));
  const StoredRef source = std::exchange(object.of_names, object.stored);
  const bool is_same = source == object.stored;
  for (const auto& [host, answer] : before)
    if (!is_same || !object.names.contains(host)) effects.on_source(host, source, false);
  for (const auto& [host, answer] : object.names) {
    const auto known = before.find(host);
    if (!is_same || known == before.end())
      effects.on_source(host, object.stored, true);
    else if (known->second != answer)
      effects.on_answer(host, object.stored);
  }
}

void GatewayTable::settle(const Effects& effects) {
  if (!is_on()) return;
  mark_routes_of_namespaces();
  for (const ResourceKey& key : std::exchange(changed_, {})) {
    const auto found = objects_.find(key);
    if (found == objects_.end()) continue;
    Object& object = found->second;
    GatewayNames names = names_of(key, object);
    const std::set<std::string> refused = object.refused;
    if (object.stored) drop_names(object, names);
    tell(object, std::move(names), effects);
    for (const std::string& host : object.refused)
      if (!refused.contains(host)) effects.on_refused(host, object.stored);
    if (!object.stored) objects_.erase(found);
  }
  parents_.clear();
}

const GatewayAnswer* GatewayTable::find(const StoredResource& source, std::string_view host) const {
  const auto object = objects_.find(source.key());
  if (object == objects_.end()) return nullptr;
  const auto name = object->second.names.find(host);
  return name == object->second.names.end() ? nullptr : &name->second;
}

}  // namespace meshdns::registry
