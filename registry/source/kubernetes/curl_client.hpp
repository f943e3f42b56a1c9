// SPDX-License-Identifier: Apache-2.0
// HTTP over libcurl on a libuv loop.  One connection for everything where the server speaks HTTP/2,
// kept connections where it does not.
//
// A peer that is gone without a word is noticed by TCP itself (keep-alive, TCP_USER_TIMEOUT),
// usually within 30 s.  Responses are handed on as they come; nothing is gathered here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "registry/source/kubernetes/transport.hpp"
#include "registry/source/scheduler.hpp"
#include "registry/source/server_lookup.hpp"

struct uv_loop_s;  // NOLINT(readability-identifier-naming): libuv's name

namespace meshdns::registry::kubernetes {

// The address of a server, and the proofs of identity of both sides.  Files are read anew with
// every connection, so that they may rotate.
struct TlsIdentity {
  std::string ca_file;
  std::string ca_pem;  // instead of the file; both empty: the system's
  std::string certificate_file;
  std::string certificate_pem;
  std::string key_file;
  std::string key_pem;
  std::string server_name;  // that the certificate is for; empty: the URL's
  bool is_unverified = false;
  friend bool operator==(const TlsIdentity&, const TlsIdentity&) = default;
};

// A host that is a name: the server's, or a proxy's.
struct NamedHost {
  std::string host;  // as the URL has it
  std::string port;
  ServerAddresses known{};
};

struct CurlRequest {
  std::string url;
  // All hosts that are names: libcurl looks up none.  A connection to one without a known address
  // fails.
  std::vector<NamedHost> hosts;
  std::vector<std::string> headers;  // "Accept: application/json"
  TlsIdentity tls;
  std::string proxy;              // URL; empty: what the environment says
  std::string user_and_password;  // "user:password"
};

// TCP's own search for a peer that is gone without a word.
struct PathLimits {
  std::chrono::seconds keep_alive_idle{10};
  std::chrono::seconds keep_alive_interval{5};
  Milliseconds unacknowledged{20'000};
};

// Control thread.
class CurlClient {
 public:
  // REQUIRES: the loop runs on for the handles to close after destruction.
  CurlClient(uv_loop_s* loop, const PathLimits& limits);
  ~CurlClient();
  CurlClient(const CurlClient&) = delete;
  CurlClient& operator=(const CurlClient&) = delete;

  // As Transport::get.  REQUIRES: the exchange is destroyed before the client.
  [[nodiscard]] std::unique_ptr<Exchange> get(const CurlRequest& request,
                                              ResponseListener& listener);
  // Requests from now on use new connections, which they share.
  void distrust_connections();

 private:
  class Engine;
  void look_after_retired();

  uv_loop_s* loop_;
  const PathLimits limits_;
  std::unique_ptr<Scheduler> scheduler_;
  std::uint64_t engine_since_ms_ = 0;
  std::unique_ptr<Engine> engine_;
  // Distrusted, with the requests that were under way.
  std::vector<std::unique_ptr<Engine>> retired_;
  std::unique_ptr<Timer> retired_timer_;
};

}  // namespace meshdns::registry::kubernetes
