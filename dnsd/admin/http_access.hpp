// SPDX-License-Identifier: Apache-2.0
// The protection of an HTTP server: its certificate, and the passwords of its clients.
#pragma once

#include <memory>

#include "dnsd/admin/password_file.hpp"
#include "dnsd/admin/tls_certificate.hpp"

namespace meshdns::dnsd {

struct HttpAccess {
  std::shared_ptr<const TlsCertificate> certificate;  // null: HTTP without TLS
  // Null: everybody may read.  Pages of the server's own thread (HttpRoute::status) need no
  // password in any case: they are health checks, which send none.
  std::shared_ptr<const PasswordFile> passwords;
};

}  // namespace meshdns::dnsd
