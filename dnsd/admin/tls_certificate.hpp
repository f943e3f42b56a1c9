// SPDX-License-Identifier: Apache-2.0
// The certificate by which clients recognize an HTTP server of ours.
#pragma once

#include <memory>
#include <string>

#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// Immutable.  One thread at a time may use it.
//
// libmicrohttpd does TLS by GnuTLS, so this is GnuTLS, too.
class TlsCertificate {
 public:
  // Reads PEM files: a chain that begins with the certificate of the server, and its private key.
  // An Error ("PATH: reason") where one cannot be used, or where they do not belong together.
  static Result<std::shared_ptr<const TlsCertificate>> read(const std::string& cert_file,
                                                            const std::string& key_file);
  ~TlsCertificate();
  TlsCertificate(const TlsCertificate&) = delete;
  TlsCertificate& operator=(const TlsCertificate&) = delete;

  // Makes it the certificate of `session`, a gnutls_session_t of libmicrohttpd.
  // REQUIRES: it outlives the session.
  void attach_to(void* session) const;
  // The value of MHD_OPTION_HTTPS_CERT_CALLBACK: gives each session the certificate that is
  // attached to it.
  static void* callback();

 private:
  class Impl;
  explicit TlsCertificate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshdns::dnsd
