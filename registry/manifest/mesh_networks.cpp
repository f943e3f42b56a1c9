// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/mesh_networks.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "registry/base/host_name.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {
namespace {

constexpr std::array<std::string_view, 1> kRootNames = {"networks"};
constexpr std::array<std::string_view, 2> kNetworkNames = {"endpoints", "gateways"};
constexpr std::array<std::string_view, 2> kNetworkEndpointNames = {"fromCidr", "fromRegistry"};
constexpr std::array<std::string_view, 4> kNetworkGatewayNames = {"registryServiceName", "address",
                                                                  "port", "locality"};

class MeshNetworksReader {
 public:
  explicit MeshNetworksReader(Report& report) : report_(report) {}

  MeshNetworks read(const Node& root) {
    const Field at(root);
    const Fields fields(report_, at, {kRootNames, true});
    const auto networks = fields.get("networks");
    if (!networks) return {};
    if (!(*networks)->is_mapping()) {
      report_.error(*networks, "expected a mapping, got " + std::string((*networks)->describe()));
      return {};
    }
    for (const Node& node : networks->node()) read_network(Field(*networks, node));
    std::ranges::sort(networks_, {}, &MeshNetwork::name);
    return std::move(networks_);
  }

 private:
  void read_network(const Field& at) {
    network_ = {};
    network_.name = at->key();
    if (!at->is_null()) {
      const Fields fields(report_, at, {kNetworkNames, true});
      for_each_element(report_, fields.get("endpoints"),
                       [&](const Field& endpoint) { read_endpoint(endpoint); });
      for_each_element(report_, fields.get("gateways"),
                       [&](const Field& gateway) { read_gateway(gateway); });
    }
    networks_.push_back(std::move(network_));
  }

  void read_endpoint(const Field& at) {
    const Fields fields(report_, at, {kNetworkEndpointNames, true});
    if (const auto registry = read_string_or_empty(report_, fields.get("fromRegistry"));
        !registry.empty())
      network_.registries.emplace_back(registry);
    const auto cidr = fields.get("fromCidr");
    const std::string_view text = read_string_or_empty(report_, cidr);
    if (text.empty()) return;
    const auto prefix = IpPrefix::parse(text);
    if (!prefix) return report_.error(*cidr, in_quotes(text) + " is not a prefix like 10.0.0.0/16");
    if (++prefixes_ == kMaxNetworkPrefixes + 1)
      report_.error(*cidr, "more than " + std::to_string(kMaxNetworkPrefixes) +
                               " prefixes, which is the maximum of all networks together");
    if (prefixes_ <= kMaxNetworkPrefixes) network_.prefixes.push_back(*prefix);
  }

  void read_gateway(const Field& at) {
    const Fields fields(report_, at, {kNetworkGatewayNames, true});
    if (const auto service = fields.get("registryServiceName")) read_gateway_service(*service);
    const auto address = fields.get("address");
    const std::string_view text = read_string_or_empty(report_, address);
    if (text.empty()) return;
    if (const auto ip = IpAddress::parse(text)) {
      network_.gateways.push_back(*ip);
    } else {
      report_.warning(*address, in_quotes(text) +
                                    " is no IP address; meshdns does not look up the names of "
                                    "gateways, and this one is left out");
    }
  }

  void read_gateway_service(const Field& at) {
    const std::string_view text = read_string_or_empty(report_, at);
    if (text.empty()) return;
    if (auto reason = why_no_fqdn(text)) return report_.error(at, in_quotes(text) + " " + *reason);
    network_.gateway_services.push_back(canonical_host(text));
  }

  Report& report_;
  MeshNetworks networks_;
  MeshNetwork network_;  // that is read
  std::size_t prefixes_ = 0;
};

}  // namespace

MeshNetworks read_mesh_networks(Report& report, const Node& root) {
  return MeshNetworksReader(report).read(root);
}

}  // namespace meshdns::registry
