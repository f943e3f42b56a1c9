// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/http_request.hpp"

#include <microhttpd.h>
#include <strings.h>

#include "dnsd/admin/request_origin.hpp"

namespace meshdns::dnsd {
namespace {

std::optional<std::string_view> header_of(MHD_Connection* connection, const char* name) {
  const char* value = nullptr;
  std::size_t size = 0;
  if (MHD_lookup_connection_value_n(connection, MHD_HEADER_KIND, name,
                                    std::string_view(name).size(), &value, &size) != MHD_YES)
    return std::nullopt;
  return value == nullptr ? std::string_view() : std::string_view(value, size);
}

int count_headers(MHD_Connection* connection, const char* name) {
  struct Count {
    const char* name;
    int found = 0;
  } count{name};
  MHD_get_connection_values(
      connection, MHD_HEADER_KIND,
      [](void* self, MHD_ValueKind, const char* key, const char*) {
        auto* counting = static_cast<Count*>(self);
        if (strcasecmp(key, counting->name) == 0) ++counting->found;
        return MHD_YES;
      },
      &count);
  return count.found;
}

}  // namespace

std::optional<HttpResponse> refusal(MHD_Connection* connection, std::string_view method,
                                    std::string_view version) {
  const auto host = header_of(connection, MHD_HTTP_HEADER_HOST);
  if (count_headers(connection, MHD_HTTP_HEADER_HOST) > 1)
    return HttpResponse{400, "text/plain", "the request has several Host headers\n"};
  if (!host && version != MHD_HTTP_VERSION_1_0)
    return HttpResponse{400, "text/plain", "the request has no Host header\n"};
  if (host && !is_own_host(*host))
    return HttpResponse{403, "text/plain", "Host is neither an IP address nor localhost\n"};
  // Browsers say where a POST comes from, and send it without asking us first.
  const auto origin = header_of(connection, MHD_HTTP_HEADER_ORIGIN);
  if (method == MHD_HTTP_METHOD_POST && origin && !is_own_origin(*origin, host.value_or("")))
    return HttpResponse{403, "text/plain", "a page of another origin must not change anything\n"};
  const auto length = header_of(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
  if (header_of(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING) || (length && *length != "0"))
    return HttpResponse{413, "text/plain",
                        "requests must not have a body; put arguments in the URL\n"};
  return std::nullopt;
}

std::optional<Credentials> credentials_of(MHD_Connection* connection) {
  char* password = nullptr;
  char* const user = MHD_basic_auth_get_username_password(connection, &password);
  std::optional<Credentials> credentials;
  if (user != nullptr) credentials = {user, password == nullptr ? "" : password};
  MHD_free(user);
  MHD_free(password);
  return credentials;
}

HttpRequest request_of(MHD_Connection* connection, const char* url, bool is_local) {
  HttpRequest request;
  request.path = url;
  request.is_local = is_local;
  request.authorization = header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION).value_or("");
  MHD_get_connection_values(
      connection, MHD_GET_ARGUMENT_KIND,
      [](void* arguments, MHD_ValueKind, const char* key, const char* value) {
        (*static_cast<decltype(request.arguments)*>(arguments))[key] =
            value == nullptr ? "" : value;
        return MHD_YES;
      },
      &request.arguments);
  return request;
}

}  // namespace meshdns::dnsd
