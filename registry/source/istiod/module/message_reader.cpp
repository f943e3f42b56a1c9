// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/module/message_reader.hpp"

#include <workload.pb.h>
#include <xds.pb.h>

#include <utility>

namespace meshdns::registry::istiod {
namespace {

// Numbers of istio.workload's enums.
constexpr int kAllowAll = 1;
constexpr int kNamespaceOnly = 1;
constexpr int kHealthy = 0;
constexpr int kPlainPod = 2;
constexpr int kHostNetwork = 1;

template <typename Message>
bool parse(Message& message, std::string_view octets) {
  return message.ParseFromArray(octets.data(), static_cast<int>(octets.size()));
}

template <typename List>
std::vector<ApiPort> ports_of(const List& from) {
  std::vector<ApiPort> ports;
  for (const workload::Port& port : from)
    ports.push_back(
        {port.service_port(), port.target_port(), static_cast<ApiProtocol>(port.app_protocol())});
  return ports;
}

ApiService service_of(const workload::Service& from) {
  ApiService service;
  service.ns = from.namespace_();
  service.hostname = from.hostname();
  for (const workload::NetworkAddress& address : from.addresses()) {
    ApiNetworkAddress& one = service.addresses.emplace_back();
    one.network = address.network();
    one.octets = address.address();
    if (address.has_length()) one.length = address.length();
  }
  service.ports = ports_of(from.ports());
  service.subject_alt_names.assign(from.subject_alt_names().begin(),
                                   from.subject_alt_names().end());
  service.allows_unhealthy = from.load_balancing().health_policy() == kAllowAll;
  service.ip_families = static_cast<ApiFamilies>(from.ip_families());
  service.is_canonical = from.canonical();
  service.is_private = from.visibility() == kNamespaceOnly;
  return service;
}

ApiWorkload workload_of(const workload::Workload& from) {
  ApiWorkload to;
  to.uid = from.uid();
  to.ns = from.namespace_();
  to.addresses.assign(from.addresses().begin(), from.addresses().end());
  to.hostname = from.hostname();
  to.network = from.network();
  to.cluster_id = from.cluster_id();
  to.service_account = from.service_account();
  to.node = from.node();
  to.region = from.locality().region();
  to.zone = from.locality().zone();
  to.subzone = from.locality().subzone();
  for (const workload::ServicePorts& service : from.services())
    to.services.emplace_back(service.service(), ports_of(service.ports().ports()));
  to.is_healthy = from.status() == kHealthy;
  to.is_plain_pod = from.workload_type() == kPlainPod;
  to.has_host_network = from.network_mode() == kHostNetwork;
  return to;
}

class ProtobufReader final : public MessageReader {
 public:
  const NameInfo* read(std::string_view info) override {
    if (!parse(message_, info)) return nullptr;
    info_.ips.assign(message_.ips().begin(), message_.ips().end());
    info_.registry = message_.registry();
    info_.short_name = message_.shortname();
    info_.ns = message_.namespace_();
    info_.alt_hosts.assign(message_.alt_hosts().begin(), message_.alt_hosts().end());
    return &info_;
  }

  std::optional<ApiAddress> read_address(std::string_view content) override {
    workload::Address address;
    if (!parse(address, content)) return std::nullopt;
    if (address.has_service()) return service_of(address.service());
    if (address.has_workload()) return workload_of(address.workload());
    return ApiAddress();
  }

 private:
  xds::NameInfo message_;
  NameInfo info_;
};

}  // namespace

std::unique_ptr<MessageReader> make_message_reader() { return std::make_unique<ProtobufReader>(); }

}  // namespace meshdns::registry::istiod
