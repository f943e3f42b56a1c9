// SPDX-License-Identifier: Apache-2.0
// Options of one libcurl request.  Only this and curl_client.cpp know libcurl.
#pragma once

#include <curl/curl.h>

#include <string>
#include <vector>

#include "registry/source/kubernetes/curl_client.hpp"

namespace meshdns::registry::kubernetes {

// Sets options and remembers whether one was refused: a request without one of them might go to
// the wrong server, or unverified.
class CurlOptions {
 public:
  explicit CurlOptions(CURL* easy) : easy_(easy) {}

  template <typename Value>
  void set(CURLoption option, Value value) {
    if (const CURLcode code = curl_easy_setopt(easy_, option, value); code != CURLE_OK)
      refusal_ = code;
  }
  void set_text(CURLoption option, const std::string& text) {
    if (!text.empty()) set(option, text.c_str());
  }
  // A file, or its content.
  void set_pem(CURLoption file_option, const std::string& file, CURLoption blob_option,
               const std::string& pem);
  // Fails with what libcurl refused.
  Result<void> outcome() const;

 private:
  CURL* easy_;
  CURLcode refusal_ = CURLE_OK;
};

// The target of a request if the certificate is for another name than the URL's: the URL with that
// name, and the address to connect to instead.
struct NamedTarget {
  std::string url;
  std::string connect_to;  // empty: nowhere else
};
NamedTarget name_target(const CurlRequest& request);

// The hosts of the URLs of a server and its proxy that are names, and those of the proxies that the
// environment has.
std::vector<NamedHost> named_hosts(const std::string& server, const std::string& proxy);
// The entry of libcurl's table of names (CURLOPT_RESOLVE).  A host without a known address has the
// unspecified one, which libcurl must not connect to.
std::string resolve_entry(const NamedHost& host);

// Fails with the first file that cannot be read, and why.
Result<void> check_readable(const TlsIdentity& tls);
void set_tls(CurlOptions& options, const TlsIdentity& tls);

}  // namespace meshdns::registry::kubernetes
