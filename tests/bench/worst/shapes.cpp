// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/worst/shapes.hpp"

#include <tuple>

#include "tests/bench/worst/world.hpp"

namespace meshdns::bench {

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  const auto add = [&](std::string what, std::string name, Type type,
                       std::string client = "127.0.0.1") {
    all.push_back({std::move(what), std::move(name), type, wire::Class::In, std::move(client)});
  };
  for (const char* service : {"h1k", "h10k", "h50k", "same"}) {
    const std::string base = std::string(service) + ".shop.svc.cluster.local.";
    const std::string label = std::string("headless ") + service;
    add(label + ", addresses", base, Type::A);
    add(label + ", SRV", base, Type::Srv);
    add(label + ", SRV of a port", "_http._tcp." + base, Type::Srv);
    add(label + ", SRV of no port", "_none._tcp." + base, Type::Srv);
    add(label + ", SRV of a protocol", "_udp." + base, Type::Srv);
    add(label + ", no such endpoint", "nobody." + base, Type::A);
    add(label + ", no such address", "10-9-9-9." + base, Type::A);
    add(label + ", through a search domain", base + "default.svc.cluster.local.", Type::A);
    add(label + ", SRV through a search domain",
        "_http._tcp." + base + "default.svc.cluster.local.", Type::Srv);
    add(label + ", short form, SRV", std::string("_http._tcp.") + service + ".shop.", Type::Srv);
  }
  add("headless h1k, an endpoint", "10-64-3-200.h1k.shop.svc.cluster.local.", Type::A);
  add("headless h50k, the last endpoint", "10-65-17-111.h50k.shop.svc.cluster.local.", Type::A);
  add("headless h50k, SRV of an endpoint", "10-65-17-111.h50k.shop.svc.cluster.local.", Type::Srv);
  add("headless h10k, the last endpoint", "h10k-member-9999.h10k.shop.svc.cluster.local.", Type::A);
  add("headless h10k, SRV of an endpoint", "h10k-member-9999.h10k.shop.svc.cluster.local.",
      Type::Srv);
  add("headless same, 10,000 of one name", "member.same.shop.svc.cluster.local.", Type::A);
  add("headless same, SRV of 10,000 of one name", "member.same.shop.svc.cluster.local.", Type::Srv);
  add("PTR of an endpoint of h50k", "111.17.65.10.in-addr.arpa.", Type::Ptr);
  add("PTR of an endpoint of h10k", "0.17.64.10.in-addr.arpa.", Type::Ptr);
  add("PTR of 5,000 names", "1.0.200.10.in-addr.arpa.", Type::Ptr);
  add("PTR of no address", "1.0.210.10.in-addr.arpa.", Type::Ptr);
  add("above addresses of h50k", "17.65.10.in-addr.arpa.", Type::Ptr);
  add("above addresses of 5,000 names", "0.200.10.in-addr.arpa.", Type::Ptr);
  add("above no address", "0.210.10.in-addr.arpa.", Type::Ptr);
  add("a host of 3,000 namespaces", "crowd.mesh.example.", Type::A);
  add("a host of 3,000 namespaces, AAAA", "crowd.mesh.example.", Type::Aaaa);
  add("a host of 3,000 public namespaces", "wide.mesh.example.", Type::A);
  add("a wildcard of 3,000 namespaces", "x.crowd.mesh.example.", Type::A);
  add("a wildcard of 3,000 public namespaces", deep_name(50, "wide.mesh.example."), Type::A);
  add("a port below a wildcard of 3,000", "_http._tcp." + deep_name(50, "crowd.mesh.example."),
      Type::Srv);
  add("hidden wildcards of 100 depths", deep_name(120, "depths.example."), Type::A);
  add("a port below hidden wildcards of 100 depths",
      "_http._tcp." + deep_name(110, "depths.example."), Type::Srv);
  add("PTR of a Service that 600 claim", "50.0.96.10.in-addr.arpa.", Type::Ptr);
  add("PTR of a Pod that 1,200 claim", "1.0.240.10.in-addr.arpa.", Type::Ptr);
  add("above a Service that 600 claim", "0.96.10.in-addr.arpa.", Type::Ptr);
  add("above a Pod that 1,200 claim", "0.240.10.in-addr.arpa.", Type::Ptr);
  add("PTR of an address of 250 large hosts", "2.0.200.10.in-addr.arpa.", Type::Ptr);
  add("an endpoint among 400", "common-7.mesh.example.", Type::A);
  add("4,000 workloads", "selected.mesh.example.", Type::A);
  for (const auto& [sidecar, client] : {std::pair{"2,000 hosts", "10.250.0.7"},
                                        {"2,000 ports", "10.250.0.8"},
                                        {"2,000 wildcards", "10.250.0.9"},
                                        {"2,000 namespaces", "10.250.0.10"}}) {
    const std::string of = std::string("a Sidecar of ") + sidecar;
    add(of, "shared-1.mesh.example.", Type::A, client);
    add(of + ", a host of 3,000", "wide.mesh.example.", Type::A, client);
    add(of + ", a deep name", deep_name(120, "depths.example."), Type::A, client);
    add(of + ", 2,000 ports", "ports.shop.svc.cluster.local.", Type::A, client);
    add(of + ", PTR", "1.0.200.10.in-addr.arpa.", Type::Ptr, client);
    add(of + ", PTR of large hosts", "2.0.200.10.in-addr.arpa.", Type::Ptr, client);
    add(of + ", above addresses", "0.200.10.in-addr.arpa.", Type::Ptr, client);
    add(of + ", above a name", "shop.svc.cluster.local.", Type::A, client);
  }
  for (const auto& [walker, end, client] :
       {std::tuple{"of the cluster", "shop.svc.cluster.local.", "10.250.0.12"},
        {"of hidden wildcards", "depths.example.", "10.250.0.13"},
        {"of a short name", "victim.shop.svc.", "10.250.0.14"}}) {
    const std::string walk = std::string("32 search domains ") + walker;
    add(walk + ", a deep name", deep_name(80, end), Type::A, client);
    add(walk + ", a port of a deep name", "_http._tcp." + deep_name(70, end), Type::Srv, client);
    add(walk + ", HTTPS of a deep name", deep_name(80, end), Type::Https, client);
    add(walk + ", PTR", "1.0.202.10.in-addr.arpa.", Type::Ptr, client);
    add(walk + ", above addresses", "0.202.10.in-addr.arpa.", Type::Ptr, client);
  }
  add("wildcards that yield to a short name", deep_name(110, "victim.shop.svc."), Type::A);
  add("PTR of 300 hosts that yield", "1.0.202.10.in-addr.arpa.", Type::Ptr);
  add("100 wildcards of 400 parts", deep_name(110, "parts.example."), Type::A, "10.250.0.15");
  add("a port below 100 wildcards of 400 parts", "_http._tcp." + deep_name(105, "parts.example."),
      Type::Srv, "10.250.0.15");
  add("above 256 hidden addresses", "0.203.10.in-addr.arpa.", Type::Ptr);
  add("above 256 addresses of 256 hidden hosts", "0.204.10.in-addr.arpa.", Type::Ptr);
  std::string zeros;
  for (int i = 0; i < 17; ++i) zeros += "0.";
  add("above 256 hidden addresses of IPv6", zeros + "d.f.ip6.arpa.", Type::Ptr);
  for (const auto& [who, client] : {std::pair{"", "127.0.0.1"},
                                    {", by its owner", "10.250.0.16"},
                                    {", by a Sidecar of one port", "10.250.0.15"}}) {
    const std::string victim = "victim.shop.svc.cluster.local.";
    for (const std::string& name :
         {victim, victim + "default.svc.cluster.local.", std::string("x.") + victim,
          std::string("ported.mesh.example."), std::string("x.ported.mesh.example.")})
      for (const Type type : {Type::A, Type::Aaaa, Type::Any, Type::Https})
        add("crowd of ports, " + std::string(wire::to_string(type)) + " of " + name + who, name,
            type, client);
    add("crowd of ports, SRV" + std::string(who), "_p._tcp." + victim, Type::Srv, client);
    add("crowd of ports, SRV of a host" + std::string(who), "_p._tcp.ported.mesh.example.",
        Type::Srv, client);
    add("PTR of 256 hosts by 199" + std::string(who), "7.100.51.198.in-addr.arpa.", Type::Ptr,
        client);
    add("above 256 hosts by 199" + std::string(who), "100.51.198.in-addr.arpa.", Type::Ptr, client);
    add("PTR of 150 headless Services" + std::string(who), "77.2.0.192.in-addr.arpa.", Type::Ptr,
        client);
    add("above 150 headless Services" + std::string(who), "2.0.192.in-addr.arpa.", Type::Ptr,
        client);
  }
  const std::string near = "10.250.0.11";
  add("endpoints of another network", "far.shop.svc.cluster.local.", Type::A, near);
  add("endpoints of another network, SRV", "far.shop.svc.cluster.local.", Type::Srv, near);
  add("endpoints of another network, SRV of a port", "_http._tcp.far.shop.svc.cluster.local.",
      Type::Srv, near);
  add("endpoints of another network, ANY of a port", "_http._tcp.far.shop.svc.cluster.local.",
      Type::Any, near);
  add("endpoints of 4,000 networks", "networks.mesh.example.", Type::A, near);
  add("endpoints of 4,000 networks, for all", "networks.mesh.example.", Type::A);
  for (const char* name :
       {"h50k.shop.svc.cluster.local.", "_http._tcp.h50k.shop.svc.cluster.local.",
        "member.same.shop.svc.cluster.local.", "crowd.mesh.example.", "weighted.mesh.example.",
        "1.0.200.10.in-addr.arpa.", "chain-0.shop.svc.cluster.local."})
    for (const Type type : {Type::Any, Type::Https, Type::Svcb, Type::Txt, Type::Ns, Type::Soa})
      add(std::string(wire::to_string(type)) + " of " + name, name, type);
  add("2,000 ports, SRV", "ports.shop.svc.cluster.local.", Type::Srv);
  add("2,000 ports, SRV of one", "_p1999._tcp.ports.shop.svc.cluster.local.", Type::Srv);
  add("4,000 weighted endpoints", "weighted.mesh.example.", Type::A);
  add("250 addresses", "many.mesh.example.", Type::A);
  add("a deep name below a wildcard", deep_name(120, "deep.example."), Type::A);
  add("a deep name of nobody", deep_name(120, "nowhere.example."), Type::A);
  add("a deep name of the cluster", deep_name(100, "shop.svc.cluster.local."), Type::A);
  add("a deep name below a port", "_http._tcp." + deep_name(110, "deep.example."), Type::Srv);
  add("a deep reverse name", deep_name(110, "10.in-addr.arpa."), Type::Ptr);
  add("a chain of aliases", "chain-0.shop.svc.cluster.local.", Type::A);
  add("a chain of aliases, SRV", "chain-0.shop.svc.cluster.local.", Type::Srv);
  add("a loop of aliases", "loop.shop.svc.cluster.local.", Type::A);
  for (const char* name : {"large", "alias", "chain"}) {
    const std::string base = std::string(name) + ".up.example.";
    add("cached " + std::string(name) + ", addresses", base, Type::A);
    add("cached " + std::string(name) + ", MX", base, Type::Mx);
    add("cached " + std::string(name) + ", TXT", base, Type::Txt);
    add("cached " + std::string(name) + ", ANY", base, Type::Any);
    add("cached " + std::string(name) + ", DNS64", base, Type::Aaaa);
  }
  for (const char* service : {"to-large", "to-alias"})
    for (const Type type : {Type::A, Type::Mx, Type::Txt, Type::Aaaa, Type::Any})
      add(std::string("ExternalName ") + service + ", " + wire::to_string(type),
          std::string(service) + ".shop.svc.cluster.local.", type);
  add("PTR through DNS64",
      "1.0.8.c.2.1.6.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa.", Type::Ptr);
  for (const char* name : {"h50k.shop.svc.cluster.local.",
                           "_http._tcp.h50k.shop.svc.cluster.local.",
                           "member.same.shop.svc.cluster.local.",
                           "crowd.mesh.example.",
                           "wide.mesh.example.",
                           "x.crowd.mesh.example.",
                           "weighted.mesh.example.",
                           "selected.mesh.example.",
                           "networks.mesh.example.",
                           "ports.shop.svc.cluster.local.",
                           "1.0.200.10.in-addr.arpa.",
                           "2.0.200.10.in-addr.arpa.",
                           "victim.shop.svc.cluster.local.",
                           "ported.mesh.example.",
                           "7.100.51.198.in-addr.arpa.",
                           "77.2.0.192.in-addr.arpa.",
                           "chain-0.shop.svc.cluster.local.",
                           "large.up.example.",
                           "to-large.shop.svc.cluster.local.",
                           "whoami.meshdns."})
    all.push_back({"explanation of " + std::string(name), name, Type::Txt, wire::Class::Chaos});
  all.push_back({"explanation of deep wildcards", deep_name(120, "depths.example."), Type::Txt,
                 wire::Class::Chaos});
  all.push_back({"explanation of a deep port", "_http._tcp." + deep_name(110, "depths.example."),
                 Type::Txt, wire::Class::Chaos});
  return all;
}

}  // namespace meshdns::bench
