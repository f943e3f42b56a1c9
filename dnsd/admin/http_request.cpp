// SPDX-License-Identifier: Apache-2.0
#include "dnsd/admin/http_request.hpp"

#include <microhttpd.h>
#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

#include "registry/base/host_name.hpp"
#include "registry/base/ip_address.hpp"
#include "registry/base/printable.hpp"

namespace meshdns::dnsd {
namespace {

bool is_same_word(std::string_view a, std::string_view b) { return to_lower(a) == to_lower(b); }

// Returns whether `rest`, the text after the host, is empty or ":" and a port.
bool is_port_or_nothing(std::string_view rest) {
  if (rest.empty()) return true;
  if (!rest.starts_with(':') || rest.size() == 1 || rest.size() > 6) return false;
  rest.remove_prefix(1);
  std::uint16_t port = 0;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
  return error == std::errc() && stop == rest.data() + rest.size();
}

}  // namespace

bool is_own_host(std::string_view host) {
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view address = host.substr(1, end - 1);
    return address.contains(':') && IpAddress::parse(address) &&
           is_port_or_nothing(host.substr(end + 1));
  }
  const auto end = std::min(host.find(':'), host.size());
  const std::string_view name = host.substr(0, end);
  const auto ip = IpAddress::parse(name);
  return (is_same_word(name, "localhost") || (ip && ip->is_v4())) &&
         is_port_or_nothing(host.substr(end));
}

bool is_own_origin(std::string_view origin, std::string_view host) {
  constexpr std::string_view kScheme = "http://";
  return origin.starts_with(kScheme) && is_same_word(origin.substr(kScheme.size()), host);
}

Result<std::uint64_t> number_argument(const HttpRequest& request, std::string_view name,
                                      std::uint64_t otherwise) {
  const std::string_view text = request.argument(name);
  if (text.empty()) return otherwise;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    return fail(std::string(name) + "=: " + in_quotes(text) + " is not a number");
  return number;
}

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
