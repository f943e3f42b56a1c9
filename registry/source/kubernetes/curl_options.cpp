// SPDX-License-Identifier: Apache-2.0
#include "registry/source/kubernetes/curl_options.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

namespace meshdns::registry::kubernetes {
namespace {

enum class PortDefault : std::uint8_t { OfTheScheme, OfAProxy };

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

std::string part_of(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  std::string copy(text);
  curl_free(text);
  return copy;
}

// Nothing for an address, and for what is no URL, which libcurl will refuse.
void add_named_host(const std::string& text, PortDefault port_default,
                    std::vector<NamedHost>& hosts) {
  const std::unique_ptr<CURLU, FreeUrl> url(curl_url());
  if (text.empty() || !url ||
      curl_url_set(url.get(), CURLUPART_URL, text.c_str(),
                   CURLU_GUESS_SCHEME | CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    return;
  const std::string host = part_of(url.get(), CURLUPART_HOST);
  if (host.empty() || host.starts_with('[') || IpAddress::parse(host)) return;
  std::string port = part_of(url.get(), CURLUPART_PORT,
                             port_default == PortDefault::OfTheScheme ? CURLU_DEFAULT_PORT : 0);
  if (port.empty()) port = text.starts_with("https://") ? "443" : "1080";
  hosts.push_back({host, port});
}

}  // namespace

void CurlOptions::set_pem(CURLoption file_option, const std::string& file, CURLoption blob_option,
                          const std::string& pem) {
  if (!pem.empty()) {
    std::string copy = pem;
    curl_blob blob{copy.data(), copy.size(), CURL_BLOB_COPY};
    return set(blob_option, &blob);
  }
  set_text(file_option, file);
}

Result<void> CurlOptions::outcome() const {
  if (refusal_ == CURLE_OK) return {};
  return fail(std::string("libcurl refuses an option: ") + curl_easy_strerror(refusal_));
}

NamedTarget name_target(const CurlRequest& request) {
  const std::size_t authority = request.url.find("://");
  if (request.tls.server_name.empty() || authority == std::string::npos) return {request.url, ""};
  const std::size_t begin = authority + 3;
  const std::size_t end = std::min(request.url.find('/', begin), request.url.size());
  std::string host = request.url.substr(begin, end - begin);
  std::string port = "443";
  const std::size_t colon = host.rfind(':');
  if (colon != std::string::npos && host.find(']', colon) == std::string::npos) {
    port = host.substr(colon + 1);
    host.resize(colon);
  }
  return {
      request.url.substr(0, begin) + request.tls.server_name + ":" + port + request.url.substr(end),
      "::" + host + ":" + port};
}

std::vector<NamedHost> named_hosts(const std::string& server, const std::string& proxy) {
  std::vector<NamedHost> hosts;
  add_named_host(server, PortDefault::OfTheScheme, hosts);
  add_named_host(proxy, PortDefault::OfAProxy, hosts);
  if (!proxy.empty()) return hosts;
  for (const char* const variable :
       {"https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"})
    if (const char* const url = std::getenv(variable); url != nullptr)
      add_named_host(url, PortDefault::OfAProxy, hosts);
  return hosts;
}

std::string resolve_entry(const NamedHost& host) {
  std::string entry = host.host + ":" + host.port + ":";
  if (host.known.addresses.empty()) entry += "0.0.0.0";
  for (const IpAddress& address : host.known.addresses) {
    if (!entry.ends_with(':')) entry += ',';
    entry += address.is_v4() ? address.to_string() : "[" + address.to_string() + "]";
  }
  return entry;
}

// Libcurl names a file that it cannot read, but not the reason.
Result<void> check_readable(const TlsIdentity& tls) {
  for (const auto& [file, pem] : {std::pair(&tls.ca_file, &tls.ca_pem),
                                  std::pair(&tls.certificate_file, &tls.certificate_pem),
                                  std::pair(&tls.key_file, &tls.key_pem)})
    if (pem->empty() && !file->empty() && ::access(file->c_str(), R_OK) != 0)
      return fail("cannot read " + *file + ": " + std::strerror(errno));
  return {};
}

void set_tls(CurlOptions& options, const TlsIdentity& tls) {
  options.set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  options.set(CURLOPT_CA_CACHE_TIMEOUT, 0L);
  // Libcurl would trust the system's directory of certificates beside the CA that is given.
  if (!tls.ca_file.empty() || !tls.ca_pem.empty())
    options.set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  options.set_pem(CURLOPT_CAINFO, tls.ca_file, CURLOPT_CAINFO_BLOB, tls.ca_pem);
  options.set_pem(CURLOPT_SSLCERT, tls.certificate_file, CURLOPT_SSLCERT_BLOB, tls.certificate_pem);
  options.set_pem(CURLOPT_SSLKEY, tls.key_file, CURLOPT_SSLKEY_BLOB, tls.key_pem);
  if (tls.is_unverified) {
    options.set(CURLOPT_SSL_VERIFYPEER, 0L);
    options.set(CURLOPT_SSL_VERIFYHOST, 0L);
  }
}

}  // namespace meshdns::registry::kubernetes
