// A small HTTP server for operators, on the loop of the thread that owns what it shows: its
// handlers run between that loop's other callbacks and need no locks.
//
// What a web page that an operator looks at could do with it is refused: a Host that is neither an
// IP address nor "localhost" (DNS rebinding), and a POST that comes from another origin.
#pragma once

#include <uv.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "dnsd/config/admin_address.hpp"
#include "registry/base/result.hpp"

namespace meshdns::dnsd {

struct HttpRequest {
  std::string path;
  std::map<std::string, std::string, std::less<>> arguments;  // decoded; the last of a name counts

  // Empty where there is none.
  std::string_view argument(std::string_view name) const {
    const auto found = arguments.find(name);
    return found == arguments.end() ? std::string_view() : std::string_view(found->second);
  }
};

struct HttpResponse {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

// What a path does; a method without handler is 405.
struct HttpRoute {
  HttpHandler get;   // HEAD, too
  HttpHandler post;  // its arguments are in the URL, as those of GET: requests have no body
};
using HttpRoutes = std::map<std::string, HttpRoute, std::less<>>;  // by exact path

// How long a client may take, however steadily it goes on: one that reads or writes an octet at a
// time would hold its connection for ever.
struct HttpDeadlines {
  std::chrono::milliseconds request{20'000};   // until the request is there as a whole
  std::chrono::milliseconds response{60'000};  // from the same moment until all of it has been read
};

struct HttpCounters {
  std::uint64_t accept_failures = 0;  // no descriptors or no memory; tried again
  std::uint64_t overdue = 0;          // connections that were ended at a deadline
};

// The loop's thread, all of it.
class HttpServer {
 public:
  static constexpr unsigned kMaxConnections = 16;
  static constexpr unsigned kTimeoutSeconds = 10;        // without progress
  static constexpr std::size_t kMaxHeaderBytes = 8'192;  // request line and headers

  // Binds and serves at once.  An Error says the address and why.  A Unix socket is for its owner
  // and group (mode 0660); one that nobody listens on any more is replaced.  REQUIRES: the loop
  // runs on after the server's destruction until its handles are closed; `counters` outlives it.
  static Result<std::unique_ptr<HttpServer>> open(uv_loop_t* loop, const AdminAddress& address,
                                                  HttpRoutes routes, HttpCounters& counters,
                                                  const HttpDeadlines& deadlines = {});
  // Ends all connections, and removes its Unix socket.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Where it listens, with the port that the kernel chose for port 0.
  const AdminAddress& address() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshdns::dnsd
