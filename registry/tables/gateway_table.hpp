// SPDX-License-Identifier: Apache-2.0
// The objects that give names to gateways, and the answers for these names.  An answer depends on
// several objects: a route's on its Gateways, their Services, and the labels of its namespace.  A
// change of any of them finds the names of those that depend on it anew, and of no others.
//
// Empty without `mesh.gateway_names`.  Control thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "registry/snapshot/stored_resource.hpp"
#include "registry/tables/gateway_names.hpp"
#include "registry/tables/namespace_table.hpp"
#include "registry/tables/origin_table.hpp"

namespace meshdns::registry {

class GatewayTable {
 public:
  // REQUIRES: all of them outlive the table.
  GatewayTable(const MeshSettings& settings, const OriginTable& origins,
               const NamespaceTable& namespaces)
      : settings_(settings),
        names_(settings.gateway_names),
        origins_(origins),
        namespaces_(namespaces) {}

  // An object is added (`add`) or removed.  Does nothing for kinds that have no part in names.
  void link(const Resource& resource, const StoredRef& stored, bool add);
  void note_namespace(std::string_view ns);

  // The effects of the changes since the last call, of one host each.
  struct Effects {
    // The object begins (`added`) or ceases to give the name to a gateway.
    std::function<void(const std::string& host, const StoredRef& source, bool added)> on_source;
    // It has another answer.
    std::function<void(const std::string& host, const StoredRef& source)> on_answer;
    // The object asks for a name that it may never have.
    std::function<void(const std::string& host, const StoredRef& source)> on_refused;
  };
  void settle(const Effects& effects);

  // The answer for a name of `source`; null: it does not have the name.
  const GatewayAnswer* find(const StoredResource& source, std::string_view host) const;

 private:
  struct Object {
    StoredRef stored;    // null: removed
    StoredRef of_names;  // the version that `names` were told of
    GatewayNames names;
    std::set<std::string> refused;
    std::vector<ResourceKey> services;  // on which the names depend
  };
  // A Gateway and its answer, while settle() runs.
  struct Parent {
    Gateway gateway;
    GatewayAnswer answer;
  };

  bool is_on() const { return !names_.kinds.empty(); }
  void link_service(const KubeService& service, const StoredRef& stored, bool add);
  void link_route(const GatewayRoute& route, const ResourceKey& key, bool add);
  void mark_gateway(const ResourceKey& gateway);
  void mark_users_of(const ResourceKey& service);
  void mark_routes_of_namespaces();
  void use_services(const ResourceKey& user, std::vector<ResourceKey> services);

  GatewayNames names_of(const ResourceKey& key, Object& object);
  GatewayNames names_of_gateway(const ResourceKey& key);
  GatewayNames names_of_route(const GatewayRoute& route);
  GatewayNames names_of_ingress(const ResourceKey& key, const Ingress& ingress);
  const Parent* find_parent(const ResourceKey& key);
  GatewayAnswer answer_of(const ResourceKey& key, const Gateway& gateway);
  GatewayAnswer answer_of_services(const std::vector<ResourceKey>& services) const;
  std::vector<ResourceKey> configured_service(std::string_view class_name,
                                              std::string_view cluster) const;
  void drop_names(Object& object, GatewayNames& names) const;
  static void tell(Object& object, GatewayNames&& names, const Effects& effects);

  const MeshSettings& settings_;
  const GatewayNameSettings& names_;
  const OriginTable& origins_;
  const NamespaceTable& namespaces_;
  std::map<ResourceKey, Object> objects_;
  std::map<ResourceKey, std::set<ResourceKey>> routes_;    // by Gateway, which may not exist
  std::map<ResourceKey, std::set<ResourceKey>> labelled_;  // Services by the Gateway they name
  std::map<ResourceKey, std::set<ResourceKey>> users_;     // by Service, which may not exist
  std::set<ResourceKey> changed_;
  std::set<std::string> changed_namespaces_;
  std::map<ResourceKey, Parent> parents_;
};

}  // namespace meshdns::registry
