// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/workload_objects.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace meshdns::registry::istiod {
namespace {

const WorkloadRules kRules{"Cluster.Local", ""};

std::string v4_octets(int last) { return std::string("\x0a\x01\x00", 3) + static_cast<char>(last); }
std::string v6_octets() { return std::string(15, '\x20') + '\x01'; }

ApiService service_at(std::string ns, std::string hostname) {
  ApiService service;
  service.ns = std::move(ns);
  service.hostname = std::move(hostname);
  return service;
}

std::string name_of_service(const ApiService& service) {
  return service.ns + "/" + service.hostname;
}

ApiWorkload workload_of_uid(std::string uid) {
  ApiWorkload workload;
  workload.uid = std::move(uid);
  workload.ns = "shop";
  workload.addresses = {v4_octets(1)};
  return workload;
}

std::vector<Resource> objects(const ApiService& service, const WorkloadRules& rules = kRules) {
  auto result = objects_of(service, name_of_service(service), rules);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(std::vector<Resource>());
}

std::vector<Resource> objects(const ApiWorkload& workload) {
  auto result = objects_of(workload, workload.uid, kRules);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(std::vector<Resource>());
}

std::string reason_against(const ApiAddress& address, const std::string& name) {
  const auto result = objects_of(address, name, kRules);
  return result ? "" : result.error().message;
}

// The keys of all objects: "Pod shop/web-1, EndpointSlice shop/..."
std::string keys_text(const std::vector<Resource>& all) {
  std::string text;
  for (const Resource& object : all)
    text += (text.empty() ? "" : ", ") + key_of(object).to_string();
  return text;
}

TEST(WorkloadObjectsTest, AServiceOfTheClusterDomainIsAKubernetesService) {
  ApiService service = service_at("shop", "Web.shop.svc.cluster.LOCAL");
  service.addresses = {{"", v4_octets(9), {}}, {"net-1", v6_octets(), 128}, {"", v4_octets(0), 24}};
  service.ports = {{80, 8080, ApiProtocol::Http2}, {9000, 0, ApiProtocol::Unknown}};
  const auto all = objects(service);
  ASSERT_EQ(keys_text(all), "Service shop/web");
  const auto& object = std::get<KubeService>(all[0]);
  EXPECT_FALSE(object.headless);
  ASSERT_EQ(object.cluster_ips.size(), 2U);  // a prefix is not the address of a Service
  EXPECT_EQ(object.cluster_ips[0].to_string(), "10.1.0.9");
  EXPECT_EQ(object.ports[0].target_port, 8080);
  EXPECT_EQ(object.ports[0].app_protocol, "http2");
  EXPECT_EQ(object.ports[1].number, 9000);
  EXPECT_EQ(object.export_to, ExportTo{"*"});
  EXPECT_FALSE(object.publish_not_ready_addresses);
}

TEST(WorkloadObjectsTest, AServiceWithoutAnAddressIsHeadless) {
  ApiService service = service_at("shop", "db.shop.svc.cluster.local");
  service.allows_unhealthy = true;
  service.is_private = true;
  const auto all = objects(service);
  const auto& object = std::get<KubeService>(all.at(0));
  EXPECT_TRUE(object.headless);
  EXPECT_TRUE(object.publish_not_ready_addresses);
  EXPECT_EQ(object.export_to, ExportTo{"."});
}

TEST(WorkloadObjectsTest, AServiceHasTheOneFamilyThatItSays) {
  ApiService service = service_at("shop", "db.shop.svc.cluster.local");
  const std::pair<ApiFamilies, const char*> cases[] = {{ApiFamilies::Automatic, ""},
                                                       {ApiFamilies::Ipv4Only, "IPv4"},
                                                       {ApiFamilies::Ipv6Only, "IPv6"},
                                                       {ApiFamilies::Dual, ""},
                                                       {ApiFamilies{99}, ""}};
  for (const auto& [families, only] : cases) {
    service.ip_families = families;
    EXPECT_EQ(only_family_of(std::get<KubeService>(objects(service).at(0))), only);
  }
}

TEST(WorkloadObjectsTest, EveryOtherHostIsAServiceEntry) {
  for (const char* host : {"api.example.org", "*.example.org", "a.b.shop.svc.cluster.local",
                           "web.bank.svc.cluster.local", "*.shop.svc.cluster.local"})
    EXPECT_EQ(keys_text(objects(service_at("shop", host))),
              std::string("ServiceEntry shop/") + host);
}

TEST(WorkloadObjectsTest, AServiceEntryHasWhatTheServiceHas) {
  ApiService service = service_at("shop", "api.example.org");
  service.addresses = {{"", v4_octets(9), {}}, {"", v4_octets(0), 24}};
  service.ports = {{443, 8443, ApiProtocol::Tls}};
  service.subject_alt_names = {"spiffe://x/ns/shop/sa/api"};
  const auto all = objects(service);
  const auto& object = std::get<ServiceEntry>(all.at(0));
  ASSERT_EQ(object.addresses.size(), 2U);
  EXPECT_EQ(object.addresses[0].to_string(), "10.1.0.9/32");
  EXPECT_EQ(object.addresses[1].to_string(), "10.1.0.0/24");
  EXPECT_EQ(object.ports.at(0).protocol, "TLS");
  EXPECT_EQ(object.ports.at(0).target_port, 8443);
  EXPECT_EQ(object.subject_alt_names, service.subject_alt_names);
  EXPECT_FALSE(object.auto_allocate);
}

TEST(WorkloadObjectsTest, TheCanonicalServiceCountsAsTheOldest) {
  ApiService service = service_at("shop", "api.example.org");
  const auto plain = objects(service);
  service.is_canonical = true;
  const auto canonical = objects(service);
  EXPECT_TRUE(is_older(meta_of(canonical.at(0)), meta_of(plain.at(0))));
}

TEST(WorkloadObjectsTest, LeavesOutAddressesOfOtherNetworks) {
  ApiService service = service_at("shop", "web.shop.svc.cluster.local");
  service.addresses = {{"net-1", v4_octets(1), {}}, {"net-2", v4_octets(2), {}}};
  const auto near = objects(service, {"cluster.local", "net-2"});
  ASSERT_EQ(std::get<KubeService>(near.at(0)).cluster_ips.size(), 1U);
  EXPECT_EQ(std::get<KubeService>(near.at(0)).cluster_ips[0].to_string(), "10.1.0.2");
  service.addresses.push_back({"", v4_octets(3), {}});
  EXPECT_EQ(
      std::get<KubeService>(objects(service, {"cluster.local", "net-2"}).at(0)).cluster_ips.size(),
      2U);
  service.addresses.pop_back();
  // It is no headless Service for that.
  const auto far = objects(service, {"cluster.local", "net-3"});
  EXPECT_TRUE(std::get<KubeService>(far.at(0)).cluster_ips.empty());
  EXPECT_FALSE(std::get<KubeService>(far.at(0)).headless);
}

TEST(WorkloadObjectsTest, AWorkloadIsAPodOrAWorkloadEntryByItsUid) {
  const std::pair<const char*, const char*> cases[] = {
      {"east//Pod/shop/web-1", "Pod east:shop/web-1"},
      {"east/networking.istio.io/WorkloadEntry/shop/vm-1",
       "WorkloadEntry east:shop/east/networking.istio.io/WorkloadEntry/shop/vm-1"},
      {"east/example.org/Pod/shop/web-1",
       "WorkloadEntry east:shop/east/example.org/Pod/shop/web-1"},
      {"0ae5c03d", "WorkloadEntry shop/0ae5c03d"},
  };
  for (const auto& [uid, expected] : cases)
    EXPECT_EQ(keys_text(objects(workload_of_uid(uid))), expected);
}

TEST(WorkloadObjectsTest, APodHasWhatItsWorkloadHas) {
  ApiWorkload workload = workload_of_uid("east//Pod/shop/web-1");
  workload.addresses.push_back(v6_octets());
  workload.network = "net-1";
  workload.node = "node-1";
  workload.service_account = "web";
  workload.is_healthy = false;
  workload.has_host_network = true;
  const auto all = objects(workload);
  const auto& pod = std::get<Pod>(all.at(0));
  EXPECT_EQ(pod.meta.cluster + pod.meta.network + pod.node_name + pod.service_account,
            "eastnet-1node-1web");
  EXPECT_EQ(pod.ips.size(), 2U);
  EXPECT_TRUE(pod.running);
  EXPECT_FALSE(pod.ready);
  EXPECT_TRUE(pod.host_network);
}

TEST(WorkloadObjectsTest, AWorkloadHasAWorkloadEntryForEachAddress) {
  ApiWorkload workload = workload_of_uid("vm");
  workload.addresses.push_back(v6_octets());
  workload.region = "r";
  workload.zone = "z";
  workload.cluster_id = "west";
  const auto all = objects(workload);
  ASSERT_EQ(keys_text(all), "WorkloadEntry west:shop/vm, WorkloadEntry west:shop/vm#1");
  EXPECT_EQ(std::get<WorkloadEntry>(all[0]).spec.address, "10.1.0.1");
  EXPECT_EQ(std::get<WorkloadEntry>(all[1]).spec.locality, "r/z");
  EXPECT_EQ(meta_of(all[1]).cluster, "west");
  workload.addresses.clear();
  EXPECT_EQ(objects(workload).size(), 0U);
  workload.hostname = "VM.example.org";
  EXPECT_EQ(std::get<WorkloadEntry>(objects(workload).at(0)).spec.address, "vm.example.org");
}

TEST(WorkloadObjectsTest, AWorkloadIsInASliceOfEachKubernetesService) {
  ApiWorkload workload = workload_of_uid("east//Pod/shop/db-0");
  workload.services = {{"shop/db.shop.svc.cluster.local", {{5432, 15432}, {80, 0}}},
                       {"shop/api.example.org", {}},
                       {"bank/far.example.org", {}}};
  workload.node = "node-1";
  workload.is_plain_pod = true;
  const auto all = objects(workload);
  ASSERT_EQ(keys_text(all), "EndpointSlice shop/db/east//Pod/shop/db-0, Pod east:shop/db-0");
  const auto& slice = std::get<EndpointSlice>(all[0]);
  EXPECT_EQ(slice.service, "db");
  const EndpointSubset& subset = slice.subsets.at(0);
  EXPECT_EQ(subset.ports.at(0).number, 15432);
  EXPECT_EQ(subset.ports.at(1).number, 80);
  EXPECT_EQ(subset.endpoints.at(0).target_name, "db-0");
  EXPECT_EQ(subset.endpoints.at(0).hostname, "db-0");
  // A ServiceEntry of the same namespace finds its workloads by a label.
  EXPECT_EQ(meta_of(all[1]).labels, (Labels{{"shop/api.example.org", ""}}));
  EXPECT_EQ(std::get<ServiceEntry>(objects(service_at("shop", "api.example.org")).at(0))
                .workload_selector,
            meta_of(all[1]).labels);
}

TEST(WorkloadObjectsTest, AMemberHasALabelBelowItsService) {
  struct Case {
    const char* uid;
    const char* hostname;
    bool is_plain_pod;
    const char* label;
  };
  const Case cases[] = {
      {"c//Pod/shop/db-0", "", true, "db-0"},
      {"c//Pod/shop/db-12", "", true, "db-12"},
      {"c//Pod/shop/db-0", "", false, ""},     // of a Deployment
      {"c//Pod/shop/db-12345", "", true, ""},  // of a DaemonSet
      {"c//Pod/shop/db-01", "", true, ""},
      {"c//Pod/shop/db", "", true, ""},
      {"c//Pod/shop/7", "", true, ""},
      {"c//Pod/shop/db-0", "first", true, "first"},
      {"vm", "First.db.shop.svc.cluster.local", false, "first"},
      {"vm", "a.first.db.shop.svc.cluster.local", false, ""},
      {"vm", "first.example.org", false, ""},
      {"vm", "db.shop.svc.cluster.local", false, ""},
  };
  for (const Case& c : cases) {
    ApiWorkload workload = workload_of_uid(c.uid);
    workload.hostname = c.hostname;
    workload.is_plain_pod = c.is_plain_pod;
    workload.services = {{"shop/db.shop.svc.cluster.local", {}}};
    const auto all = objects(workload);
    EXPECT_EQ(std::get<EndpointSlice>(all.at(0)).subsets.at(0).endpoints.at(0).hostname, c.label)
        << c.uid << " " << c.hostname;
  }
}

TEST(WorkloadObjectsTest, RefusesWhatNoServiceHas) {
  const auto refuse = [](auto change, const char* reason) {
    ApiService service = service_at("shop", "api.example.org");
    change(service);
    const std::string why = reason_against(service, name_of_service(service));
    EXPECT_NE(why.find(reason), std::string::npos) << why;
  };
  refuse([](ApiService& s) { s.ns = ""; }, "namespace: \"\" is not");
  refuse([](ApiService& s) { s.hostname = ""; }, "hostname: ");
  refuse([](ApiService& s) { s.hostname = "*"; }, "hostname: \"*\" covers all names");
  refuse([](ApiService& s) { s.hostname = "a.*.org"; }, "wildcard that is not leftmost");
  refuse([](ApiService& s) { s.addresses = {{"", "123", {}}}; }, "addresses[0]: has 3 octets");
  refuse([](ApiService& s) { s.addresses = {{"", v4_octets(1), 33}}; }, "longer prefix");
  refuse([](ApiService& s) { s.addresses.assign(65, {"", v4_octets(1), {}}); }, "64 elements");
  refuse([](ApiService& s) { s.ports = {{0, 1}}; }, "ports[0]: is not a port");
  refuse([](ApiService& s) { s.ports = {{1, 65536}}; }, "ports[0]: is not a port");
  refuse([](ApiService& s) { s.ports.assign(257, {1, 1}); }, "ports: has more than 256");
  refuse([](ApiService& s) { s.subject_alt_names = {"a\nb"}; }, "\"a\\010b\" has characters");
  refuse([](ApiService& s) { s.subject_alt_names.assign(257, "a"); }, "more than 256 elements");
  const ApiService good = service_at("shop", "api.example.org");
  EXPECT_NE(reason_against(good, "shop/other.example.org"), "");
  EXPECT_NE(reason_against(ApiAddress(), "x"), "");
}

TEST(WorkloadObjectsTest, RefusesWhatNoWorkloadHas) {
  const auto refuse = [](auto change, const char* reason) {
    ApiWorkload workload = workload_of_uid("c//Pod/shop/web-1");
    change(workload);
    const std::string why = reason_against(workload, workload.uid);
    EXPECT_NE(why.find(reason), std::string::npos) << why;
  };
  refuse([](ApiWorkload& w) { w.uid = ""; }, "uid: is missing");
  refuse([](ApiWorkload& w) { w.uid = "a b"; }, "uid: \"a b\" has characters");
  refuse([](ApiWorkload& w) { w.uid = std::string(701, 'a'); }, "uid: has more than 700 octets");
  refuse([](ApiWorkload& w) { w.uid = "c//Pod/../web-1"; }, "namespace: \"..\" is not");
  refuse([](ApiWorkload& w) { w.ns = "bank"; }, "namespace: is \"bank\", but that of uid");
  refuse([](ApiWorkload& w) { w.hostname = "a_b"; }, "hostname: \"a_b\" is not a host name");
  refuse([](ApiWorkload& w) { w.addresses = {""}; }, "addresses[0]: has 0 octets");
  refuse([](ApiWorkload& w) { w.addresses.assign(65, v4_octets(1)); }, "64 elements");
  refuse([](ApiWorkload& w) { w.network = "a\nb"; }, "network: ");
  refuse([](ApiWorkload& w) { w.node = std::string(254, 'a'); }, "node: has more than 253");
  refuse([](ApiWorkload& w) { w.services = {{"shop", {}}}; }, "services: \"shop\" is not");
  refuse([](ApiWorkload& w) { w.services = {{"shop/a/b", {}}}; }, "services: ");
  refuse([](ApiWorkload& w) { w.services = {{"shop/a_b", {}}}; }, "services: ");
  refuse([](ApiWorkload& w) { w.services = {{"shop/a.example", {{0, 0}}}}; }, "is not a port");
  refuse([](ApiWorkload& w) { w.services.assign(257, {"shop/a.example", {}}); }, "256 elements");
}

TEST(WorkloadObjectsTest, ANamespaceMayBeLeftOutOfAWorkload) {
  ApiWorkload workload = workload_of_uid("c//Pod/shop/web-1");
  workload.ns = "";
  EXPECT_EQ(keys_text(objects(workload)), "Pod c:shop/web-1");
}

TEST(WorkloadObjectsTest, TheNameOfAResourceTellsTheKeyOfItsObject) {
  const auto is_told = [](const auto& message, const std::string& name) {
    const auto keys = keys_of_name(name, kRules);
    const auto all = objects(message);
    return keys.size() == 1 && std::ranges::any_of(all, [&](const Resource& object) {
             return key_of(object) == keys[0];
           });
  };
  for (const char* host : {"web.shop.svc.cluster.local", "api.example.org"})
    EXPECT_TRUE(is_told(service_at("shop", host), std::string("shop/") + host)) << host;
  for (const char* uid : {"c//Pod/shop/web-1", "c/networking.istio.io/WorkloadEntry/shop/vm"})
    EXPECT_TRUE(is_told(workload_of_uid(uid), uid)) << uid;
  EXPECT_TRUE(keys_of_name("0ae5c03d", kRules).empty());
}

}  // namespace
}  // namespace meshdns::registry::istiod
