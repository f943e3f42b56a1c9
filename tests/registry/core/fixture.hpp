// SPDX-License-Identifier: Apache-2.0
// A registry with resources from manifest text, and the view of a client as one line of text.
#pragma once

#include <gtest/gtest.h>

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

inline std::vector<Resource> parse(std::string_view yaml) {
  CollectingSink sink;
  ManifestOptions options;
  options.gateway_kinds = {Kind::Gateway,   Kind::HttpRoute, Kind::TlsRoute,
                           Kind::GrpcRoute, Kind::Ingress,   Kind::Service};
  const auto result = read_manifest(yaml, options, sink);
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
