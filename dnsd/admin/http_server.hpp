// SPDX-License-Identifier: Apache-2.0
// A small HTTP server for operators.
//
// Connections live on a thread and a loop of the server's own, so that slow clients cost the owner
// nothing, and health checks are answered while the owner's loop is busy (HttpRoute::status). All
// other handlers run on the loop of the thread that owns what they show, between its other
// callbacks, and need no locks.
//
// It refuses what a web page that an operator looks at could do with it: a Host that is neither an
// IP address nor "localhost" (DNS rebinding), and a POST that comes from another origin.
#pragma once

#include <sys/types.h>
#include <uv.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "dnsd/admin/http_message.hpp"
#include "dnsd/admin/password_gate.hpp"
#include "dnsd/admin/tls_certificate.hpp"
#include "dnsd/config/admin_address.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

// Deadlines for the parts of a request.  They hold however steadily the client sends, because a
// client that sends one byte at a time would hold its connection for ever.
struct HttpDeadlines {
  std::chrono::milliseconds request{2'000};   // from the connection, or the response before it
  std::chrono::milliseconds place{50};        // a new connection makes room for others only then
  std::chrono::milliseconds handler{10'000};  // wait for the owner's loop; then 503
  std::chrono::milliseconds response{2'000};  // for the client to read the response ...
  std::size_t bytes_per_second = 1 << 20;     // ... and a second more for so many bytes of it
  // A client of a stream may take this long for each piece.  Then a watch ends with its farewell,
  // which the client must read as soon, and any other stream at once.
  std::chrono::milliseconds stall{5'000};
};

// Counts since the start; any thread may read.
struct HttpCounters {
  std::atomic<std::uint64_t> accept_failures{0};  // no descriptors or no memory; tried again
  std::atomic<std::uint64_t> overdue{0};          // connections closed at a deadline
  std::atomic<std::uint64_t> evicted{0};          // connections closed to make room
  std::atomic<std::uint64_t> busy{0};             // requests refused because the owner was busy
  std::atomic<std::uint64_t> denied{0};           // requests with a wrong password
};

// The protection of a server: its certificate, the passwords of its clients, and the share of each
// of them.
struct HttpAccess {
  std::shared_ptr<const TlsCertificate> certificate;  // null: HTTP without TLS
  // Null: everybody may read.  Pages of the server's own thread (HttpRoute::status) need no
  // password in any case: they are health checks, which send none.
  std::shared_ptr<const PasswordFile> passwords;
  // The limit for one address, whose oldest connection makes room for a new one.  0: only the
  // server's limit holds.
  std::size_t connections_per_peer = 0;
};

class HttpServer {
 public:
  static constexpr unsigned kMaxConnections = 256;
  // Requests that may wait for the owner's loop; well below kMaxConnections, so that there is
  // always a connection that can make room for a health check.
  static constexpr unsigned kMaxQueued = 16;
  static constexpr std::size_t kMaxHeaderBytes = 8'192;  // request line and headers
  // Response bodies that clients have not read. One more body may be beyond it.
  static constexpr std::size_t kMaxHeldBytes = std::size_t{32} << 20;

  // Binds and serves at once. `loop` is the owner's, which calls open(). An Error says the address
  // and why. A Unix socket is for its owner and group (mode 0660); one that nobody listens on any
  // more, or on which the process `leaving` does, is replaced. REQUIRES: the loop runs on after the
  // server's destruction until its handles are closed; `counters` outlives the server.
  static Result<std::unique_ptr<HttpServer>> open(uv_loop_t* loop, const AdminAddress& address,
                                                  HttpRoutes routes, HttpCounters& counters,
                                                  const HttpDeadlines& deadlines = {},
                                                  HttpAccess access = {},
                                                  std::optional<pid_t> leaving = {});
  // An Error, as that of open(), where the address cannot be bound now.
  static Result<void> try_address(const AdminAddress& address);
  // Ends all connections and the thread, and removes its Unix socket. REQUIRES: the owner's thread,
  // not inside a handler.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Uses `access` for connections and requests that begin from now on.  REQUIRES: the owner's
  // thread; it has a certificate if that of open() had one.
  void set_access(HttpAccess access);

  // The listening address, with the port that the kernel chose for port 0.
  const AdminAddress& address() const;
  // Returns false if the path of the Unix socket leads to another one, or to none.
  bool has_its_path() const;

 private:
  class Impl;  // so that libmicrohttpd's header is included in one file only
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshdns::dnsd
