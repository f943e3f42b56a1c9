// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/config.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <ranges>
#include <utility>

#include "dnsd/config/enum_names.hpp"
#include "dnsd/config/values.hpp"
#include "registry/base/host_name.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

constexpr std::uint16_t kDnsPort = 53;
constexpr std::uint16_t kDnsOverTlsPort = 853;  // RFC 7858, section 3.1

bool is_proxy_type(std::string_view type) {
  constexpr std::array<std::string_view, 6> kTypes = {"sidecar", "router",       "waypoint",
                                                      "ztunnel", "agentgateway", "ingress"};
  return std::ranges::find(kTypes, type) != kTypes.end();
}

// The four parts of a node id; nullopt for any other number of them.
std::optional<std::array<std::string_view, 4>> split_node_id(std::string_view text) {
  std::array<std::string_view, 4> parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto tilde = text.find('~');
    if ((tilde == std::string_view::npos) != (i + 1 == parts.size())) return std::nullopt;
    parts[i] = text.substr(0, tilde);
    if (tilde != std::string_view::npos) text.remove_prefix(tilde + 1);
  }
  return parts;
}

Result<std::vector<IpAddress>> parse_addresses_of_node(std::string_view text) {
  std::vector<IpAddress> addresses;
  for (const auto part : std::views::split(text, ',')) {
    const std::string_view word(part.begin(), part.end());
    const auto ip = IpAddress::parse(word);
    if (!ip) return fail(in_quotes(word) + " in the node id is not an IP address");
    addresses.push_back(*ip);
  }
  if (addresses.empty()) return fail("\"\" in the node id is not an IP address");
  return addresses;
}

// Unspecified, broadcast or multicast: no single server has such an address.
bool is_for_many(const IpAddress& ip) {
  return ip.is_unspecified() || ip == IpAddress::v4({255, 255, 255, 255}) ||
         IpPrefix::parse("224.0.0.0/4")->contains(ip) || IpPrefix::parse("ff00::/8")->contains(ip);
}

Result<SocketAddress> parse_destination(std::string_view text, std::uint16_t default_port) {
  auto address = parse_socket_address(text, default_port);
  if (!address) return address;
  if (address->port == 0) return fail("cannot send to port 0");
  if (is_for_many(address->ip)) return fail(in_quotes(text) + " is not an address to send to");
  if (address->zone.empty() && IpPrefix::parse("fe80::/10")->contains(address->ip))
    return fail(in_quotes(text) + " is link-local; write the interface, too, as in " +
                in_quotes(SocketAddress{address->ip, address->port, "eth0"}.to_string()));
  return address;
}

// Returns whether the text is meant as a host name: its last label begins with a letter.
bool is_host_name(std::string_view text) {
  const std::size_t dot = text.rfind('.');
  const std::string_view last = text.substr(dot == std::string_view::npos ? 0 : dot + 1);
  const char first = last.empty() ? '0' : to_lower(last.front());
  return first >= 'a' && first <= 'z' && (dot != std::string_view::npos || text == "localhost");
}

// The address or the host name of a server, and its port.
Result<UpstreamServer> parse_place(std::string_view text, std::uint16_t default_port) {
  const std::string_view host = text.substr(0, text.find(':'));
  if (!is_host_name(host)) {
    const auto address = parse_destination(text, default_port);
    if (!address) return std::unexpected(address.error());
    return UpstreamServer{UpstreamTransport::Plain, *address, ""};
  }
  auto name = parse_domain(host);
  if (!name) return std::unexpected(name.error());
  // Any address will do to read the port.
  const auto port =
      parse_destination("127.0.0.1" + std::string(text.substr(host.size())), default_port);
  if (!port) return std::unexpected(port.error());
  UpstreamServer server;
  server.address.port = port->port;
  server.host = *std::move(name);
  return server;
}

Result<UpstreamServer> parse_tls_server(std::string_view text) {
  const auto hash = text.find('#');
  auto server = parse_place(text.substr(0, hash), kDnsOverTlsPort);
  if (!server) return server;
  server->transport = UpstreamTransport::Tls;
  server->tls_name = server->host;
  if (hash == std::string_view::npos && !server->host.empty()) return server;
  if (hash == std::string_view::npos)
    return fail(in_quotes("tls://" + std::string(text)) +
                " needs the name in the certificate of the server, as in "
                "\"tls://9.9.9.9#dns.quad9.net\"");
  const auto name = parse_domain(text.substr(hash + 1));
  if (!name) return std::unexpected(name.error());
  server->tls_name = *name;
  return server;
}

}  // namespace

