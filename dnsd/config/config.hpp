// SPDX-License-Identifier: Apache-2.0
// The configuration of the daemon as plain values, described in docs/configuration.md.  Members
// have their defaults.  A Config is always valid; load.hpp makes one from a file.  Each section
// compares by value, so that a reload sees which of them changed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dnsd/config/admin_address.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/base/result.hpp"
#include "registry/base/socket_address.hpp"
#include "registry/model/mesh_settings.hpp"
#include "registry/model/resources.hpp"
#include "resolver/settings.hpp"

namespace meshdns::dnsd {

// The clients that may ask queries of class CH (`server.chaos`).
enum class ChaosAccess : std::uint8_t { Loopback, Allowed, Off };
std::string_view to_string(ChaosAccess access);

struct TcpConfig {
  std::uint32_t max_connections = 4096;            // of all clients together
  std::uint32_t max_connections_per_client = 128;  // per source address
  std::chrono::milliseconds idle_timeout{10'000};  // RFC 7766, section 6.2.3
  friend bool operator==(const TcpConfig&, const TcpConfig&) = default;
};

struct RateLimitConfig {
  std::uint32_t responses_per_second = 0;  // over UDP, per client and worker; 0 = off
  std::uint32_t slip = 2;                  // every n-th refused answer is sent truncated; 0 = none
  std::uint32_t ipv4_prefix = 32;          // bits of the address that make a client
  std::uint32_t ipv6_prefix = 64;
  friend bool operator==(const RateLimitConfig&, const RateLimitConfig&) = default;
};

// The clients that get server cookies; Auto: all but loopback addresses, which nobody outside can
// forge.
enum class CookieMode : std::uint8_t { Off, Auto, On };

struct CookiesConfig {
  CookieMode mode = CookieMode::Auto;
  std::string secret_file;  // empty = random ones
  friend bool operator==(const CookiesConfig&, const CookiesConfig&) = default;
};

// Whether the program in the kernel answers for us; Auto: where its loader has made its maps.
enum class KernelAnswersMode : std::uint8_t { Off, Auto, On };

// Loopback, RFC 1918 and RFC 6598, link-local, and unique local addresses.
std::vector<IpPrefix> default_allow();

struct ServerConfig {
  std::vector<SocketAddress> listen = {SocketAddress{*IpAddress::parse("127.0.0.1"), 15053, ""}};
  std::uint32_t workers = 0;  // 0 = one per core
  std::vector<IpPrefix> allow = default_allow();
  ChaosAccess chaos = ChaosAccess::Loopback;
  TcpConfig tcp;
  std::string nsid;           // RFC 5001; empty = the option is not answered
  bool cpu_affinity = false;  // each worker stays on a core of its own
  RateLimitConfig rate_limit;
  CookiesConfig cookies;  // RFC 7873
  // Between the wish to end and the end of accepting: "not ready", and serving on.
  std::chrono::milliseconds lameduck{0};
  std::string handover;       // Unix socket for the sockets of the next daemon; empty = off
  bool watch_config = false;  // a changed configuration file is read without SIGHUP
  KernelAnswersMode kernel_answers = KernelAnswersMode::Off;
  std::string kernel_maps = "/run/meshdns.bpf/maps";  // a folder of a BPF file system
  bool core_dumps = false;  // a crash may leave the memory in a file, a debugger may attach
  friend bool operator==(const ServerConfig&, const ServerConfig&) = default;
};

struct AdminConfig {
  std::vector<AdminAddress> listen = {
      SocketAddress{*IpAddress::parse("127.0.0.1"), 15054, ""}};  // empty = off
  std::string token_file;                                         // empty = none
  std::optional<AdminAddress> metrics_listen;  // health and metrics alone; nullopt = off
  std::string metrics_cert_file;               // PEM; empty = without TLS
  std::string metrics_key_file;                // set exactly if metrics_cert_file is
  std::string metrics_password_file;           // empty = everybody may read
  friend bool operator==(const AdminConfig&, const AdminConfig&) = default;
};

enum class LogLevel : std::uint8_t { Trace, Debug, Info, Warn, Error, Off };
std::string_view to_string(LogLevel level);
std::optional<LogLevel> log_level_from_string(std::string_view text);
enum class LogFormat : std::uint8_t { Text, Json };
std::string_view to_string(LogFormat format);
// The answers in the query log: all; errors = SERVFAIL, REFUSED, FORMERR, NOTIMP; denial =
// NXDOMAIN and NODATA.
enum class QueryLogClass : std::uint8_t { Off, All, Errors, Denial };
std::string_view to_string(QueryLogClass query_class);

struct QueryLogConfig {
  QueryLogClass query_class = QueryLogClass::Off;  // key `class`
  double sample = 1.0;                             // share of that class, 0..1
  friend bool operator==(const QueryLogConfig&, const QueryLogConfig&) = default;
};

// The target of dnstap frames: "unix:/run/dnstap.sock", "file:/var/lib/meshdns/answers.fstrm".
struct DnstapTarget {
  enum class Kind : std::uint8_t { Socket, File };
  Kind kind = Kind::Socket;
  std::string path;  // absolute
  friend bool operator==(const DnstapTarget&, const DnstapTarget&) = default;
};
std::string to_string(const DnstapTarget& target);
Result<DnstapTarget> parse_dnstap_target(std::string_view text);

struct LogConfig {
  LogLevel level = LogLevel::Info;
  LogFormat format = LogFormat::Text;
  QueryLogConfig queries;
  std::optional<DnstapTarget> dnstap;  // nullopt = off
  friend bool operator==(const LogConfig&, const LogConfig&) = default;
};

enum class IpFamily : std::uint8_t { IPv4, IPv6 };
std::string_view to_string(IpFamily family);

// An Istio node id, `Type~IP~ID~Domain`.
struct NodeId {
  std::string type;            // sidecar, router, waypoint, ztunnel, agentgateway, ingress
  std::vector<IpAddress> ips;  // at least one; of one family or of both
  std::string id;              // "web-1.shop"
  std::string domain;          // "shop.svc.cluster.local", canonical; may be empty
  // The first label of the domain, as Istio reads it; with a domain of less than two labels, what
  // follows the last dot of the id.  May be empty.
  std::string ns() const;
  // The families of its addresses, IPv4 first.
  std::vector<IpFamily> families() const;
  // The search list that the domain gives: the domain and, where its second label is "svc", what
  // follows its first and its second label.  Empty with a domain of less than two labels.
  std::vector<std::string> search() const;
  std::string to_string() const;
  friend bool operator==(const NodeId&, const NodeId&) = default;
};

// "sidecar~10.60.1.6~web-1.shop~shop.svc.cluster.local"; several addresses are separated by commas.
// The Error names the part that is wrong.
Result<NodeId> parse_node_id(std::string_view text);

// The identity of a client whose source address gives none.
struct ClientIdentityConfig {
  std::string ns = "default";  // key `namespace`, or from node_id
  registry::Labels labels;
  std::string network;
  std::string cluster;
  std::string node;                 // empty = that of the kubernetes source
  registry::Locality locality;      // empty = the node's
  std::vector<std::string> search;  // canonical domains; empty = from the namespace
  std::vector<IpFamily> ip_families = {IpFamily::IPv4, IpFamily::IPv6};
  // `ns` already follows it, and `ip_families` where the key is left out.
  std::optional<NodeId> node_id;
  friend bool operator==(const ClientIdentityConfig&, const ClientIdentityConfig&) = default;
};

struct ClientConfig {
  bool by_source_address = false;
  registry::UnknownClient unknown = registry::UnknownClient::Public;
  std::vector<std::string> workload_entry_namespaces;  // "*" = all
  std::vector<std::string> node_search;                // canonical domains
  ClientIdentityConfig default_identity;               // key `default`
  friend bool operator==(const ClientConfig&, const ClientConfig&) = default;
};

// Paths are as written: relative ones count from the working directory.
struct FilesSource {
  std::string path;
  std::string cluster;
  std::string network;
  friend bool operator==(const FilesSource&, const FilesSource&) = default;
};
// The Services whose endpoints are read, and have names of their own.
enum class EndpointScope : std::uint8_t { Headless, All };
struct KubernetesSource {
  std::string kubeconfig;  // empty = in-cluster
  std::string cluster;
  std::string network;
  std::vector<std::string> namespaces;  // empty = all
  std::string node_name;                // empty = $NODE_NAME
  EndpointScope endpoints = EndpointScope::Headless;
  std::chrono::milliseconds path_timeout{45'000};
  friend bool operator==(const KubernetesSource&, const KubernetesSource&) = default;
};
struct NameTableSource {
  std::string path;
  friend bool operator==(const NameTableSource&, const NameTableSource&) = default;
};
// The part of istiod's knowledge that the source asks for.
enum class IstiodApi : std::uint8_t { Names, Workloads };
enum class IstiodTransport : std::uint8_t { Delta, StateOfTheWorld };
enum class IstiodNodeType : std::uint8_t { Sidecar, Router, Waypoint, Ztunnel };
// The workload whose names istiod sends.
struct IstiodNode {
  IstiodNodeType type = IstiodNodeType::Sidecar;
  std::vector<IpAddress> addresses;  // key `address`
  std::string name;
  std::string ns;  // key `namespace`
  std::string cluster;
  std::string network;
  registry::Labels labels;
  std::string revision;
  registry::Labels metadata;  // "DNS_AUTO_ALLOCATE" of ISTIO_META_DNS_AUTO_ALLOCATE, and so on
  friend bool operator==(const IstiodNode&, const IstiodNode&) = default;
};
struct IstiodSource {
  std::vector<std::string> addresses;  // key `address`: "HOST:PORT"
  std::string server_name;             // empty = the host of the address
  std::string ca_file;
  std::string token_file;  // or a certificate and its key
  std::string cert_file;
  std::string key_file;
  IstiodApi api = IstiodApi::Names;
  IstiodTransport transport = IstiodTransport::Delta;
  IstiodNode node;
  friend bool operator==(const IstiodSource&, const IstiodSource&) = default;
};
using SourceConfig = std::variant<FilesSource, KubernetesSource, NameTableSource, IstiodSource>;

// "IP[:PORT]" or "tls://IP[:PORT]#NAME"; the ports' defaults are 53 and 853.  A host name may stand
// for the IP, and is the NAME if there is none.
Result<UpstreamServer> parse_upstream_server(std::string_view text);

// Limits of what state_dir keeps of earlier answers.
struct HistoryConfig {
  std::chrono::seconds keep = std::chrono::hours(168);
  std::size_t size_bytes = std::size_t{64} << 20;  // key `size`
  bool is_on() const { return keep.count() > 0 && size_bytes > 0; }
  friend bool operator==(const HistoryConfig&, const HistoryConfig&) = default;
};

// The names that the record of dependencies has rows for; Mesh: those of objects, seen or hidden.
enum class DependencyRecord : std::uint8_t { Off, Mesh, All };

// The record of which workload asks for what, and its limits.
struct DependenciesConfig {
  DependencyRecord record = DependencyRecord::Off;
  std::chrono::seconds keep = std::chrono::hours(720);
  std::size_t memory_bytes = std::size_t{16} << 20;  // key `memory`
  friend bool operator==(const DependenciesConfig&, const DependenciesConfig&) = default;
};

struct Dns64Config {
  std::optional<IpPrefix> prefix;  // nullopt = off
  friend bool operator==(const Dns64Config&, const Dns64Config&) = default;
};

struct HostsConfig {
  std::string file;  // empty = off
  friend bool operator==(const HostsConfig&, const HostsConfig&) = default;
};

enum class OverrideAction : std::uint8_t { NxDomain, Refused, Addresses };
struct Override {
  OverrideAction action = OverrideAction::NxDomain;
  std::vector<IpAddress> addresses;  // only of Addresses
  friend bool operator==(const Override&, const Override&) = default;
};

struct Config {
  Config();  // its defaults; compiled once, where GCC 12 does not take them for uninitialised
  ServerConfig server;
  AdminConfig admin;
  LogConfig log;
  registry::MeshSettings mesh;
  ClientConfig client;
  std::vector<SourceConfig> sources;
  UpstreamConfig upstream;
  CacheConfig cache;
  std::string state_dir;  // empty = none
  HistoryConfig history;
  DependenciesConfig dependencies;
  Dns64Config dns64;
  HostsConfig hosts;
  std::map<std::string, Override> overrides;  // canonical suffix -> its answer
  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace meshdns::dnsd
