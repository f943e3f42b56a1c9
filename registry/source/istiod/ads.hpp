// SPDX-License-Identifier: Apache-2.0
// A stream of istiod's aggregated discovery service, without gRPC and protobuf: those are in a
// module that is loaded only when the configuration has such a source (istiod_source.cpp).  Both
// sides are built from this header, and nothing else passes between them.
//
// Not used: gRPC in the daemon itself.  Its libraries and their 60 dependencies take memory and
// time at every start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "registry/source/istiod/workload_api.hpp"

namespace meshdns::registry::istiod {

// The limits bound the memory that a hostile istiod can cost, whatever it pushes one after the
// other.  More names than any mesh has, and more tables and objects:
inline constexpr std::size_t kMaxNames = 1'000'000;
// Addresses, ports and other lists of all names or objects together.
inline constexpr std::size_t kMaxParts = 4'000'000;
// Limits for one resource.  A workload's name is below 700 octets.
inline constexpr std::size_t kMaxResourceName = 1'024;
inline constexpr std::size_t kMaxResourceVersion = 256;
// Octets of the names and versions that a request may have: istiod reads 4 MiB.
inline constexpr std::size_t kMaxVersionOctets = std::size_t{3} << 20;

// Limits of all that is held at the same time.
struct HeldLimits {
  std::size_t names = kMaxNames;  // and tables, and objects
  std::size_t parts = kMaxParts;
};

// Name tables, or the addresses of the workload API.
enum class AdsApi : std::uint8_t { Names, Workloads };
enum class AdsTransport : std::uint8_t { Delta, StateOfTheWorld };

// The workload that istiod sends names for (envoy.config.core.v3.Node).
struct AdsNode {
  std::string id;  // "sidecar~10.0.0.5~vm-1.shop~shop.svc.cluster.local"
  std::string workload;
  std::string ns;
  std::string cluster;
  std::string network;
  std::string addresses;  // separated by commas
  std::string revision;
  std::vector<std::pair<std::string, std::string>> labels;
  // Further fields of the node's metadata.  Those above win.
  std::vector<std::pair<std::string, std::string>> metadata;
};

// A resource that is held from an earlier stream (initial_resource_versions).
struct HeldResource {
  std::string name;
  std::string version;
  // Size of its entry in a request, with tags and lengths.
  std::size_t octets() const { return name.size() + version.size() + 12; }
};

struct AdsOptions {
  // In gRPC's form, tried in this order: "ipv4:192.0.2.1:15012,192.0.2.2:15012".
  std::vector<std::string> targets;
  std::string server_name;  // that the certificate must be for
  std::string ca_pem;
  std::string token;     // empty: none
  std::string cert_pem;  // empty: no client certificate
  std::string key_pem;
  AdsApi api = AdsApi::Names;
  AdsTransport transport = AdsTransport::Delta;
  AdsNode node;
  std::vector<HeldResource> held;
};

// One host of a pushed table.  `info` is its NameInfo as sent, to compare it with an earlier one.
struct PushedName {
  std::string_view host;
  std::string_view info;
};

// A NameTable.  istiod sends one without a name, which has all hosts.
struct PushedTable {
  std::string name;
  std::string version;
  std::vector<PushedName> names;
};

// An Address of the workload API, as sent.
struct PushedAddress {
  std::string name;
  std::string version;
  std::string_view content;
};

// One response.  The texts are good during the call that has it.
struct Push {
  std::string version;  // of the whole; may be empty
  std::size_t bytes = 0;
  std::vector<PushedTable> tables;
  std::vector<PushedAddress> addresses;
  std::vector<std::string> removed;  // names of tables or addresses
  // Whether tables that are not in it are gone.
  bool is_whole = false;
};

// The fields of a NameInfo.  The texts are good until the next call of the reader.
struct NameInfo {
  std::vector<std::string_view> ips;
  std::string_view registry;
  std::string_view short_name;
  std::string_view ns;
  std::vector<std::string_view> alt_hosts;
};

// Reads parts of a push, one at a time: read at once, they would take many times their room.
class MessageReader {
 public:
  virtual ~MessageReader() = default;
  // Reads PushedName::info; nullptr if it is no such message.
  virtual const NameInfo* read_name(std::string_view info) = 0;
  // Reads PushedAddress::content; nullopt if it is no such message.
  virtual std::optional<ApiAddress> read_address(std::string_view content) = 0;
};

// Called on the stream's thread, one call at a time.
class AdsListener {
 public:
  virtual ~AdsListener() = default;
  // The server has taken the connection; the first call, if ever.
  virtual void on_connected() = 0;
  // Returns once the push is in service (nullopt), or why it is refused: a NACK tells istiod.  May
  // wait; the next response is read afterwards.
  virtual std::optional<std::string> on_push(const Push& push, MessageReader& reader) = 0;
  // A response that cannot be read was refused for this reason.
  virtual void on_unreadable(const std::string& why, std::size_t bytes) = 0;
  // The stream is over; the last call.
  virtual void on_end(const std::string& why) = 0;
};

// A stream, from its construction on.  The destructor cancels it and waits for its thread: the
// listener hears nothing afterwards.  REQUIRES: a call of the listener that waits returns soon once
// the destructor has begun.
class AdsStream {
 public:
  virtual ~AdsStream() = default;
};

// Opens a stream, which the caller owns.  REQUIRES: the listener outlives it.
using OpenAdsStream = AdsStream*(AdsOptions options, AdsListener& listener);

// Exported by the module: the version that it was built for, and its one function.
inline constexpr const char* kModuleVersionSymbol = "meshdns_istiod_version";
inline constexpr const char* kModuleOpenSymbol = "meshdns_istiod_open";

}  // namespace meshdns::registry::istiod
