// A small HTTP server for operators, on the loop of the thread that owns what it shows: its
// handlers run between that loop's other callbacks and need no locks.
//
// It only reads (GET and HEAD), and refuses a Host that is neither an IP address nor "localhost",
// so that a web page that an operator looks at cannot reach it through DNS rebinding.
#pragma once

#include <uv.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "dnsd/config/socket_address.hpp"
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
using HttpRoutes = std::map<std::string, HttpHandler, std::less<>>;  // by exact path

// The loop's thread, all of it.
class HttpServer {
 public:
  static constexpr unsigned kMaxConnections = 16;
  static constexpr unsigned kTimeoutSeconds = 10;           // without progress
  static constexpr std::size_t kMaxHeaderBytes = 8 * 1024;  // request line and headers

  // Binds and serves at once.  An Error says the address and why.  REQUIRES: the loop runs on after
  // the server's destruction until its handles are closed.
  static Result<std::unique_ptr<HttpServer>> open(uv_loop_t* loop, const SocketAddress& address,
                                                  HttpRoutes routes);
  ~HttpServer();  // ends all connections
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Where it listens, with the port that the kernel chose for port 0.
  const SocketAddress& address() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshdns::dnsd
