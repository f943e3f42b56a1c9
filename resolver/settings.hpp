// SPDX-License-Identifier: Apache-2.0
// The settings of the DNS client as plain values: sections `upstream` and `cache` of
// docs/configuration.md.  Members have their defaults.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "registry/base/ip_address.hpp"
#include "registry/base/socket_address.hpp"

namespace meshdns::dnsd {

enum class UpstreamTransport : std::uint8_t { Plain, Tls };  // Plain: UDP, TCP on truncation
struct UpstreamServer {
  UpstreamTransport transport = UpstreamTransport::Plain;
  SocketAddress address;
  std::string tls_name;  // checked against the certificate; never empty with Tls
  // The name whose addresses stand for `address`, of which only the port counts then; empty: none.
  std::string host = {};
  // "10.0.0.53:53", "tls://9.9.9.9:853#dns.quad9.net": the form in the configuration.
  std::string to_string() const {
    const std::string place =
        host.empty() ? address.to_string() : host + ":" + std::to_string(address.port);
    return transport == UpstreamTransport::Plain ? place : "tls://" + place + "#" + tls_name;
  }
  friend auto operator<=>(const UpstreamServer&, const UpstreamServer&) = default;
};

enum class UpstreamPolicy : std::uint8_t { Fastest, Sequential, RoundRobin, Random, Parallel };

// Reverse names of private addresses and their like (dnsd/answer/locally_served.hpp): answered
// here, or forwarded.
enum class LocallyServed : std::uint8_t { Answer, Forward };

// Whether queries have a DNS cookie; Auto: to all servers that take it.
enum class UpstreamCookieMode : std::uint8_t { Auto, Off };

struct UpstreamConfig {
  std::vector<UpstreamServer> servers;  // empty = those of /etc/resolv.conf minus ourselves
  UpstreamPolicy policy = UpstreamPolicy::Fastest;
  // Canonical zone name -> its servers; the longest suffix wins.  A prefix as key ("10.0.0.0/8")
  // has become its reverse zone.
  std::map<std::string, std::vector<UpstreamServer>> zones;
  LocallyServed locally_served_zones = LocallyServed::Answer;
  std::chrono::milliseconds timeout{2000};  // of one query, all tries together
  std::uint32_t max_in_flight = 4096;       // forwarded questions at a time; beyond: SERVFAIL, EDE
  bool case_randomization = true;           // 0x20
  UpstreamCookieMode cookies = UpstreamCookieMode::Auto;
  std::string tls_ca_file;             // key `tls.ca_file`; empty = the system's
  std::vector<IpPrefix> deny_answers;  // rebinding protection
  // Filled in by UpstreamInUse, without keys of their own: dns64.prefix, those of `zones` that
  // are domains of this machine's links, and the file that named `servers`.
  std::optional<IpPrefix> nat64;
  std::set<std::string> link_zones;
  std::string servers_file;
  friend bool operator==(const UpstreamConfig&, const UpstreamConfig&) = default;
};

struct CacheConfig {
  std::size_t size_bytes = std::size_t{64} << 20;  // key `size`; 0 = no cache
  bool has_default_size = true;                    // it is "auto": less where memory is short
  std::chrono::seconds min_ttl{0};
  std::chrono::seconds max_ttl{3600};
  std::chrono::seconds negative_max_ttl{30};
  std::chrono::seconds serve_stale{3600};  // 0 = never
  bool prefetch = true;
  bool nxdomain_cut = false;  // RFC 8020: a denied name denies all below it
  friend bool operator==(const CacheConfig&, const CacheConfig&) = default;
};

}  // namespace meshdns::dnsd
