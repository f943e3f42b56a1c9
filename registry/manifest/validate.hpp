// SPDX-License-Identifier: Apache-2.0
// The rules on single values that several kinds share, as Istio's webhook and the Kubernetes API
// have them (pkg/config/validation, apimachinery).  Each returns the reason against a value, fit to
// stand behind the value itself ("\"a_b\" has ..."); nullopt when there is none.
// Rules that join several fields of one kind stand where that kind is read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "registry/manifest/fields.hpp"
#include "registry/model/resources.hpp"

namespace meshdns::registry {

// Istio's FQDN: labels of letters, digits and inner hyphens, the last one not all digits; a final
// dot is allowed.
std::optional<std::string> why_no_fqdn(std::string_view name);
// A Service's externalName: an FQDN, but the last label may be all digits.
std::optional<std::string> why_no_external_name(std::string_view name);
// An FQDN whose first label may be a wildcard: "*", "*x", "*-x".  A lone "*" passes.
std::optional<std::string> why_no_wildcard_domain(std::string_view name);
// "*x.example.org": allowed by Istio and never matched in DNS.
bool is_partial_wildcard(std::string_view name);

// Kubernetes' names, all lower case.
bool is_lower_label(std::string_view name);
bool is_lower_subdomain(std::string_view name);
std::optional<std::string> why_no_lower_label(std::string_view name);
std::optional<std::string> why_no_lower_subdomain(std::string_view name);

// Protocols of Istio's ports; empty is sniffed and therefore known.
enum class ProtocolClass : std::uint8_t { Unset, Tcp, Udp, Http, Tls, Unknown };
ProtocolClass protocol_class(std::string_view protocol);
// Returns whether Istio treats the protocol as TCP: tcp, https, tls, mongo, redis, mysql.
bool is_tcp_family(std::string_view protocol);

// "unix:///path" or "unix://@name".
inline constexpr std::string_view kUnixPrefix = "unix://";
std::optional<std::string> why_no_unix_address(std::string_view address);

// Labels of a workload: keys with an optional DNS prefix, values of 63 octets in Kubernetes' form.
void check_workload_labels(Report& report, const std::optional<Field>& labels);

// A selector: no empty key, no wildcard; a warning when it selects everything.  nullopt when the
// field is absent.
std::optional<Labels> read_workload_selector(Report& report, const std::optional<Field>& selector);

// exportTo of an Istio object of namespace `ns`.
ExportTo read_export_to(Report& report, const std::optional<Field>& field, std::string_view ns);

// A name that is an Istio port's.
void check_port_name(Report& report, const Field& field, std::string_view name);
// A protocol that Istio knows; upper case.
std::string read_istio_protocol(Report& report, const std::optional<Field>& field);

// Rules of the ports of Kubernetes: a name is checked and lower case.
void read_kube_port_name(Report& report, const Field& field, ServicePort& port);
void read_kube_port_protocol(Report& report, const Field& field, ServicePort& port);
// A list of ports, which are TCP unless they say otherwise; without those that have no number.
template <const auto& Port>
constexpr auto kube_ports = [](Report& report, const Field& list, auto& into) {
  for_each_element(report, list, [&](const Field& at) {
    ServicePort port;
    port.protocol = "TCP";
    if (read_message(report, at, Port, port) && port.number != 0)
      into.ports.push_back(std::move(port));
  });
};

// Returns whether the list has more than `max` elements, which is an error.  `who` sets the bound.
bool is_too_long(Report& report, const std::optional<Field>& list, std::size_t max,
                 std::string_view who);

}  // namespace meshdns::registry
