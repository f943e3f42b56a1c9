// SPDX-License-Identifier: Apache-2.0
// Any text as a manifest and as a NameTable: no crash, and what is accepted keeps its promises.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "registry/manifest/manifest.hpp"
#include "registry/manifest/name_table.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace meshdns::registry;
using meshdns::fuzz::require;

class Judge : public ManifestSink {
 public:
  void on_resource(Resource&& resource, std::uint32_t line) override {
    require(line > 0);
    const ObjectMeta& meta = meta_of(resource);
    require(!meta.name.empty() && meta.name.size() <= 253);
    if (const auto* const entry = std::get_if<ServiceEntry>(&resource)) judge(*entry);
    if (const auto* const service = std::get_if<KubeService>(&resource)) {
      require(service->external_name.find('\0') == std::string::npos);
      if (service->dns) judge(*service->dns);
    }
    if (const auto* const route = std::get_if<GatewayRoute>(&resource)) judge(route->hostnames);
    if (const auto* const ingress = std::get_if<Ingress>(&resource)) judge(ingress->hosts);
  }
  void on_refused(const ResourceKey&, std::uint32_t line) override { require(line > 0); }
  void on_finding(Finding&& finding) override {
    for (const char c : finding.field + finding.object + finding.kind)
      require(c >= ' ' && c <= '~');
    errors_ += finding.severity == Severity::Error ? 1 : 0;
  }

  std::size_t errors() const { return errors_; }

 private:
  static void judge(const std::vector<std::string>& names) {
    for (const std::string& name : names)
      require(!name.empty() && name.size() <= 253 && name != "*" && !name.ends_with('.'));
  }
  static void judge(const DnsAnnotations& dns) {
    judge(dns.hostnames);
    require(dns.ttl <= 86'400);
  }
  static void judge(const ServiceEntry& entry) {
    require(!entry.hosts.empty());
    for (const std::string& host : entry.hosts)
      require(!host.empty() && host.size() <= 253 && host != "*" && !host.ends_with('.'));
    for (const ServicePort& port : entry.ports) require(port.number > 0 && !port.name.empty());
  }

  std::size_t errors_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Judge manifest;
  const ManifestOptions options{.path = "fuzz",
                                .cluster = {},
                                .network = {},
                                .gateway_kinds = {Kind::Gateway, Kind::HttpRoute, Kind::TlsRoute,
                                                  Kind::GrpcRoute, Kind::Ingress, Kind::Service}};
  if (!read_manifest(text, options, manifest)) require(manifest.errors() > 0);
  Judge table;
  if (!read_name_table(text, {.path = "fuzz", .cluster = {}, .network = {}}, table))
    require(table.errors() > 0);
  return 0;
}
