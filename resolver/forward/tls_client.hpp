// SPDX-License-Identifier: Apache-2.0
// TLS towards one upstream (RFC 7858, RFC 8310 strict profile): its certificate must be valid for
// the name of the configuration.  OpenSSL is included in one file only.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "registry/base/result.hpp"

namespace meshdns::dnsd {

class TlsSession;

// State that all connections to an upstream share: trust, name, and the session to resume.  One
// thread's.
class TlsClient {
 public:
  // `ca_file`: empty = the system's authorities.  An Error says what is wrong with it.
  static Result<std::unique_ptr<TlsClient>> create(const std::string& ca_file,
                                                   const std::string& name);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  // REQUIRES: outlives the session.
  std::unique_ptr<TlsSession> start();

 private:
  friend class TlsSession;
  struct Impl;
  explicit TlsClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One connection's TLS, between memory and memory: the caller moves the records.
class TlsSession {
 public:
  enum class Progress : std::uint8_t { Done, NeedsMore, Failed };

  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  Progress handshake();
  bool is_resumed() const;
  // Records that came from the peer.
  void feed(std::span<const std::uint8_t> records);
  // Clear text out of what was fed, as much as fits: 0 = none yet.  Failed: closed or broken.
  Progress read(std::span<std::uint8_t> out, std::size_t& size);
  // Seals all of `text`; false when broken.  REQUIRES: the handshake is done.
  bool write(std::string_view text);
  // Appends the records that are to be sent.
  void drain(std::string& out);
  std::string error() const;

 private:
  friend class TlsClient;
  struct Impl;
  explicit TlsSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshdns::dnsd
