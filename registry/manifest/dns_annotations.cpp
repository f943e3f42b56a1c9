// SPDX-License-Identifier: Apache-2.0
#include "registry/manifest/dns_annotations.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "registry/base/host_name.hpp"
#include "registry/manifest/validate.hpp"

namespace meshdns::registry {
namespace {

constexpr std::string_view kHostname = "external-dns.alpha.kubernetes.io/hostname";
constexpr std::string_view kInternalHostname = "external-dns.alpha.kubernetes.io/internal-hostname";
constexpr std::string_view kTarget = "external-dns.alpha.kubernetes.io/target";
constexpr std::string_view kTtl = "external-dns.alpha.kubernetes.io/ttl";

// Longer ones would outlast every change of a cluster by days.
constexpr std::uint32_t kMaxAnnotatedTtl = 86'400;
constexpr std::size_t kMaxTargets = 64;

bool is_gateway_host(std::string_view text) {
  return is_fqdn(text.starts_with("*.") ? text.substr(2) : text) && !IpAddress::parse(text);
}

void add_hostnames(Object& object, std::string_view annotation, DnsAnnotations& dns) {
  const auto text = object.annotation(annotation);
  if (!text) return;
  for_each_part(*text, " ", [&](std::string_view part) {
    if (!is_gateway_host(part))
      return object.annotation_finding(Severity::Warning, annotation,
                                       in_quotes(part) + " is not a host name; it is left out");
    if (dns.hostnames.size() < kMaxGatewayNames) dns.hostnames.push_back(canonical_host(part));
  });
}

void add_targets(Object& object, DnsAnnotations& dns) {
  const auto text = object.annotation(kTarget);
  if (!text) return;
  for_each_part(*text, " ", [&](std::string_view part) {
    const auto ip = IpAddress::parse(part);
    if (!ip && !is_fqdn(part))
      return object.annotation_finding(
          Severity::Warning, kTarget,
          in_quotes(part) + " is neither an IP address nor a host name; it is left out");
    if (dns.targets.size() < kMaxTargets)
      dns.targets.push_back(ip ? ip->to_string() : canonical_host(part));
  });
}

// Seconds, or a duration of Go ("1m30s"); nullopt: neither.
std::optional<std::uint64_t> parse_ttl(std::string_view text) {
  std::uint64_t seconds = 0;
  std::uint64_t number = 0;
  bool has_digits = false;
  bool has_unit = false;
  for (const char c : text) {
    if (c >= '0' && c <= '9') {
      number = std::min<std::uint64_t>(number * 10 + static_cast<std::uint64_t>(c - '0'),
                                       std::uint64_t{1} << 40);
      has_digits = true;
      continue;
    }
    if (!has_digits || (c != 'h' && c != 'm' && c != 's')) return std::nullopt;
    seconds += number * (c == 'h' ? 3'600 : c == 'm' ? 60 : 1);
    number = 0;
    has_digits = false;
    has_unit = true;
  }
  if (has_digits == has_unit) return std::nullopt;
  return has_unit ? seconds : number;
}

void read_ttl(Object& object, DnsAnnotations& dns) {
  const Node* const value =
      object.annotations == nullptr ? nullptr : object.annotations->find(kTtl);
  if (value == nullptr || value->value().empty()) return;
  const auto seconds = parse_ttl(value->value());
  if (!seconds || *seconds == 0)
    return object.annotation_finding(
        Severity::Warning, kTtl,
        in_quotes(value->value()) + " is not a time such as 60 or 1m; mesh.ttl applies");
  dns.ttl = static_cast<std::uint32_t>(std::min<std::uint64_t>(*seconds, kMaxAnnotatedTtl));
}

}  // namespace

std::optional<DnsAnnotations> read_dns_annotations(Object& object) {
  if (object.annotations == nullptr) return std::nullopt;
  DnsAnnotations dns;
  add_hostnames(object, kHostname, dns);
  add_hostnames(object, kInternalHostname, dns);
  add_targets(object, dns);
  read_ttl(object, dns);
  if (dns == DnsAnnotations()) return std::nullopt;
  return dns;
}

void add_gateway_name(Report& report, const Field& at, std::vector<std::string>& names) {
  const std::string_view text = at->value();
  if (text.empty()) return;
  if (!is_gateway_host(text))
    return report.warning(at, in_quotes(text) + " is not a host name; it is left out");
  if (names.size() < kMaxGatewayNames) names.push_back(canonical_host(text));
}

void add_status_addresses(const Node* list, std::initializer_list<std::string_view> keys,
                          std::vector<std::string>& addresses) {
  if (list == nullptr || !list->is_sequence()) return;
  for (const Node& element : *list)
    for (const std::string_view key : keys) {
      const Node* const value = element.find(key);
      if (value == nullptr || value->value().empty() || addresses.size() >= kMaxTargets) continue;
      const auto ip = IpAddress::parse(value->value());
      // An unspecified address is a placeholder.
      if (ip ? !ip->is_unspecified() : is_fqdn(value->value()))
        addresses.push_back(ip ? ip->to_string() : canonical_host(value->value()));
    }
}

}  // namespace meshdns::registry
