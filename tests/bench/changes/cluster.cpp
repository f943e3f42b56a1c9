// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/changes/cluster.hpp"

#include <array>
#include <cstdio>
#include <ctime>

namespace meshdns::bench {
namespace {

std::string text_of(std::uint32_t address) {
  const std::uint32_t ip = Cluster::kFirstAddress + address;
  return std::to_string(ip >> 24) + "." + std::to_string(ip >> 16 & 255) + "." +
         std::to_string(ip >> 8 & 255) + "." + std::to_string(ip & 255);
}

std::string now_text() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  std::array<char, 64> text{};
  const std::size_t size = strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 32> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%06ldZ", now.tv_nsec / 1000);
  return std::string(text.data(), size) + fraction.data();
}

std::string uid_of(char kind, unsigned number) {
  const std::string digits = std::to_string(number);
  return std::string(1, kind) + "0000000-0000-4000-8000-" + std::string(12 - digits.size(), '0') +
         digits;
}

std::string namespace_of(unsigned service) {
  return "ns-" + std::to_string(service % Cluster::kNamespaces);
}

// Metadata that every real object has and that nobody here reads.
std::string managed_fields(const char* manager) {
  return std::string(R"("managedFields":[{"manager":")") + manager +
         R"(","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1",)"
         R"("fieldsV1":{"f:metadata":{"f:annotations":{".":{}},"f:generateName":{},"f:labels":{".":{},"f:app":{}},)"
         R"("f:ownerReferences":{".":{}}},"f:spec":{"f:ports":{},"f:selector":{},"f:type":{}}}}])";
}

}  // namespace

Cluster::Cluster(unsigned services, unsigned endpoints, unsigned max_changes)
    : services_(services),
      endpoints_(endpoints),
      version_(10'000'000),
      next_address_(services * endpoints),
      owners_(max_changes, kNobody),
      removed_by_(std::make_unique<std::atomic<std::uint32_t>[]>(std::size_t{services} * endpoints +
                                                                 max_changes)),
      current_(std::size_t{services} * endpoints),
      oldest_(services) {
  for (std::uint32_t i = 0; i < current_.size(); ++i) current_[i] = i;
}

std::string Cluster::name_of(unsigned service) const {
  return "svc-" + std::to_string(service) + "." + namespace_of(service) + ".svc.cluster.local";
}

std::uint32_t Cluster::owner_of(std::uint32_t address) const {
  if (address < current_.size()) return address / endpoints_;
  const std::size_t later = address - current_.size();
  return later < owners_.size() ? owners_[later] : kNobody;
}

Change Cluster::change(unsigned service) {
  const std::lock_guard lock(mutex_);
  Change change;
  change.number = ++changes_;
  change.service = service;
  change.added = next_address_++;
  owners_.at(change.added - current_.size()) = service;
  std::uint8_t& oldest = oldest_[service];
  std::uint32_t& address = current_[std::size_t{service} * endpoints_ + oldest];
  oldest = static_cast<std::uint8_t>((oldest + 1U) % endpoints_);
  removed_by_[address] = change.number;
  address = change.added;
  ++version_;
  return change;
}

std::string Cluster::namespace_json(unsigned number) {
  return R"({"metadata":{"name":"ns-)" + std::to_string(number) + R"(","resourceVersion":"1"}})";
}

std::string Cluster::service_json(unsigned service) const {
  const std::string number = std::to_string(service);
  return R"({"metadata":{"name":"svc-)" + number + R"(","namespace":")" + namespace_of(service) +
         R"(","uid":")" + uid_of('1', service) + R"(","resourceVersion":")" +
         std::to_string(service + 1) +
         R"(","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"svc-)" + number +
         R"("},"annotations":{"meta.helm.sh/release-name":"svc"},)" + managed_fields("helm") +
         R"(},"spec":{"ports":[{"name":"http","protocol":"TCP","port":80,"targetPort":8080}],"selector":{"app":"svc-)" +
         number +
         R"("},"clusterIP":"None","clusterIPs":["None"],"type":"ClusterIP","sessionAffinity":"None",)"
         R"("ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","internalTrafficPolicy":"Cluster"},)"
         R"("status":{"loadBalancer":{}}})";
}

std::string Cluster::slice_json(unsigned service) const {
  const std::string number = std::to_string(service);
  const std::string ns = namespace_of(service);
  std::string json =
      R"({"metadata":{"name":"svc-)" + number + R"(-x7k2p","generateName":"svc-)" + number +
      R"(-","namespace":")" + ns + R"(","uid":")" + uid_of('2', service) +
      R"(","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"svc-)" + number +
      R"(","endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io","kubernetes.io/service-name":"svc-)" +
      number +
      R"(","service.kubernetes.io/headless":""},"annotations":{"endpoints.kubernetes.io/last-change-trigger-time":")" +
      now_text() + R"("},"ownerReferences":[{"apiVersion":"v1","kind":"Service","name":"svc-)" +
      number + R"(","uid":")" + uid_of('1', service) +
      R"(","controller":true,"blockOwnerDeletion":true}],)" +
      managed_fields("kube-controller-manager");
  const std::lock_guard lock(mutex_);
  json += R"(,"resourceVersion":")" + std::to_string(version_) +
          R"("},"addressType":"IPv4","endpoints":[)";
  for (unsigned i = 0; i < endpoints_; ++i) {
    if (i > 0) json += ',';
    json +=
        R"({"addresses":[")" + text_of(current_[std::size_t{service} * endpoints_ + i]) +
        R"("],"conditions":{"ready":true,"serving":true,"terminating":false},"targetRef":{"kind":"Pod","namespace":")" +
        ns + R"(","name":"svc-)" + number + "-pod-" + std::to_string(i) + R"(","uid":")" +
        uid_of('3', service * endpoints_ + i) + R"("},"nodeName":"node-)" +
        std::to_string((service + i) % 5000) + R"(","zone":"zone-)" + std::to_string(i % 3) +
        R"("})";
  }
  return json + R"(],"ports":[{"name":"http","protocol":"TCP","port":8080}]})";
}

}  // namespace meshdns::bench
