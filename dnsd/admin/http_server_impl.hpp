// SPDX-License-Identifier: Apache-2.0
// The server behind HttpServer.  Only http_server.cpp and http_responses.cpp include it.
#pragma once

#include <microhttpd.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "dnsd/admin/http_server.hpp"
#include "dnsd/admin/http_stream.hpp"
#include "dnsd/admin/password_gate.hpp"
#include "registry/base/handle.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/base/mailbox.hpp"

namespace meshdns::dnsd {

// A listening stream socket and, for port 0, the port that the kernel chose.  Owned; a Unix socket
// is removed from the file system with it, if it is still the one that was made here.
class ListeningSocket {
 public:
  // An Error says the address and why.  A Unix socket replaces one that nobody listens on any more,
  // or on which the process `leaving` does.
  static Result<ListeningSocket> open(const AdminAddress& address, int backlog,
                                      std::optional<pid_t> leaving = {});
  ~ListeningSocket();
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;

  int fd() const { return fd_; }
  const AdminAddress& address() const { return address_; }
  // Returns false if the path of a Unix socket leads to another one, or to none.
  bool has_its_path() const;

 private:
  ListeningSocket(int fd, AdminAddress address) : fd_(fd), address_(std::move(address)) {}
  Result<void> bind_to(const SocketAddress& address, std::optional<pid_t> leaving);
  Result<void> bind_to(const UnixAddress& address, std::optional<pid_t> leaving);
  std::unexpected<Error> refuse(const char* what) const;

  int fd_ = -1;
  AdminAddress address_;
  unsigned long inode_ = 0;  // of the Unix socket; 0 = none to remove
};

// Returns what the connections of the client at `address` are counted under.
std::optional<IpAddress> peer_of(const sockaddr* address);

// Accepts by itself and hands the connections to libmicrohttpd, whose own accepting stops for good
// when it runs out of descriptors while it has connections.
class HttpServer::Impl {
 public:
  Impl(ListeningSocket socket, HttpRoutes routes, HttpCounters& counters,
       const HttpDeadlines& deadlines, HttpAccess access)
      : socket_(std::move(socket)),
        is_local_(is_unix(socket_.address())),
        routes_(std::move(routes)),
        counters_(counters),
        deadlines_(deadlines),
        connections_per_peer_(access.connections_per_peer),
        certificate_(std::move(access.certificate)) {
    gate_.set_passwords(std::move(access.passwords));
  }
  // Owner's thread.
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Owner's thread. After an Error the object can only be destroyed.
  Result<void> start(uv_loop_t* owner_loop);
  const AdminAddress& address() const { return socket_.address(); }
  bool has_its_path() const { return socket_.has_its_path(); }
  // Owner's thread.
  void set_access(HttpAccess access);

 private:
  // A request that waits for its handler. The owner's loop skips it once nobody waits any more.
  struct Job {
    std::atomic<bool> is_abandoned{false};
  };
  enum class Phase : std::uint8_t { Reading, Waiting, Writing, Streaming };
  struct Connection {
    int fd = -1;
    std::optional<IpAddress> peer{};  // under which it is counted; nullopt: a Unix socket's
    Phase phase = Phase::Reading;
    bool is_ended = false;                   // by us, at a deadline or to make room
    std::uint64_t since = 0;                 // loop time at which the phase began
    std::uint64_t order = 0;                 // of the beginnings of phases, which may share a time
    std::uint64_t responses = 0;             // complete ones
    std::size_t body_bytes = 0;              // of the response that is being written
    std::shared_ptr<Job> job;                // of the request that waits; null otherwise
    std::optional<HttpResponse> response{};  // of the handler, until it is queued
    std::shared_ptr<HttpStream> stream{};    // of the response that is being written
    bool is_suspended = false;               // until `stream` has more
    std::shared_ptr<const TlsCertificate> certificate{};  // of its TLS session; null without TLS
  };
  using Connections = std::map<MHD_Connection*, Connection>;
  // A body that libmicrohttpd sends, and frees when its response is over.
  struct HeldBody {
    std::string text;
    Impl* server;
  };

