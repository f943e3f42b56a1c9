// SPDX-License-Identifier: Apache-2.0
// The protection of an HTTP server: its certificate, the passwords of its clients, and the share of
// each of them.
#pragma once

#include <cstddef>
#include <memory>

#include "dnsd/admin/password_gate.hpp"
#include "dnsd/admin/tls_certificate.hpp"

namespace meshdns::dnsd {

struct HttpAccess {
  std::shared_ptr<const TlsCertificate> certificate;  // null: HTTP without TLS
  // Null: everybody may read.  Pages of the server's own thread (HttpRoute::status) need no
  // password in any case: they are health checks, which send none.
  std::shared_ptr<const PasswordFile> passwords;
  // The limit for one address, whose oldest connection makes room for a new one.  0: only the
  // server's limit holds.
  std::size_t connections_per_peer = 0;
};

}  // namespace meshdns::dnsd
