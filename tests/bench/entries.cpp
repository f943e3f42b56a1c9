// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/entries.hpp"

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "registry/manifest/manifest.hpp"

namespace meshdns::bench {
namespace {

std::string address(unsigned block, std::size_t index) {
  return "10." + std::to_string(block) + "." + std::to_string(index / 256 % 256) + "." +
         std::to_string(index % 256);
}

std::string entry(const std::string& name, const std::string& host, const std::string& addresses) {
  return "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: { name: " + name +
         ", namespace: shop }\nspec:\n  hosts: [\"" + host + "\"]\n  addresses: [" + addresses +
         "]\n  ports: [{ number: 80, name: http, protocol: HTTP }]\n  resolution: STATIC\n";
}

class IntoTransaction final : public registry::ManifestSink {
 public:
  IntoTransaction(registry::Transaction& transaction, std::string_view origin)
      : transaction_(transaction), origin_(origin) {}
  void on_resource(registry::Resource&& resource, std::uint32_t line) override {
    transaction_.upsert(resource, origin_, line);
  }
  void on_refused(const registry::ResourceKey& key, std::uint32_t) override {
    die(key.to_string());
  }
  void on_finding(registry::Finding&& finding) override {
    if (finding.severity == registry::Severity::Error) die(finding.to_string());
  }

 private:
  [[noreturn]] static void die(const std::string& why) {
    std::fprintf(stderr, "bench: %s\n", why.c_str());
    std::exit(1);
  }
  registry::Transaction& transaction_;
  const std::string_view origin_;
};

}  // namespace

std::string host(std::size_t index) {
  return "service-" + std::to_string(100'000 + index) + ".shop-" + std::to_string(index % 100) +
         ".mesh.example";
}

std::string manifests(std::size_t names) {
  std::string text;
  for (std::size_t i = 0; i < names; ++i) {
    const std::string n = std::to_string(i);
    text += entry("service-" + n, host(i), address(1, i));
    text += entry("rotated-" + n, "rotated-" + n + ".mesh.example",
                  address(2, i) + ", " + address(3, i) + ", " + address(4, i));
    text += entry("wild-" + n, "*.wild-" + n + ".mesh.example", address(5, i));
  }
  text +=
      "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: { name: headless, "
      "namespace: shop }\nspec:\n  hosts: [headless.mesh.example]\n  resolution: STATIC\n"
      "  endpoints:\n";
  for (std::size_t i = 0; i < 300; ++i) text += "    - address: " + address(6, i) + "\n";
  return text;
}

void read_into(std::string_view yaml, registry::Transaction& transaction, std::string_view origin,
               std::string_view network) {
  IntoTransaction sink(transaction, origin);
  registry::ManifestOptions options;
  options.network = network;
  if (const auto read = registry::read_manifest(yaml, options, sink); !read) {
    std::fprintf(stderr, "bench: %s\n", read.error().message.c_str());
    std::exit(1);
  }
}

}  // namespace meshdns::bench
