// SPDX-License-Identifier: Apache-2.0
// A registry with resources from manifest text, and the view of a client as one line of text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "registry/manifest/manifest.hpp"
#include "registry/registry.hpp"
#include "registry/view/view.hpp"

namespace meshdns::registry {

class CollectingSink final : public ManifestSink {
 public:
  void on_resource(Resource&& resource, std::uint32_t) override {
    resources.push_back(std::move(resource));
  }
  void on_refused(const ResourceKey& key, std::uint32_t) override {
    ADD_FAILURE() << key.to_string();
  }
  void on_finding(Finding&& finding) override {
    if (finding.severity == Severity::Error) ADD_FAILURE() << finding.to_string();
  }
  std::vector<Resource> resources;
};

inline std::string api_version_of(std::string_view kind) {
  static const std::map<std::string_view, std::string> versions = {
      {"EndpointSlice", "discovery.k8s.io/v1"},
      {"ServiceExport", "multicluster.x-k8s.io/v1alpha1"},
      {"ServiceImport", "multicluster.x-k8s.io/v1alpha1"},
      {"ServiceEntry", "networking.istio.io/v1"},
      {"WorkloadEntry", "networking.istio.io/v1"},
      {"Sidecar", "networking.istio.io/v1"},
      {"VirtualService", "networking.istio.io/v1"},
      {"Gateway", "gateway.networking.k8s.io/v1"},
      {"HTTPRoute", "gateway.networking.k8s.io/v1"},
      {"TLSRoute", "gateway.networking.k8s.io/v1"},
      {"GRPCRoute", "gateway.networking.k8s.io/v1"},
      {"Ingress", "networking.k8s.io/v1"}};
  const auto found = versions.find(kind);
  return found == versions.end() ? "v1" : found->second;
}

// A manifest in which a line "Pod shop/web-1 {labels: {app: web}}" begins an object: its kind, its
// namespace if it has one, its name, and the rest of its metadata.
inline std::string with_long_heads(std::string_view text) {
  std::string manifest;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view kind = line.substr(0, line.find(' '));
    const std::string_view ns = line.substr(kind.size(), line.find('/') - kind.size());
    const bool is_head = !kind.empty() && kind.front() >= 'A' && kind.front() <= 'Z' &&
                         kind.size() + ns.size() < line.size();
    if (!is_head) {
      manifest.append(line).append("\n");
      continue;
    }
    const std::string_view rest = line.substr(kind.size() + ns.size() + 1);
    const std::string_view name = rest.substr(0, rest.find(' '));
    manifest.append("---\napiVersion: ").append(api_version_of(kind)).append("\nkind: ");
    manifest.append(kind).append("\nmetadata: {name: ").append(name);
    if (ns.size() > 1) manifest.append(", namespace:").append(ns);
    const bool has_more = name.size() < rest.size();
    manifest.append(has_more ? ", " : "}").append(has_more ? rest.substr(name.size() + 2) : "");
    manifest.append("\n");
  }
  return manifest;
}

// Reads a manifest, whose objects may have short heads.
inline std::vector<Resource> parse(std::string_view yaml) {
  CollectingSink sink;
  ManifestOptions options;
  options.gateway_kinds = {Kind::Gateway,   Kind::HttpRoute, Kind::TlsRoute,
                           Kind::GrpcRoute, Kind::Ingress,   Kind::Service};
  const auto result = read_manifest(with_long_heads(yaml), options, sink);
  if (!result) ADD_FAILURE() << result.error().message;
  return std::move(sink.resources);
}

class TestRegistry {
 public:
  explicit TestRegistry(MeshSettings settings = {}) : registry_(std::move(settings)) {}

  Changes load(std::string_view yaml) { return add(parse(yaml)); }
  Changes add(const std::vector<Resource>& resources) {
    Transaction t;
    for (const auto& r : resources) t.upsert(r, "test.yaml", 1);
    return commit(std::move(t));
  }
  Changes remove(const ResourceKey& key) {
    Transaction t;
    t.remove(key, "test.yaml");
    return commit(std::move(t));
  }
  void resolve(std::string host, const std::vector<std::string>& addresses,
               ResolvedName::State state = ResolvedName::State::Resolved) {
    ResolvedName name{std::move(host), state, {}};
    for (const auto& a : addresses) name.addresses.push_back(*IpAddress::parse(a));
    Transaction t;
    for (const auto& use : name_uses_)
      if (use.name == name.host) t.set_resolved(use.ns, name);
    registry_.commit(std::move(t));
  }
  void be(ClientIdentity identity) {
    registry_.set_clients({std::move(identity), false, UnknownClient::Public});
  }
  void be_in(std::string ns) {
    ClientIdentity identity;
    identity.ns = std::move(ns);
    be(identity);
  }

  // "exact vips 10.0.0.1 2001:db8::1", "wildcard forward", "none".
  std::string ask(std::string_view name) const {
    const View view(*registry_.current(), *registry_.current()->default_client);
    return describe(view, view.lookup(name));
  }
  static std::string describe(const View& view, const Match& match) {
    if (!match) return "none";
    std::string text =
        std::string(to_string(match.how)) + " " + std::string(to_string(match.service->answer));
    if (!match.below.empty()) text += " [" + std::string(match.below) + "]";
    const AddressView addresses = view.addresses(*match.service);
    for (const auto& a : addresses.v4) text += " " + IpAddress::v4(a).to_string();
    for (const auto& a : addresses.v6) text += " " + IpAddress::v6(a).to_string();
    if (!match.service->alias().empty()) text += " " + std::string(match.service->alias());
    return text;
  }
  Registry& registry() { return registry_; }
  const Snapshot& snapshot() const { return *registry_.current(); }
  View view() const { return View(*registry_.current(), *registry_.current()->default_client); }

 private:
  Changes commit(Transaction&& transaction) {
    Changes summary = registry_.commit(std::move(transaction));
    for (const auto& use : summary.names.removed) name_uses_.erase(use);
    name_uses_.insert(summary.names.added.begin(), summary.names.added.end());
    return summary;
  }

  Registry registry_;
  std::set<NameUse> name_uses_;
};

}  // namespace meshdns::registry
