// SPDX-License-Identifier: Apache-2.0
// The limits of what one ServiceEntry makes of its endpoints: bounded work and memory, and a note
// where something is left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "registry/snapshot/endpoint_addresses.hpp"
#include "tests/registry/core/fixture.hpp"

namespace meshdns::registry {
namespace {

IpAddress numbered_address(std::size_t number) {
  return IpAddress::v4({10, static_cast<std::uint8_t>(number >> 16),
                        static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)});
}

ServiceEntry entry_with_endpoints(std::size_t count) {
  ServiceEntry entry;
  entry.meta.name = "many";
  entry.meta.ns = "default";
  entry.hosts = {"many.example.org"};
  entry.resolution = Resolution::Static;
  entry.ports = {{.number = 80, .name = "http", .protocol = "HTTP"}};
  for (std::size_t i = 0; i < count; ++i) {
    WorkloadSpec& spec = entry.endpoints.emplace_back();
    spec.address = numbered_address(i).to_string();
  }
  return entry;
}

const ServiceRecord& service_of(const TestRegistry& r, std::string_view host) {
  return *r.snapshot().find_host(host)->records().front();
}

bool has_note(const ServiceRecord& service, std::string_view part) {
  return std::ranges::any_of(service.details->notes, [&](const std::string& note) {
    return note.find(part) != std::string::npos;
  });
}

TEST(EndpointLimitsTest, ManyNetworksHaveABoundedNumberOfCopies) {
  ServiceEntry entry = entry_with_endpoints(4096);
  for (std::size_t i = 0; i < 2048; ++i) entry.endpoints[i].network = "n" + std::to_string(i);
  TestRegistry r;
  r.add({entry});
  const ServiceRecord& service = service_of(r, "many.example.org");
  std::size_t addresses = 0;
  for (const auto& scope : service.details->by_network) addresses += scope.addresses.v4.size();
  EXPECT_LE(addresses, EndpointAddresses::kMaxCopies + 4096);
  EXPECT_EQ(service.details->by_network.size(), 33U);
  EXPECT_EQ(service.details->by_network[31].addresses.v4.size(), 2049U);
  EXPECT_EQ(service.addresses(nullptr, nullptr).v4.size(), 4096U) << "without a network: all";
  EXPECT_TRUE(has_note(service, "endpoints of 2016 networks ignored"));
}

TEST(EndpointLimitsTest, ManyNetworksOfTheirOwnEndpointsAreAllKept) {
  ServiceEntry entry = entry_with_endpoints(4096);
  for (std::size_t i = 0; i < 4096; ++i) entry.endpoints[i].network = "n" + std::to_string(i);
  TestRegistry r;
  r.add({entry});
  const ServiceRecord& service = service_of(r, "many.example.org");
  EXPECT_EQ(service.details->by_network.size(), 4097U);
  EXPECT_FALSE(has_note(service, "ignored"));
}

TEST(EndpointLimitsTest, PortListsOfEndpointsAreBounded) {
  ServiceEntry entry = entry_with_endpoints(1000);
  for (std::uint16_t i = 1; i < 256; ++i)
    entry.ports.push_back({.number = static_cast<std::uint16_t>(1000 + i),
                           .name = "p" + std::to_string(i),
                           .protocol = "HTTP"});
  for (std::uint16_t i = 0; i < 1000; ++i) entry.endpoints[i].ports = {{"http", 5000 + i}};
  TestRegistry r;
  r.add({entry});
  const ServiceRecord& service = service_of(r, "many.example.org");
  const auto& list = *service.endpoints();
  EXPECT_EQ(list.ports.size(), 65U) << "64 of 256 ports, and the entry's own";
  EXPECT_EQ(list.ports[list.entries[63].subset]->ports.front().number, 5063);
  EXPECT_EQ(list.ports[list.entries[64].subset]->ports.front().number, 80);
  EXPECT_TRUE(has_note(service, "too many different ports"));
}

TEST(EndpointLimitsTest, AddressesOfEndpointNamesAreBounded) {
  ServiceEntry entry = entry_with_endpoints(100);
  entry.resolution = Resolution::Dns;
  Transaction t;
  for (std::size_t i = 0; i < 100; ++i) {
    entry.endpoints[i].address = "n" + std::to_string(i) + ".example.net";
    ResolvedName name{entry.endpoints[i].address, ResolvedName::State::Resolved, {}};
    for (std::size_t k = 0; k < 256; ++k) name.addresses.push_back(numbered_address(256 * i + k));
    t.set_resolved("default", std::move(name));
  }
  TestRegistry r;
  r.add({entry});
  r.registry().commit(std::move(t));
  const ServiceRecord& service = service_of(r, "many.example.org");
  EXPECT_EQ(service.addresses(nullptr, nullptr).v4.size(), 4096U);
  EXPECT_TRUE(has_note(service, "21504 addresses of endpoint names ignored"));
}

TEST(EndpointLimitsTest, NotesOfIgnoredEndpointsAreBounded) {
  ServiceEntry entry = entry_with_endpoints(100);
  for (WorkloadSpec& spec : entry.endpoints) spec.address = "name-" + spec.address + ".example.org";
  TestRegistry r;
  r.add({entry});
  const ServiceRecord& service = service_of(r, "many.example.org");
  EXPECT_EQ(service.details->notes.size(), 17U);
  EXPECT_TRUE(has_note(service, "a name needs resolution DNS"));
  EXPECT_TRUE(has_note(service, "84 more addresses or endpoints ignored"));
}

TEST(EndpointLimitsTest, HostsOfEqualEndpointsShareOneList) {
  ServiceEntry entry = entry_with_endpoints(1000);
  entry.hosts.clear();
  for (int i = 0; i < 256; ++i) entry.hosts.push_back("h" + std::to_string(i) + ".example.org");
  ServiceEntry other = entry_with_endpoints(1000);
  other.meta.name = "other";
  other.hosts = {"other.example.org"};
  other.endpoints.back().weight = 7;
  TestRegistry r;
  r.add({entry, other});
  const EndpointList* const list = service_of(r, "h0.example.org").endpoints();
  for (const auto& host : entry.hosts) EXPECT_EQ(service_of(r, host).endpoints(), list);
  EXPECT_NE(service_of(r, "other.example.org").endpoints(), list);
}

}  // namespace
}  // namespace meshdns::registry