  // A stream that libmicrohttpd reads.
  struct ReadStream {
    std::shared_ptr<HttpStream> stream;
    MHD_Connection* connection;
    Impl* server;
  };

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url,
                               const char* method, const char* version, const char* upload_data,
                               std::size_t* upload_size, void** state);
  static void on_connection(void* self, MHD_Connection* connection, void** context,
                            MHD_ConnectionNotificationCode what);
  static void on_completed(void* self, MHD_Connection* connection, void** state,
                           MHD_RequestTerminationCode why);
  static void free_body(void* body);
  static HttpResponse busy();
  static HttpResponse unauthorized();
  static ssize_t on_read(void* self, std::uint64_t position, char* to, std::size_t size);
  static void free_stream(void* self);

  MHD_Daemon* start_microhttpd();
  void run();
  void end_all();
  MHD_Result answer(MHD_Connection* connection, const char* url, std::string_view method);
  MHD_Result hand_over(MHD_Connection* connection, const HttpHandler& handler,
                       HttpRequest&& request);
  MHD_Result check_password(MHD_Connection* connection, const HttpHandler& handler,
                            HttpRequest&& request);
  MHD_Result refuse_as_busy(MHD_Connection* connection);
  void begin_waiting(MHD_Connection* connection, const std::shared_ptr<Job>& job);
  void post_to_owner(const std::shared_ptr<Job>& job, const HttpHandler& handler,
                     HttpRequest&& request);
  void finish(const std::shared_ptr<Job>& job, HttpResponse&& response);
  void resume(Connections::iterator waiting, std::optional<HttpResponse> response);
  MHD_Result send(MHD_Connection* connection, HttpResponse&& answer, const std::string& allow = "");
  MHD_Response* hold_body(Connection& state, HttpResponse&& answer);
  MHD_Response* hold_stream(MHD_Connection* connection, Connection& state, HttpResponse&& answer);
  ssize_t read_stream(ReadStream& from, char* to, std::size_t size);
  void go_on(const HttpStream* stream);
  void flush_streams();
  std::uint64_t now() const { return uv_now(&loop_); }
  std::uint64_t due(const Connection& connection) const;
  void accept_some();
  bool is_crowded() const { return now() < crowded_until_; }
  void begin_phase(Connection& connection, Phase phase);
  Connection* first_to_leave(const IpAddress* of_peer = nullptr);
  std::size_t connections_of(const IpAddress& peer) const;
  void evict(Connection& connection);
  void make_room_for_body(std::size_t size);
  void end(Connection& connection);
  void turn();
  void end_overdue();
  void wait();
  std::optional<std::chrono::milliseconds> next_turn() const;

  // Constant after start().
  ListeningSocket socket_;
  const bool is_local_;
  const HttpRoutes routes_;
  HttpCounters& counters_;
  const HttpDeadlines deadlines_;
  const std::size_t connections_per_peer_;  // 0: no limit

  // Any thread.
  std::atomic<unsigned> queued_{0};  // jobs in to_owner_

  // Owner's thread; post() from the server's.
  loop::Mailbox to_owner_;
  std::thread thread_;

  // Server's thread, from start() to the end of thread_.
  loop::Mailbox to_server_;  // post() from the owner's thread
  uv_loop_t loop_{};
  loop::Poll listener_;
  loop::Poll descriptors_;  // libmicrohttpd's own epoll descriptor
  loop::Timer timer_;
  bool loop_open_ = false;
  bool is_ending_ = false;
  Connections connections_;
  std::shared_ptr<const TlsCertificate> certificate_;  // of new connections; null without TLS
  PasswordGate gate_{&loop_};
  std::uint64_t phases_begun_ = 0;
  std::size_t held_bytes_ = 0;
  std::uint64_t accept_again_at_ = 0;  // loop time
  std::uint64_t crowded_until_ = 0;    // loop time
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace meshdns::dnsd
