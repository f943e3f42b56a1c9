// SPDX-License-Identifier: Apache-2.0
#include "registry/source/advice.hpp"

#include <span>

#include "registry/base/finding.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::registry {

namespace {

using AdviceList = std::vector<Advice>;

void advise_on_hosts(std::span<const std::string> hosts, std::string_view list, AdviceList& out) {
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (std::string reason = why_never_answered(hosts[i]); !reason.empty())
      out.push_back({list_element(list, i), std::move(reason)});
}

// A name that would be resolved to answer another one.
void advise_on_target(std::string_view name, std::string field, AdviceList& out) {
  const std::string_view zone = special_zone_of(name);
  if (zone == "localhost")
    out.push_back({std::move(field), in_quotes(name) +
                                         " always means the host that asks (RFC 6761): each client "
                                         "gets its own loopback addresses"});
  else if (!zone.empty())
    out.push_back({std::move(field), in_quotes(name) + " can never be resolved: " +
                                         std::string(zone) + " is a special-use name"});
}

void advise(const ServiceEntry& entry, AdviceList& out) {
  advise_on_hosts(entry.hosts, "spec.hosts", out);
  for (std::size_t i = 0; i < entry.endpoints.size(); ++i)
    advise_on_target(entry.endpoints[i].address, list_element("spec.endpoints", i) + ".address",
                     out);
}

void advise(const WorkloadEntry& workload, AdviceList& out) {
  advise_on_target(workload.spec.address, "spec.address", out);
}

void advise(const KubeService& service, AdviceList& out) {
  if (service.type == ServiceType::ExternalName)
    return advise_on_target(service.external_name, "spec.externalName", out);
  if (!service.headless && service.cluster_ips.empty())
    out.push_back({"spec.clusterIP",
                   "no clusterIP: this looks like a manifest, not an object read from a cluster; "
                   "the Service has no address to answer"});
}

void advise(const NameTableEntry& entry, AdviceList& out) {
  if (std::string reason = why_never_answered(entry.meta.name); !reason.empty())
    out.push_back({{}, std::move(reason)});
  advise_on_hosts(entry.alt_hosts, "altHosts", out);
}

template <typename Other>
void advise(const Other&, AdviceList&) {}

}  // namespace

std::vector<Advice> advice_on(const Resource& resource) {
  AdviceList out;
  std::visit([&](const auto& object) { advise(object, out); }, resource);
  return out;
}

std::string why_never_answered(std::string_view name) {
  const std::string_view zone = special_zone_of(name);
  if (zone.empty()) return {};
  const bool is_this_host = zone == "localhost";
  return in_quotes(name) + " is never answered from here: " + std::string(zone) +
         (is_this_host ? " always means this host (RFC 6761)"
                       : " is a special-use name, which does not exist in DNS");
}

}  // namespace meshdns::registry
