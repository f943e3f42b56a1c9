// SPDX-License-Identifier: Apache-2.0
// The server's end of a TLS connection, without its socket, and the certificate of all of them.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace meshdns::dnsd::test {

// A file with the certificate of dns.example.org, which vouches for itself, for the life of the
// process.
std::string authority_file();

class TlsEnd {
 public:
  TlsEnd();

  // Takes what the client has sent.
  void put(std::span<const std::uint8_t> sealed);
  // Shakes hands, and appends what the client says to `out`.  Returns whether that was something.
  bool read(std::vector<std::uint8_t>& out);
  // Nothing leaves before the handshake has ended.
  void write(std::span<const std::uint8_t> octets);
  // Returns what the client is to get.
  std::vector<std::uint8_t> take_sealed();

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };
  std::unique_ptr<SSL, Free> ssl_;
};

}  // namespace meshdns::dnsd::test