std::string_view to_string(ChaosAccess access) { return name_of(access); }
std::string_view to_string(LogLevel level) { return name_of(level); }
std::optional<LogLevel> log_level_from_string(std::string_view text) {
  return value_of<LogLevel>(text);
}
std::string_view to_string(LogFormat format) { return name_of(format); }
std::string_view to_string(QueryLogClass query_class) { return name_of(query_class); }
std::string_view to_string(IpFamily family) { return name_of(family); }

std::string to_string(const DnstapTarget& target) {
  return (target.kind == DnstapTarget::Kind::File ? "file:" : "unix:") + target.path;
}

Result<DnstapTarget> parse_dnstap_target(std::string_view text) {
  const bool is_file = text.starts_with("file:");
  if (!is_file && !text.starts_with("unix:"))
    return fail(in_quotes(text) + " is neither unix:PATH nor file:PATH");
  auto path = parse_path_of_scheme(text, "unix:/run/dnstap.sock",
                                   is_file ? text.size() : UnixAddress::kMaxLength);
  if (!path) return std::unexpected(path.error());
  return DnstapTarget{is_file ? DnstapTarget::Kind::File : DnstapTarget::Kind::Socket,
                      *std::move(path)};
}

Config::Config() = default;

std::vector<IpPrefix> default_allow() {
  std::vector<IpPrefix> prefixes;
  for (const std::string_view text :
       {"127.0.0.0/8", "::1/128",                                          // loopback
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",  // RFC 1918, RFC 6598
        "169.254.0.0/16", "fe80::/10",                                     // link-local
        "fc00::/7"})                                                       // unique local
    prefixes.push_back(*IpPrefix::parse(text));
  return prefixes;
}

std::string NodeId::ns() const {
  if (const auto dot = domain.find('.'); dot != std::string::npos) return domain.substr(0, dot);
  const auto dot = id.rfind('.');
  return dot == std::string::npos ? std::string() : id.substr(dot + 1);
}

std::vector<IpFamily> NodeId::families() const {
  std::vector<IpFamily> families;
  if (std::ranges::any_of(ips, &IpAddress::is_v4)) families.push_back(IpFamily::IPv4);
  if (std::ranges::any_of(ips, &IpAddress::is_v6)) families.push_back(IpFamily::IPv6);
  return families;
}

std::vector<std::string> NodeId::search() const {
  if (count_labels(domain) < 2) return {};
  std::vector<std::string> list = {domain};
  const std::string_view parent = parent_of(domain);
  if (!parent.starts_with("svc.")) return list;
  list.emplace_back(parent);
  list.emplace_back(parent_of(parent));
  return list;
}

std::string NodeId::to_string() const {
  std::string text = type;
  char separator = '~';
  for (const IpAddress& ip : ips) text += std::exchange(separator, ',') + ip.to_string();
  return text + "~" + id + "~" + domain;
}

Result<NodeId> parse_node_id(std::string_view text) {
  const auto parts = split_node_id(text);
  if (!parts) return fail(in_quotes(text) + " does not have the four parts Type~IP~ID~Domain");
  const auto& [type, ip_text, id, domain_text] = *parts;
  if (!is_proxy_type(type))
    return fail(in_quotes(type) +
                " is not a proxy type; write sidecar, router, waypoint, ztunnel or "
                "agentgateway");
  auto ips = parse_addresses_of_node(ip_text);
  if (!ips) return std::unexpected(ips.error());
  if (id.empty()) return fail(in_quotes(text) + " has an empty ID; write POD.NAMESPACE");
  std::string domain;
  if (!domain_text.empty()) {
    auto parsed = parse_domain(domain_text);
    if (!parsed) return std::unexpected(parsed.error());
    domain = *std::move(parsed);
  }
  return NodeId{std::string(type), *std::move(ips), std::string(id), std::move(domain)};
}

Result<UpstreamServer> parse_upstream_server(std::string_view text) {
  constexpr std::string_view kTls = "tls://";
  if (text.starts_with(kTls)) return parse_tls_server(text.substr(kTls.size()));
  if (const auto scheme = text.find("://"); scheme != std::string_view::npos)
    return fail(in_quotes(text.substr(0, scheme + 3)) +
                " is not supported; write \"IP:PORT\" or \"tls://IP:PORT#NAME\"");
  if (text.starts_with('/'))
    return fail(in_quotes(text) +
                " is not an address; without upstream.servers, meshdns reads /etc/resolv.conf");
  if (text == ".")
    return fail("\".\" is not an address; upstream.servers has all names that no zone has");
  return parse_place(text, kDnsPort);
}

}  // namespace meshdns::dnsd
