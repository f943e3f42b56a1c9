// SPDX-License-Identifier: Apache-2.0
// The messages of istiod's workload API (istio.workload), as far as names and addresses need them.
// As sent: nothing is checked yet (registry/source/istiod/workload_objects.hpp).  Pass between the
// daemon and the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace meshdns::registry::istiod {

// Numbers of AppProtocol.
enum class ApiProtocol : std::int32_t { Unknown, Http11, Http2, Grpc, Tcp, Tls };

struct ApiPort {
  std::uint32_t service_port = 0;
  std::uint32_t target_port = 0;  // 0 = service_port
  ApiProtocol protocol = ApiProtocol::Unknown;
};

// Numbers of IPFamilies.
enum class ApiFamilies : std::int32_t { Automatic, Ipv4Only, Ipv6Only, Dual };

struct ApiNetworkAddress {
  std::string network;
  std::string octets;  // of the IP address, 4 or 16
  std::optional<std::uint32_t> length;
};

struct ApiService {
  std::string ns;
  std::string hostname;
  std::vector<ApiNetworkAddress> addresses;
  std::vector<ApiPort> ports;
  std::vector<std::string> subject_alt_names;
  bool allows_unhealthy = false;  // load_balancing.health_policy is ALLOW_ALL
  ApiFamilies ip_families = ApiFamilies::Automatic;
  bool is_canonical = false;
  bool is_private = false;  // visibility is NAMESPACE
};

struct ApiWorkload {
  std::string uid;
  std::string ns;
  std::vector<std::string> addresses;  // octets
  std::string hostname;
  std::string network;
  std::string cluster_id;
  std::string service_account;
  std::string node;
  std::string region;
  std::string zone;
  std::string subzone;
  std::vector<std::pair<std::string, std::vector<ApiPort>>> services;  // "namespace/hostname"
  bool is_healthy = true;
  bool is_plain_pod = false;  // workload_type is POD: of no Deployment, Job or CronJob
  bool has_host_network = false;
};

// monostate: an Address without content.
using ApiAddress = std::variant<std::monostate, ApiService, ApiWorkload>;

}  // namespace meshdns::registry::istiod
