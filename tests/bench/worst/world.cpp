// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/worst/world.hpp"

namespace meshdns::bench {
namespace {

std::string v4(std::size_t i) {
  return "10." + number(64 + i / 65536) + "." + number(i / 256 % 256) + "." + number(i % 256);
}

enum class Names { Dashed, Own, Same };

// A headless Service, its endpoints in slices of 1,000.
std::string headless(const std::string& name, std::size_t endpoints, Names names,
                     std::size_t first) {
  std::string yaml =
      "---\napiVersion: v1\nkind: Service\nmetadata: { name: " + name +
      ", namespace: shop }\nspec: { clusterIP: None, ports: [{ name: http, port: 80, "
      "protocol: TCP }] }\n";
  for (std::size_t i = 0; i < endpoints; ++i) {
    if (i % 1000 == 0)
      yaml +=
          "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: { name: " + name +
          "-" + number(i / 1000) +
          ", namespace: shop, labels: { kubernetes.io/service-name: " + name +
          " } }\naddressType: IPv4\nports: [{ name: http, port: 80, protocol: TCP }]\n"
          "endpoints:\n";
    yaml += "- { addresses: [" + v4(first + i) + "], conditions: { ready: true }";
    if (names == Names::Own) yaml += ", hostname: " + name + "-member-" + number(i);
    if (names == Names::Same) yaml += ", hostname: member";
    yaml += " }\n";
  }
  return yaml;
}

std::string service_entry(const std::string& name, const std::string& ns, const std::string& spec) {
  return "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: { name: " + name +
         ", namespace: " + ns + " }\nspec: { " + spec + " }\n";
}

std::string external_name(const std::string& name, const std::string& target) {
  return "---\napiVersion: v1\nkind: Service\nmetadata: { name: " + name +
         ", namespace: shop }\nspec: { type: ExternalName, externalName: " + target + " }\n";
}

// A headless Service of one endpoint.
std::string slice_of(const std::string& name, const std::string& ns, const std::string& address) {
  return "---\napiVersion: v1\nkind: Service\nmetadata: { name: " + name + ", namespace: " + ns +
         " }\nspec: { clusterIP: None, ports: [{ name: http, port: 80 }] }\n---\napiVersion: "
         "discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: { name: " +
         name + "-1, namespace: " + ns + ", labels: { kubernetes.io/service-name: " + name +
         " } }\naddressType: IPv4\nports: [{ name: http, port: 80 }]\nendpoints: [{ addresses: [" +
         address + "] }]\n";
}

std::string client_pod(const std::string& ns, const std::string& address) {
  return "---\napiVersion: v1\nkind: Pod\nmetadata: { name: client, namespace: " + ns +
         " }\nstatus: { phase: Running, podIP: " + address + ", podIPs: [{ ip: " + address +
         " }] }\n";
}

std::string sidecar(const std::string& ns, const std::string& egress) {
  return "---\napiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: { name: default, "
         "namespace: " +
         ns + " }\nspec: { egress: [" + egress + "] }\n";
}

// `text(i)` for each i below `count`, with commas between.
template <typename Text>
std::string list_of(std::size_t count, const Text& text) {
  std::string list;
  for (std::size_t i = 0; i < count; ++i) list += (i == 0 ? "" : ", ") + std::string(text(i));
  return list;
}

// A tenant that claims what belongs to a Service and to a Pod, by more objects than a query looks
// at.
std::string claims_of_others() {
  std::string yaml =
      "---\napiVersion: v1\nkind: Service\nmetadata: { name: victim, namespace: shop }\nspec: { "
      "clusterIP: 10.96.0.50, ports: [{ name: http, port: 80 }] }\n" +
      slice_of("peers", "shop", "10.240.0.1") + client_pod("shop", "10.240.0.1");
  for (std::size_t i = 0; i < 600; ++i) {
    yaml += service_entry("claim-" + number(i), "evil",
                          "hosts: [claim-" + number(i) +
                              ".evil.example], addresses: [10.96.0.50, 10.240.0.1], resolution: "
                              "STATIC");
    yaml += slice_of("claim-" + number(i), "evil", "10.240.0.1");
  }
  return yaml;
}

// Hosts that very many namespaces have.
std::string hosts_of_many_namespaces() {
  std::string yaml;
  for (std::size_t i = 0; i < 3'000; ++i) {
    const std::string ns = "crowd-" + number(i);
    const std::string address = "10.201." + number(i / 256) + "." + number(i % 256);
    yaml += service_entry("crowd", ns,
                          "hosts: [crowd.mesh.example, \"*.crowd.mesh.example\"], addresses: [" +
                              address + "], resolution: STATIC, exportTo: [" + ns + "]");
    yaml += service_entry("wide", ns,
                          "hosts: [wide.mesh.example, \"*.wide.mesh.example\"], addresses: [" +
                              address + "], resolution: STATIC");
  }
  // Wildcards of every depth, hidden from all but their namespaces.
  for (std::size_t i = 0; i < 100; ++i) {
    const std::string ns = "crowd-" + number(i);
    yaml +=
        service_entry("depths", ns,
                      "hosts: [" +
                          list_of(100,
                                  [](std::size_t depth) {
                                    return "\"*." + deep_name(depth, "depths.example") + "\"";
                                  }) +
                          "], addresses: [10.0.0.9], resolution: STATIC, exportTo: [" + ns + "]");
  }
  return yaml;
}

// Services of many endpoints that have one address in common.
std::string endpoints_in_common() {
  std::string yaml;
  for (std::size_t i = 0; i < 250; ++i)
    yaml += service_entry(
        "common-" + number(i), "shop",
        "hosts: [common-" + number(i) +
            ".mesh.example], resolution: STATIC, ports: [{ number: 80, name: "
            "http, protocol: HTTP }], endpoints: [" +
            list_of(400,
                    [&](std::size_t k) {
                      return "{ address: " + (k == 399 ? "10.200.0.2" : v4(300'000 + i * 400 + k)) +
                             " }";
                    }) +
            "]");
  yaml += service_entry("selected", "selected",
                        "hosts: [selected.mesh.example], resolution: STATIC, workloadSelector: { "
                        "labels: { app: db } }, ports: [{ number: 80, name: http, protocol: HTTP "
                        "}]");
  for (std::size_t i = 0; i < 4'000; ++i)
    yaml += "---\napiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: { name: w-" +
            number(i) +
            ", namespace: selected, labels: { app: db } }\nspec: { address: " + v4(500'000 + i) +
            " }\n";
  return yaml;
}

// Clients with Sidecars of every kind.
std::string narrow_clients() {
  const auto hosts = [](const std::string& list) { return "{ hosts: [" + list + "] }"; };
  std::string yaml;
  yaml += sidecar("narrow", hosts(list_of(2'000, [](std::size_t i) {
                    return "\"*/host-" + number(i) + ".mesh.example\"";
                  })));
  yaml += client_pod("narrow", "10.250.0.7");
  yaml += sidecar("ported", list_of(2'000, [](std::size_t i) {
                    return "{ port: { number: " + number(i + 10'000) + ", protocol: HTTP, name: p" +
                           number(i) + " }, hosts: [\"*/*\"] }";
                  }));
  yaml += client_pod("ported", "10.250.0.8");
  yaml += sidecar("wild", hosts(list_of(2'000, [](std::size_t i) {
                    return "\"team-" + number(i) + "/*.wild-" + number(i) + ".example\"";
                  })));
  yaml += client_pod("wild", "10.250.0.9");
  yaml += sidecar("choosy", hosts(list_of(2'000, [](std::size_t i) {
                    return "\"crowd-" + number(i) + "/other.mesh.example\"";
                  })));
  yaml += client_pod("choosy", "10.250.0.10");
  return yaml;
}

std::string walking_pod(const std::string& ns, const std::string& address,
                        const std::string& searches) {
  return "---\napiVersion: v1\nkind: Pod\nmetadata: { name: client, namespace: " + ns +
         " }\nspec: { dnsPolicy: None, dnsConfig: { searches: [" + searches +
         "] } }\nstatus: { phase: Running, podIP: " + address + ", podIPs: [{ ip: " + address +
         " }] }\n";
}

// Clients with as many search domains as a Pod may have, each of which makes another deep name.
std::string clients_with_search_domains() {
  const auto below = [](const std::string& end) {
    return list_of(32, [&](std::size_t i) { return deep_name(i, end); });
  };
  std::string yaml = walking_pod("walk-cluster", "10.250.0.12", below("shop.svc.cluster.local"));
  yaml += walking_pod("walk-outside", "10.250.0.13", below("depths.example"));
  yaml += walking_pod("walk-short", "10.250.0.14", below("victim.shop.svc"));
  // Hosts that stand back behind the short name of a Service, one above the other.
  yaml += service_entry("yielding", "evil", "hosts: [" + list_of(100, [](std::size_t depth) {
                                              return "\"*." +
                                                     deep_name(depth + 1, "victim.shop.svc") + "\"";
                                            }) + "], addresses: [10.0.0.9], resolution: STATIC");
  // Many that claim one address and stand back, too.
  for (std::size_t i = 0; i < 300; ++i) {
    const std::string at = number(i);
    yaml += "---\napiVersion: v1\nkind: Service\nmetadata: { name: short-" + at +
            ", namespace: shop }\nspec: { clusterIP: 10.97." + number(i / 256) + "." +
            number(i % 256) + " }\n";
    yaml += service_entry(
        "short-" + at, "evil",
        "hosts: [short-" + at + ".shop], addresses: [10.202.0.1], resolution: STATIC");
  }
  return yaml;
}

// A client whose Sidecar imports one port, and hosts of which each has many parts: the client may
// see the parts of the one kind and imports the ports of the other kind, so it sees none.
std::string parts_that_nobody_sees() {
  std::string yaml = sidecar("parted",
                             "{ port: { number: 80, protocol: HTTP, name: http }, hosts: "
                             "[\"*/*\"] }");
  yaml += client_pod("parted", "10.250.0.15");
  for (std::size_t i = 0; i < 400; ++i)
    yaml += service_entry("parts-" + number(i), "evil",
                          "hosts: [" +
                              list_of(100,
                                      [](std::size_t depth) {
                                        return "\"*." + deep_name(depth, "parts.example") + "\"";
                                      }) +
                              "], addresses: [10.0.0.9], resolution: STATIC, ports: [{ number: " +
                              (i == 0 ? "80" : number(1000 + i)) +
                              ", name: p, protocol: HTTP }], exportTo: [" +
                              (i == 0 ? "evil" : "parted") + "]");
  return yaml;
}

std::string hex(std::size_t digit) { return {"0123456789abcdef"[digit]}; }

// Addresses of which each has a Service that the client may not see.
std::string hidden_addresses() {
  std::string yaml;
  for (std::size_t i = 0; i < 256; ++i) {
    yaml += "---\napiVersion: v1\nkind: Service\nmetadata: { name: hidden-" + number(i) +
            ", namespace: evil, annotations: { networking.istio.io/exportTo: \".\" } }\nspec: { "
            "clusterIP: 10.203.0." +
            number(i) + " }\n";
    yaml += service_entry("hidden-" + number(i), "evil",
                          "hosts: [hidden-" + number(i) + ".evil.example], addresses: [" +
                              list_of(200, [](std::size_t k) { return "10.204.0." + number(k); }) +
                              ", \"fd00:0:0:0:" + hex(i / 16) + ":" + hex(i % 16) +
                              "000:0:1\"], resolution: STATIC, exportTo: [\".\"]");
  }
  return yaml;
}

// Tenants with very many objects of one name or address, beside its owner.
std::string crowds_of_one_name() {
  const auto ported = [](std::size_t i) {
    return "ports: [{ number: " + number(1000 + i) + ", name: p, protocol: HTTP }]";
  };
  std::string yaml;
  for (std::size_t i = 0; i < 2'000; ++i)
    yaml += service_entry(
        "victims-" + number(i), "crowd-of-ports-" + number(i % 2),
        "hosts: [victim.shop.svc.cluster.local, victim.shop.svc.cluster.local.default.svc.cluster."
        "local], addresses: [10.0.0.9], resolution: STATIC, " +
            ported(i));
  for (std::size_t i = 0; i < 1'000; ++i)
    yaml += service_entry(
        "ported-" + number(i), "crowd-of-ports-0",
        "hosts: [ported.mesh.example, \"*.ported.mesh.example\"], addresses: [10.0.0." +
            number(i % 250) + "], resolution: STATIC, " + ported(i));
  for (const char* const ns : {"bank", "crowd-of-hosts"})
    for (const char* const visible : {"*", "."})
      yaml += service_entry(
          visible[0] == '*' ? "seen" : "hidden", ns,
          "hosts: [" +
              list_of(256,
                      [&](std::size_t i) {
                        return std::string("h") + number(i) + "." +
                               (visible[0] == '*' ? "seen." : "hidden.") + ns + ".example";
                      }) +
              "], addresses: [" +
              list_of(199, [](std::size_t k) { return "198.51.100." + number(k); }) +
              "], resolution: STATIC, exportTo: [\"" + visible + "\"]");
  for (std::size_t i = 0; i < 150; ++i)
    yaml += slice_of("headless-" + number(i), "crowd-of-services", "192.0.2.77");
  yaml += service_entry("own", "bank",
                        "hosts: [own.bank.example], addresses: [192.0.2.77], resolution: STATIC");
  yaml += client_pod("bank", "10.250.0.16");
  return yaml;
}

// A ServiceEntry whose endpoints are all of networks of their own.
std::string networks() {
  return service_entry(
      "networks", "shop",
      "hosts: [networks.mesh.example], resolution: STATIC, ports: [{ number: 80, name: http, "
      "protocol: HTTP }], endpoints: [" +
          list_of(4'000,
                  [](std::size_t i) {
                    return "{ address: " + v4(600'000 + i) + ", network: n" + number(i) + " }";
                  }) +
          "]");
}

// Large Services, many names of one address, long chains and deep wildcards.
std::string large_and_long() {
  std::string yaml;
  yaml += headless("h1k", 1'000, Names::Dashed, 0);
  yaml += headless("h10k", 10'000, Names::Own, 2'000);
  yaml += headless("h50k", 50'000, Names::Dashed, 20'000);
  yaml += headless("same", 10'000, Names::Same, 100'000);
  // One address, and one host, of many.
  for (std::size_t i = 0; i < 5'000; ++i)
    yaml += service_entry("shared-" + number(i), "team-" + number(i % 500),
                          "hosts: [shared-" + number(i) +
                              ".mesh.example], addresses: [10.200.0.1], resolution: STATIC, ports: "
                              "[{ number: 80, name: http, protocol: HTTP }]");
  // Many ports; many weighted endpoints; many addresses.
  std::string ports;
  for (std::size_t i = 0; i < 2'000; ++i)
    ports += (i == 0 ? "" : ", ") + std::string("{ name: p") + number(i) +
             ", port: " + number(i + 1) + ", protocol: TCP }";
  yaml +=
      "---\napiVersion: v1\nkind: Service\nmetadata: { name: ports, namespace: shop }\nspec: { "
      "clusterIP: 10.96.0.9, ports: [" +
      ports + "] }\n";
  std::string weighted;
  std::string addresses;
  for (std::size_t i = 0; i < 4'000; ++i) {
    weighted += (i == 0 ? "" : ", ") + std::string("{ address: ") + v4(200'000 + i) +
                ", weight: " + number(1 + i % 7) + " }";
    if (i < 250) addresses += (i == 0 ? "" : ", ") + v4(220'000 + i);
  }
  yaml += service_entry("weighted", "shop",
                        "hosts: [weighted.mesh.example], resolution: STATIC, ports: [{ number: 80, "
                        "name: http, protocol: HTTP }], endpoints: [" +
                            weighted + "]");
  yaml += service_entry(
      "many", "shop",
      "hosts: [many.mesh.example], resolution: STATIC, addresses: [" + addresses + "]");
  // Wildcards above deep names.
  for (const std::size_t depth : {1, 20, 60, 100})
    yaml += service_entry("deep-" + number(depth), "shop",
                          "hosts: [\"*." + deep_name(depth, "deep.example") +
                              "\"], addresses: [10.0.0.9], resolution: STATIC");
  // Aliases: a chain, and those that lead to large answers outside.
  for (std::size_t i = 0; i < 7; ++i)
    yaml +=
        external_name("chain-" + number(i), "chain-" + number(i + 1) + ".shop.svc.cluster.local");
  yaml += external_name("chain-7", "h50k.shop.svc.cluster.local");
  yaml += external_name("to-large", "large.up.example");
  yaml += external_name("to-alias", "alias.up.example");
  yaml += external_name("loop", "loop.shop.svc.cluster.local");
  return yaml;
}

}  // namespace

std::string number(std::size_t i) { return std::to_string(i); }

std::string deep_name(std::size_t labels, std::string_view end) {
  std::string name;
  for (std::size_t i = 0; i < labels && name.size() + end.size() < 250; ++i) name += "x.";
  return name + std::string(end);
}

std::vector<Manifest> world() {
  return {{large_and_long(), ""},
          {claims_of_others(), ""},
          {hosts_of_many_namespaces(), ""},
          {endpoints_in_common(), ""},
          {narrow_clients(), ""},
          {networks(), ""},
          {clients_with_search_domains(), ""},
          {parts_that_nobody_sees(), ""},
          {hidden_addresses(), ""},
          {crowds_of_one_name(), ""},
          {headless("far", 20'000, Names::Dashed, 700'000), "far"},
          {client_pod("near", "10.250.0.11"), "near"}};
}
}  // namespace meshdns::bench
