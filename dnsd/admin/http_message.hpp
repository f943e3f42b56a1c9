// SPDX-License-Identifier: Apache-2.0
// Requests, responses and routes of the admin HTTP server, without any HTTP library.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace meshdns::dnsd {

class HttpStream;

struct HttpRequest {
  std::string path;
  std::map<std::string, std::string, std::less<>> arguments;  // decoded; the last of a name counts
  std::string authorization;  // the header of that name; empty = none
  bool is_local = false;      // came over the Unix socket, whose file mode is the credential

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
  std::shared_ptr<HttpStream> stream{};   // instead of `body`; null: the response is complete
  std::string_view challenge = "Bearer";  // the header WWW-Authenticate of a 401; a literal
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

// Handlers of one path. A method without a handler is 405.
struct HttpRoute {
  HttpHandler get;   // HEAD, too; runs on the owner's loop
  HttpHandler post;  // runs on the owner's loop; arguments are in the URL, requests have no body
  // GET and HEAD, instead of `get`: runs on the server's own thread, so that it answers while the
  // owner's loop is busy. REQUIRES: safe on any thread, never blocks.
  HttpHandler status;
};
using HttpRoutes = std::map<std::string, HttpRoute, std::less<>>;  // by exact path

}  // namespace meshdns::dnsd
